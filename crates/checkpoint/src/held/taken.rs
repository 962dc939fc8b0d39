//! Signals that a thread has stopped to take: they go back to where they waited.
//!
//! So each is taken when the thread goes on, by whatever mask and handlers it has then: the kernel decides that
//! as for any other, and its tracer hears of it as of any other. One that was only kept here would come without
//! its tracer being asked, so a rollback after that would lose it.

use std::io;

use rustix::process::Signal;
use surmise_sys::ptrace::{Queue, SignalInfo, Stopped};

use super::{ALL_SIGNALS, bit};

const CONTINUE: i32 = Signal::CONT.as_raw();
const STOPS: [i32; 4] = [
    Signal::STOP.as_raw(),
    Signal::TSTP.as_raw(),
    Signal::TTIN.as_raw(),
    Signal::TTOU.as_raw(),
];

/// What a thread has stopped to take on its way to the stop in which it is held.
#[derive(Default)]
pub(super) struct Taken {
    /// What it takes when it goes on, whatever its mask.
    kept: Vec<SignalInfo>,
    back: Option<Back>,
}

/// A signal on its way back.
struct Back {
    signal: SignalInfo,
    /// The thread's own mask.
    mask: u64,
    /// How many like it waited already.
    before: [usize; 2],
}

/// A signal that was put back, behind others that may have come later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Returned {
    pub(super) signal: SignalInfo,
    pub(super) queue: Queue,
}

impl Taken {
    /// Has a thread go on that was asked to stop and has stopped to take a signal before. Without the signal it
    /// comes to the next stop before it executes anything.
    pub(super) fn refuse(&mut self, stopped: Stopped) -> io::Result<()> {
        let signal = stopped.signal()?;
        if is_undone(&stopped, &signal)? {
            return stopped.go_on();
        }
        // Another would have come to the stop that was asked for: all others are blocked by then.
        if self.back.is_some() || !can_wait(&signal) {
            self.kept.push(signal);
            return stopped.go_on();
        }
        self.back = Some(Back {
            signal,
            mask: stopped.signal_mask()?,
            before: alike(&stopped, &signal)?,
        });
        stopped.set_signal_mask(ALL_SIGNALS)?;
        stopped.go_on_with(&signal)
    }

    /// The thread's mask, if it has another one now.
    pub(super) fn mask(&self) -> Option<u64> {
        self.back.as_ref().map(|back| back.mask)
    }

    /// What came of it, the thread being in a later stop: what it is to take in any case, and what waits again.
    pub(super) fn settle(
        self,
        stopped: &Stopped,
    ) -> io::Result<(Vec<SignalInfo>, Option<Returned>)> {
        let Some(Back { signal, before, .. }) = self.back else {
            return Ok((self.kept, None));
        };
        let now = alike(stopped, &signal)?;
        let queue = if now[0] > before[0] {
            Some(Queue::Thread)
        } else if now[1] > before[1] {
            Some(Queue::Process)
        } else {
            // One of its number came meanwhile, and only one waits, whatever is told of it. Or another thread has
            // taken it since.
            let [thread, process] = waiting(stopped)?;
            let is_alike = |other: &SignalInfo| other.number() == signal.number();
            let found = |queue, signals: Vec<_>| signals.iter().any(is_alike).then_some(queue);
            found(Queue::Thread, thread).or_else(|| found(Queue::Process, process))
        };
        let returned = queue.map(|queue| Returned { signal, queue });
        Ok((self.kept, returned))
    }
}

/// Whether a signal that a thread has stopped to take can wait again: not SIGSTOP and a sent SIGTRAP, which
/// nothing here blocks; and what the thread has caused itself belongs to the instruction at which it stands.
fn can_wait(signal: &SignalInfo) -> bool {
    let number = signal.number();
    !signal.is_fault() && number != STOPS[0] && ALL_SIGNALS & bit(number) != 0
}

/// Whether a signal that stops or continues a job was undone since it was taken from its queue. The kernel does
/// that to those that wait when one of the other kind is sent, and would now do it to the later one.
pub(super) fn is_undone(stopped: &Stopped, signal: &SignalInfo) -> io::Result<bool> {
    let by: &[i32] = match signal.number() {
        CONTINUE => &STOPS,
        number if STOPS.contains(&number) => &[CONTINUE],
        _ => return Ok(false),
    };
    let waiting = waiting(stopped)?;
    let mut waiting = waiting.iter().flatten();
    Ok(waiting.any(|later| by.contains(&later.number())))
}

fn waiting(stopped: &Stopped) -> io::Result<[Vec<SignalInfo>; 2]> {
    Ok([
        stopped.queued(Queue::Thread)?,
        stopped.queued(Queue::Process)?,
    ])
}

/// How many of which the same is told wait for the thread, and for its process.
fn alike(stopped: &Stopped, signal: &SignalInfo) -> io::Result<[usize; 2]> {
    let count = |queue: Vec<_>| queue.iter().filter(|other| *other == signal).count();
    Ok(waiting(stopped)?.map(count))
}
