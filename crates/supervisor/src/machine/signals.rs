//! Which signals a process may take though that may be undone.

use std::io;

use rustix::process::Signal;
use surmise_checkpoint::{Change, Checkpoint, PendingCall, Timer};
use surmise_linux::proc::Status;
use surmise_sys::ptrace::{Interruption, SignalInfo, Stopped};

use super::process::Supervised;
use super::{Machine, task, unless_out_of_reach};
use crate::call::Call;
use crate::objects::heed::mask_of;
use crate::objects::wait::ChildWait;
use crate::world::{Signals, World};

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

/// By default these end a process, and no timer sends them, nor does the kernel for what a thread has done.
const DEADLY: [Signal; 6] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
];

impl Signals<Supervised, Checkpoint, Stopped, SignalInfo, Timer> for Machine {
    fn taken(&self, stopped: &Stopped) -> io::Result<Option<SignalInfo>> {
        unless_out_of_reach(taken(stopped), None)
    }

    fn deadly(&self, stopped: &Stopped) -> io::Result<Option<Signal>> {
        unless_out_of_reach(deadly(stopped), None)
    }

    fn might_survive(&self, image: &Checkpoint, signal: Signal) -> bool {
        // A vessel has the handlers that its process had.
        let ends = |status: Status| !status.catches(signal) && !status.ignores(signal);
        image.blocks(signal) || !Status::of(image.vessel()).is_ok_and(ends)
    }

    fn interrupt(&mut self, call: &Call, sleeps: bool) -> io::Result<bool> {
        if !unless_out_of_reach(has_signal(call), false)? {
            return Ok(false);
        }
        let how = match mask_of(call) {
            Some(_) => Interruption::Always,
            None if sleeps => Interruption::Asleep,
            None => Interruption::Never,
        };
        self.takes_nothing(call.thread());
        self.door.interrupt(call.pending(), how)
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

/// Whether a signal waits that the thread of a call would take before it makes another one.
fn has_signal(call: &Call) -> io::Result<bool> {
    let status = Status::of(call.thread())?;
    let waits_for_child = ChildWait::of(call).is_some();
    let is_noticed = |number: u32| {
        // The call would tell of the child rather than be interrupted.
        if waits_for_child && number == Signal::CHILD.as_raw().cast_unsigned() {
            return false;
        }
        let is_ignored = status.ignores_number(number) || is_one_of(&IGNORED, number.cast_signed());
        status.catches_number(number)
            || !is_ignored && number != Signal::CONT.as_raw().cast_unsigned()
    };
    // Of several threads nobody knows which of them takes what waits for their process.
    let waiting = status.waiting_for_thread()
        | match status.threads() {
            1 => status.waiting_for_process(),
            _ => 0,
        };
    let numbers = (1..=64).filter(|number| waiting >> (number - 1) & 1 != 0);
    Ok(numbers
        .into_iter()
        .any(|number| !status.blocks_number(number) && is_noticed(number)))
}

fn deadly(stopped: &Stopped) -> io::Result<Option<Signal>> {
    let told = match stopped.signal() {
        Err(error) if task::is_gone(&error) => return Ok(None),
        told => told?,
    };
    let Some(signal) = DEADLY
        .into_iter()
        .find(|signal| signal.as_raw() == told.number())
    else {
        return Ok(None);
    };
    let status = Status::of(stopped.thread())?;
    let ends = !status.catches(signal) && !status.ignores(signal) && !told.is_stop();
    Ok(ends.then_some(signal))
}

fn is_one_of(kinds: &[Signal], number: i32) -> bool {
    kinds.iter().any(|kind| kind.as_raw() == number)
}

fn taken(stopped: &Stopped) -> io::Result<Option<SignalInfo>> {
    let signal = match stopped.signal() {
        Err(error) if task::is_gone(&error) => return Ok(None),
        signal => signal?,
    };
    let number = signal.number();
    let is_own = is_one_of(&OF_WRITES, number) || signal.is_fault();
    let is_of_job = is_one_of(&OF_JOBS, number) && !signal.is_of_end();
    if number >= REAL_TIME || is_of_job || is_own || signal.is_stop() {
        return Ok(None);
    }
    // By default it would end the process. And of several threads nobody knows which of them it was sent to.
    let status = Status::of(stopped.thread())?;
    let ends_nothing = |number: u32| {
        let is_ignored = || is_one_of(&IGNORED, signal.number());
        status.catches_number(number) || status.ignores_number(number) || is_ignored()
    };
    let may_be_taken = status.threads() == 1 && ends_nothing(number.cast_unsigned());
    Ok(may_be_taken.then_some(signal))
}
