//! Signals that a process takes in a call which waits for its answer.

use std::path::Path;
use std::process::Command;

use surmise_checkpoint::{Interrupted, Traced};
use surmise_sys::ptrace::SignalInfo;
use surmise_sys::seccomp::Notification;
use surmise_syscalls::Syscall;
use surmise_testkit::watchdog::LIMIT;

use crate::commands::COMMAND;
use crate::tracee::{Script, Tracee, pending};

const WAYS: [Interrupted; 3] = [
    Interrupted::NotBegun,
    Interrupted::Fails,
    Interrupted::MayBeginAgain,
];

/// Of a call that waits in vain.
const REFUSED: i64 = 0;

const WANTED: &str = "\
not begun: heard 2 times, 1 taken
fails: EINTR, 1 taken
fails by its handler: EINTR, 1 taken
begins again by its handler: heard 2 times, 1 taken
ignored: heard 2 times, 0 taken
deadly: heard 0 times, 0 taken
blocked: heard 0 times, 0 taken
another is blocked: heard 2 times, 1 taken
";

/// Gives a signal where a call is heard first, and answers it where it is heard again.
#[derive(Default)]
struct Giver {
    heard: Option<u64>,
}

impl Giver {
    /// False if the process would not take the signal at once.
    fn give(tracee: &mut Tracee, call: &Notification) -> bool {
        let [way, number] = [call.arguments[1] & 0xff, call.arguments[1] >> 8];
        let gate = &mut tracee.gate;
        let halted = tracee
            .process
            .halt(&[pending(call)], Vec::new(), LIMIT, gate);
        let mut halted = halted.expect("halt");
        let is_open = halted.is_open_to(number as u32).expect("look");
        if is_open {
            let signal = SignalInfo::of_sender(number as i32, (77, 5), false);
            let given = halted.interrupt(signal, WAYS[way as usize]);
            given.expect("give it");
        }
        let answered = (!is_open).then_some((call.thread, REFUSED));
        halted.go_on(answered, Traced::Still, gate).expect("go on");
        is_open
    }
}

impl Script for Giver {
    fn hear(&mut self, tracee: &mut Tracee, name: Syscall, call: &Notification) {
        if name != Syscall::Kill || call.arguments[0] != COMMAND {
            return tracee.let_pass(call);
        }
        let what = call.arguments[1];
        match self.heard.take() {
            Some(heard) if heard == what => tracee.answer(call, 2),
            _ => {
                let is_given = Self::give(tracee, call);
                // One that fails is not heard again.
                self.heard = is_given.then_some(what);
            }
        }
    }
}

/// The kernel makes of the call what it would, had the signal come while the thread slept there.
pub fn in_calls(programs: &Path) {
    let mut tracee = Tracee::start(&mut Command::new(programs.join("given")), None);
    let (output, status) = tracee.run(&mut Giver::default());
    assert_eq!((output.as_str(), status), (WANTED, Some(0)));
}
