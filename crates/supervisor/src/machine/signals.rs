//! Which signals a process may take though that may be undone.

use std::io;

use rustix::fs::FileType;
use rustix::process::Signal;
use surmise_checkpoint::{Change, Checkpoint, PendingCall, Timer};
use surmise_linux::proc::Status;
use surmise_sys::ptrace::{Interruption, SignalInfo, Stopped};
use surmise_syscalls::Syscall;

use super::process::Supervised;
use super::{Machine, family, task, unless_out_of_reach};
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

/// By default these end a process. Who depends on something undecided does nothing that has them sent: its calls wait by which it would
/// send such a signal to others, make a timer (timer_create(2)) or ask for one at an event (prctl(2), mq_notify(3)).
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
        let Some(how) = unless_out_of_reach(interruption(call, sleeps), None)? else {
            return Ok(false);
        };
        let is_interrupted = self.door.interrupt(call.pending(), how)?;
        if is_interrupted {
            self.takes_nothing(call.thread());
        }
        Ok(is_interrupted)
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

/// How a call ends for a signal that waits; `None` if none does that the thread would take before it makes another call. `sleeps`: it is
/// known to sleep in the kernel, too.
fn interruption(call: &Call, sleeps: bool) -> io::Result<Option<Interruption>> {
    let status = Status::of(call.thread())?;
    // Of several threads nobody knows which of them takes what waits for their process.
    let waiting = status.waiting_for_thread()
        | match status.threads() {
            1 => status.waiting_for_process(),
            _ => 0,
        };
    if !(1..=64).any(|number| waiting >> (number - 1) & 1 != 0 && reaches(call, &status, number)) {
        return Ok(None);
    }
    Ok(Some(match (mask_of(call), call.name()) {
        // These have nothing that could be ready.
        (Some(_), Syscall::Pause | Syscall::RtSigsuspend) => Interruption::Always,
        (Some(_), _) if sleeps => Interruption::Always,
        (None, name) if ends_by_any_signal(name) => Interruption::Always,
        (None, _) if sleeps || may_sleep(call)? => Interruption::Asleep,
        _ => Interruption::Never,
    }))
}

/// Whether a signal that waits is noticed by the thread of a call, and lets the call not go on.
fn reaches(call: &Call, status: &Status, number: u32) -> bool {
    let is = |signal: Signal| signal.as_raw().cast_unsigned() == number;
    // The call would tell of the child rather than be interrupted.
    if is(Signal::CHILD) && ChildWait::of(call).is_some() || status.blocks_number(number) {
        return false;
    }
    let is_ignored = status.ignores_number(number)
        || is(Signal::CONT)
        || is_one_of(&IGNORED, number.cast_signed());
    let is_noticed = status.catches_number(number) || !is_ignored;
    is_noticed && family::is_let_in(call, status, number) != Some(false)
}

/// Whether such a call fails with `EINTR` whatever the handler is (signal(7)).
fn ends_by_any_signal(name: Syscall) -> bool {
    matches!(
        name,
        Syscall::Semop
            | Syscall::Semtimedop
            | Syscall::Msgrcv
            | Syscall::Msgsnd
            | Syscall::RtSigtimedwait
    )
}

/// Whether a call may sleep for what others do. Its handler may be there to end that, after a time. What comes to a regular file does
/// not sleep so, and programs expect none of that to fail.
fn may_sleep(call: &Call) -> io::Result<bool> {
    /// F_SETLKW and F_OFD_SETLKW of fcntl(2).
    const LOCKS: [u32; 2] = [7, 38];
    let [descriptor, command, ..] = *call.arguments();
    Ok(match call.name() {
        Syscall::Flock
        | Syscall::Accept
        | Syscall::Accept4
        | Syscall::Recvfrom
        | Syscall::Recvmsg => true,
        Syscall::Fcntl => LOCKS.contains(&(command as u32)),
        Syscall::Read | Syscall::Readv => {
            let process = task::process_of(call.thread())?;
            let kind = process.map(|process| task::file_type(process, descriptor));
            let kind = kind.transpose()?.flatten();
            let sleeps = [FileType::Fifo, FileType::Socket, FileType::CharacterDevice];
            kind.is_some_and(|kind| sleeps.contains(&kind))
        }
        _ => false,
    })
}

/// What is told of the signal that a thread has stopped to take; `None` once the thread has gone.
pub(super) fn info(stopped: &Stopped) -> io::Result<Option<SignalInfo>> {
    match stopped.signal() {
        Err(error) if task::is_gone(&error) => Ok(None),
        signal => signal.map(Some),
    }
}

fn deadly(stopped: &Stopped) -> io::Result<Option<Signal>> {
    let Some(told) = info(stopped)? else {
        return Ok(None);
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
    let Some(signal) = info(stopped)? else {
        return Ok(None);
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
