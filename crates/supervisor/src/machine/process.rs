//! A process, and what it takes to stop it, to image it and to restore it.

use std::io;
use std::time::Duration;

use rustix::process::Pid;
use surmise_checkpoint::{
    Birth, Change, Checkpoint, CheckpointError, Departing, Gate, Halted, PendingCall, Process,
    Standing, Traced,
};
use surmise_sys::memory;
use surmise_sys::ptrace::Stopped;

use super::door::Door;
use super::task;
use crate::call::Call;
use crate::error::bug;
use crate::source::Guess;
use crate::world::{Born, Imaged};

/// How long a thread may take to stop for an image: one that waits in the kernel for long is not worth
/// waiting for.
const IMAGING: Duration = Duration::from_millis(10);
/// How long a process may take to stop for its rollback: it may wait for a disk.
const STOPPING: Duration = Duration::from_secs(10);
/// How long a process that was killed may take to be seen to have ended.
const ENDING: Duration = Duration::from_secs(2);

/// A process of whose threads some may be tracees.
#[derive(Debug)]
pub(crate) struct Supervised {
    process: Process,
    /// Its threads, while it stands still.
    standing: Option<Standing>,
    /// From where they go on, once it is restored.
    departing: Option<Departing>,
}

impl Supervised {
    pub(super) fn new(process: Pid) -> io::Result<Self> {
        Ok(Self::of(Process::new(process)?))
    }

    fn of(process: Process) -> Self {
        Self {
            process,
            standing: None,
            departing: None,
        }
    }

    pub(super) fn pid(&self) -> Pid {
        self.process.pid()
    }

    pub(super) fn has(&self, thread: Pid) -> bool {
        self.process.has(thread)
    }

    pub(super) fn traces(&self, thread: Pid) -> bool {
        self.process.traces(thread)
    }

    pub(super) fn is_traced(&self) -> bool {
        self.process.is_traced()
    }

    pub(super) fn born(&mut self, thread: Pid) {
        self.process.born(thread);
    }

    pub(super) fn ended(&mut self, thread: Pid) {
        self.process.ended(thread);
    }

    pub(super) fn executes(&mut self) {
        self.process.executes();
    }

    pub(super) fn discard(&mut self, image: Checkpoint) -> io::Result<()> {
        image.discard(&mut self.process)
    }

    /// Takes an image while a thread waits in a call, and gives that its guess.
    pub(super) fn take_image(
        &mut self,
        call: &Call,
        (guess, changes): (&Guess, Option<Change>),
        others: &[PendingCall],
        door: &mut Door,
    ) -> io::Result<Imaged<Checkpoint>> {
        let before = match self.process.is_traced() {
            true => Traced::Still,
            false => Traced::NoMore,
        };
        let mut calls = vec![call.pending()];
        calls.extend(others);
        let Ok(mut halted) = self.process.halt(&calls, Vec::new(), IMAGING, door) else {
            return Ok(Imaged::Failed);
        };
        let Ok(mut image) = halted.checkpoint(door) else {
            halted.go_on(None, before, door)?;
            return Ok(Imaged::Failed);
        };
        if let Some(change) = changes {
            image.note(halted.pid(), change);
        }
        let result = match carry_out(&mut halted, call, guess, door) {
            Err(error) if !task::is_gone(&error) => return Err(error),
            result => result.ok().flatten(),
        };
        let answered = result.map(|result| (call.thread(), result));
        halted.go_on(answered, Traced::Still, door)?;
        Ok(Imaged::Taken {
            image,
            answered: answered.is_some(),
        })
    }

    /// Has a thread that waits in a call which bears a process make that call.
    pub(super) fn bear(
        &mut self,
        call: &Call,
        others: &[PendingCall],
        door: &mut Door,
    ) -> io::Result<Born<Self>> {
        let mut calls = vec![call.pending()];
        calls.extend(others);
        let Ok(halted) = self.process.halt(&calls, Vec::new(), IMAGING, door) else {
            return Ok(Born::Unmade);
        };
        let number = i64::from(call.row.number());
        let birth = halted.bear(call.thread(), (number, *call.arguments()), door)?;
        Ok(match birth {
            Birth::Child(child) => Born::Child(child.pid(), Self::of(child)),
            Birth::Childless => Born::Childless,
            Birth::Unmade => Born::Unmade,
        })
    }

    /// Stops all threads. False if the process has ended.
    pub(super) fn stop(
        &mut self,
        calls: &[PendingCall],
        signals: Vec<Stopped>,
        door: &mut Door,
    ) -> io::Result<bool> {
        match self.process.halt(calls, signals, STOPPING, door) {
            Ok(halted) => {
                self.standing = Some(halted.stand());
                Ok(true)
            }
            Err(CheckpointError::Ended { .. }) => Ok(false),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Restores the process, which stands still. Returns how many pages were copied; `None` if it was killed.
    pub(super) fn restore(
        &mut self,
        image: Checkpoint,
        has_undone: bool,
        door: &mut Door,
    ) -> io::Result<Option<u64>> {
        let Some(standing) = self.standing.take() else {
            return Err(bug("a process is restored that does not stand still"));
        };
        if has_undone {
            image.learn_sizes();
        }
        let mut halted = standing.of(&mut self.process);
        let restored = halted.restore_for_good(image, door);
        self.standing = Some(halted.stand());
        match restored {
            Ok((restored, departing)) => {
                self.departing = Some(departing);
                Ok(Some(restored.pages))
            }
            Err(_) if self.process.has_ended() => Ok(None),
            Err(error) if error.is_gone() && self.process.ends_within(ENDING) => Ok(None),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Lets the process go on, which stands still.
    pub(super) fn resume(&mut self, traced: Traced, door: &mut Door) -> io::Result<()> {
        let Some(standing) = self.standing.take() else {
            return Err(bug("a process is to go on that does not stand still"));
        };
        let halted = standing.of(&mut self.process);
        let Some(departing) = self.departing.take() else {
            return halted.go_on(None, traced, door);
        };
        match halted.depart(&departing, traced, door) {
            Ok(()) => Ok(()),
            // It was killed meanwhile; its end is an event to come.
            Err(_) if self.process.has_ended() => Ok(()),
            Err(error) if error.is_gone() && self.process.ends_within(ENDING) => Ok(()),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Kills the process, and returns when it has ended and maps no memory.
    pub(super) fn destroy(&mut self) -> io::Result<()> {
        match self.process.end(STOPPING)? {
            true => Ok(()),
            false => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// What the caller is to be told, the process being halted; `None` where the call shall happen. What has
/// to happen for that does.
fn carry_out(
    halted: &mut Halted<'_>,
    call: &Call,
    guess: &Guess,
    gate: &mut dyn Gate,
) -> io::Result<Option<i64>> {
    let number = i64::from(call.row.number());
    let mut arguments = *call.arguments();
    match guess {
        Guess::Result(result) => Ok(Some(*result)),
        Guess::Truth => Ok(None),
        Guess::Short(length) => {
            arguments[2] = *length;
            halted
                .call(call.thread(), (number, arguments), gate)
                .map(Some)
        }
        Guess::Attributes(stale) => {
            let result = halted.call(call.thread(), (number, arguments), gate)?;
            if result == 0 {
                let place = stale.address + stale.offset;
                let word = task::word(halted.pid(), place)?;
                let changed = word.wrapping_add_signed(stale.change);
                memory::write(halted.pid(), place, &changed.to_ne_bytes())?;
            }
            Ok(Some(result))
        }
    }
}
