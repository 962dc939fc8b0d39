//! A process bears others behind a checkpoint, and is rolled back to before that.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use rustix::process::Pid;
use surmise_checkpoint::{Birth, Checkpoint, Process, Traced};
use surmise_linux::proc::{self, Task};
use surmise_sys::ptrace;
use surmise_sys::seccomp::Notification;
use surmise_syscalls::Syscall;
use surmise_testkit::watchdog::LIMIT;

use crate::commands::{BACK, COMMAND, DISCARD, TAKE};
use crate::tracee::{Script, Tracee, pending};

/// Beside the other commands: its process waits.
const WAIT: u64 = 4;

/// Has the process bear others, which end before each rollback.
#[derive(Default)]
struct Forks {
    checkpoint: Option<Checkpoint>,
    /// Those that are there.
    children: Vec<Process>,
    /// Whether a child that is older than the checkpoint ends in the rollback: that child, and its call.
    has_another: bool,
    another: Option<Pid>,
    waits: Option<Notification>,
    rounds: i64,
    /// How often it is rolled back.
    limit: i64,
    pages: u64,
}

pub fn unborn(programs: &Path) {
    run(programs, &[], 20);
}

/// Two children have ended, and only one of them was never born.
pub fn told_of_another(programs: &Path) {
    run(programs, &["another"], 1);
}

fn run(programs: &Path, arguments: &[&str], rounds: i64) {
    let mut forks = Forks {
        limit: rounds,
        has_another: !arguments.is_empty(),
        ..Forks::default()
    };
    let mut tracee = Tracee::start(Command::new(programs.join("forks")).args(arguments), None);
    let (output, status) = tracee.run(&mut forks);
    assert_eq!(output, format!("forks ok after {rounds}\n"));
    assert_eq!(status, Some(0));
    assert!(forks.pages >= 32, "{} pages", forks.pages);
}

impl Forks {
    fn bear(&mut self, tracee: &mut Tracee, call: &Notification) {
        let (call, gate) = (pending(call), &mut tracee.gate);
        let halted = tracee.process.halt(&[call], Vec::new(), LIMIT, gate);
        let fork = i64::from(surmise_syscalls::row_of(Syscall::Fork).number());
        let born = halted
            .expect("halt")
            .bear(call.thread, (fork, [0; 6]), gate);
        match born.expect("bear") {
            Birth::Child(child) => self.children.push(child),
            other => panic!("{other:?}"),
        }
    }

    fn back(&mut self, tracee: &mut Tracee, call: &Notification) {
        for mut child in self.children.drain(..) {
            assert!(child.end(LIMIT).expect("end"), "it does not end");
            if self.has_another {
                // Its parent is told of its end now, and then not of the other's.
                ptrace::poll(child.pid()).expect("reap");
            }
        }
        self.let_waiting_end(tracee);
        let checkpoint = self.checkpoint.as_mut().expect("a checkpoint");
        self.pages += tracee.roll_back(Some(call), None, checkpoint, &mut |_| ());
        self.rounds += 1;
    }

    /// The end of one that waits comes after that of those that were never born.
    fn let_waiting_end(&mut self, tracee: &mut Tracee) {
        let begun = Instant::now();
        while self.has_another {
            let call = tracee.gate.next();
            let call = call.as_ref();
            match call.filter(|call| command(call) == Some(WAIT)) {
                Some(call) => self.waits = Some(*call),
                None => drop(call.map(|call| tracee.let_pass(call))),
            }
            if let Some(waits) = self.waits.take() {
                tracee.answer(&waits, 0);
                self.another = Some(waits.thread);
            }
            let state = self.another.map(|process| {
                let thread = process;
                proc::state(Task { process, thread }).expect("look")
            });
            self.has_another = state != Some(Some('Z'));
            assert!(begun.elapsed() < LIMIT, "it does not end");
        }
    }
}

/// What a call asks the supervisor for.
fn command(call: &Notification) -> Option<u64> {
    let is_command = surmise_syscalls::row_of(Syscall::Kill).number() == call.number
        && call.arguments[0] == COMMAND;
    is_command.then_some(call.arguments[1])
}

impl Script for Forks {
    fn hear(&mut self, tracee: &mut Tracee, name: Syscall, call: &Notification) {
        let is_child = self.children.iter().any(|child| child.pid() == call.thread);
        if is_child && self.checkpoint.is_some() {
            // It waits, until it ends.
            return;
        }
        match (name, command(call)) {
            (Syscall::Fork, _) if self.checkpoint.is_some() => self.bear(tracee, call),
            (_, Some(TAKE)) if self.checkpoint.is_none() => {
                self.checkpoint = Some(tracee.checkpoint(call, 0));
            }
            (_, Some(TAKE)) => tracee.answer(call, self.rounds),
            (_, Some(BACK)) if self.rounds < self.limit => self.back(tracee, call),
            (_, Some(DISCARD)) => {
                let checkpoint = self.checkpoint.take().expect("a checkpoint");
                tracee.discard(checkpoint);
                tracee.go_on(call, Traced::NoMore);
            }
            (_, Some(WAIT)) => self.waits = Some(*call),
            (_, Some(_)) => tracee.answer(call, 0),
            _ => tracee.let_pass(call),
        }
    }

    fn ended(&mut self) {
        for mut child in self.children.drain(..) {
            assert!(child.end(LIMIT).expect("end"), "it does not end");
        }
    }
}
