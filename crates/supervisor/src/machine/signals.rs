//! Which signals a process may take though that may be undone.

use std::io;

use rustix::process::Signal;
use surmise_checkpoint::{Change, PendingCall, Timer};
use surmise_linux::proc::Status;
use surmise_sys::ptrace::{SignalInfo, Stopped};

use super::process::Supervised;
use super::{Machine, task, unless_out_of_reach};
use crate::call::Call;
use crate::world::Signals;

/// The first of the kinds of which any number waits, in order. What came later would come before what is sent again.
const REAL_TIME: i32 = 32;

/// These are about jobs, or about children that have stopped: the kernel does more than to have a process take them. But
/// `SIGCHLD` tells of ends, too.
const OF_JOBS: [Signal; 6] = [
    Signal::CHILD,
    Signal::CONT,
    Signal::STOP,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
];

/// The kernel sends these to a thread for what that has written.
const OF_WRITES: [Signal; 2] = [Signal::PIPE, Signal::XFSZ];

/// A process that does not say what these do ignores them.
const IGNORED: [Signal; 3] = [Signal::URG, Signal::WINCH, Signal::CHILD];

impl Signals<Supervised, Stopped, SignalInfo, Timer> for Machine {
    fn taken(&self, stopped: &Stopped) -> io::Result<Option<SignalInfo>> {
        unless_out_of_reach(taken(stopped), None)
    }

    fn is_of_timer(&self, signal: &SignalInfo) -> bool {
        signal.is_of_timer()
    }

    fn changes(&self, signal: &SignalInfo) -> [Change; 2] {
        let number = signal.number().cast_unsigned();
        [Change::Handler(number), Change::SignalStack]
    }

    fn send_again(&mut self, process: &mut Supervised, signals: &[SignalInfo]) -> io::Result<()> {
        process.send_again(signals, &mut self.door)
    }

    fn set_timer(
        &mut self,
        process: &mut Supervised,
        call: &Call,
        others: &[PendingCall],
    ) -> io::Result<Option<Timer>> {
        process.set_timer(call, others, &mut self.door)
    }

    fn restore_timer(&mut self, process: &mut Supervised, before: &Timer) -> io::Result<()> {
        process.restore_timer(before, &mut self.door)
    }
}

fn taken(stopped: &Stopped) -> io::Result<Option<SignalInfo>> {
    let signal = match stopped.signal() {
        Err(error) if task::is_gone(&error) => return Ok(None),
        signal => signal?,
    };
    let number = signal.number();
    let is_one_of = |kinds: &[Signal]| kinds.iter().any(|kind| kind.as_raw() == number);
    let is_own = is_one_of(&OF_WRITES) || signal.is_fault();
    let is_of_job = is_one_of(&OF_JOBS) && !signal.is_of_end();
    if number >= REAL_TIME || is_of_job || is_own || signal.is_stop() {
        return Ok(None);
    }
    // By default it would end the process. And of several threads nobody knows which of them it was sent to.
    let status = Status::of(stopped.thread())?;
    let ends_nothing = |number: u32| {
        status.catches_number(number) || status.ignores_number(number) || is_one_of(&IGNORED)
    };
    let may_be_taken = status.threads() == 1 && ends_nothing(number.cast_unsigned());
    Ok(may_be_taken.then_some(signal))
}
