//! A process, and what it takes to stop it, to image it and to restore it.

use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use surmise_checkpoint::{
    Account, Birth, Change, Checkpoint, CheckpointError, Departing, Gate, GiveWay, Halted, Lent,
    PendingCall, Process, RollbackError, Standing, Timer, Traced,
};
use surmise_sys::memory;
use surmise_sys::ptrace::{SignalInfo, Stopped};

use super::door::Door;
use super::family::Way;
use super::{family, task};
use crate::call::Call;
use crate::error::bug;
use crate::objects::exits::Exit;
use crate::objects::wait::Told;
use crate::source::Guess;
use crate::world::{Born, Expects, Imaged, ToTell};

/// How long a thread may take to stop for an image: one that waits in the kernel for long is not worth
/// waiting for.
pub(super) const IMAGING: Duration = Duration::from_millis(10);
/// How long a process may take to stop for its rollback: it may wait for a disk.
const STOPPING: Duration = Duration::from_secs(10);

/// A process of whose threads some may be tracees.
#[derive(Debug)]
pub(crate) struct Supervised {
    pub(super) process: Process,
    /// Its threads, while it stands still.
    standing: Option<Standing>,
    /// From where they go on, once it is restored.
    departing: Option<Departing>,
}

impl Supervised {
    pub(super) fn new(process: Pid) -> io::Result<Self> {
        Ok(Self::of(Process::new(process)?))
    }

    pub(super) fn of(process: Process) -> Self {
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

    pub(super) fn discard(&mut self, image: Checkpoint) -> io::Result<()> {
        image.discard(&mut self.process)
    }

    pub(super) fn await_discarded(&self) -> io::Result<()> {
        self.process.await_discarded()
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
            Err(error) if !halted.was_killed() => return Err(error),
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

    /// Has a deputy make the call that a thread waits in, and gives the thread its result. False if that was not done.
    pub(super) fn depute(
        &mut self,
        call: &Call,
        others: &[PendingCall],
        door: &mut Door,
    ) -> io::Result<bool> {
        self.answer_by(call, others, door, |halted, made, door| {
            unless_numbered(halted.depute(made, door))
        })
    }

    /// As [`Removes::make`](crate::world::Removes::make).
    pub(super) fn make(
        &mut self,
        call: &Call,
        others: &[PendingCall],
        to_tell: ToTell<'_>,
        door: &mut Door,
    ) -> io::Result<bool> {
        self.answer_by(call, others, door, |halted, made, door| {
            let result = unless_numbered(halted.call(call.thread(), made, door))?;
            Ok(result.map(to_tell).transpose()?.flatten())
        })
    }

    /// As [`Signals::set_timer`](crate::world::Signals::set_timer).
    pub(super) fn set_timer(
        &mut self,
        call: &Call,
        others: &[PendingCall],
        door: &mut Door,
    ) -> io::Result<Option<Timer>> {
        let mut before = None;
        self.answer_by(call, others, door, |halted, made, door| {
            let set = unless_numbered(halted.set_timer(call.thread(), made, door))?.flatten();
            before = set.map(|(_, before)| before);
            Ok(set.map(|(result, _)| result))
        })?;
        Ok(before)
    }

    /// Stops all threads, and gives the one that waits in a call the result that `make` finds for that call. False if the threads do
    /// not stop, or there is none.
    pub(super) fn answer_by(
        &mut self,
        call: &Call,
        others: &[PendingCall],
        door: &mut Door,
        make: impl FnOnce(&mut Halted<'_>, (i64, [u64; 6]), &mut Door) -> io::Result<Option<i64>>,
    ) -> io::Result<bool> {
        let mut calls = vec![call.pending()];
        calls.extend(others);
        let Ok(mut halted) = self.process.halt(&calls, Vec::new(), IMAGING, door) else {
            return Ok(false);
        };
        let number = i64::from(call.row.number());
        let result = make(&mut halted, (number, *call.arguments()), door)?;
        let answered = result.map(|result| (call.thread(), result));
        halted.go_on(answered, Traced::Still, door)?;
        Ok(answered.is_some())
    }

    /// Has a call happen by which the process lends its memory.
    pub(super) fn lend(&mut self, call: &Call, door: &mut Door) -> io::Result<Lent> {
        self.process.lend(call.pending(), door)
    }

    /// Stops all threads. False if the process has ended.
    pub(super) fn stop(
        &mut self,
        calls: &[PendingCall],
        signals: Vec<Stopped>,
        give_way: GiveWay<'_>,
        door: &mut Door,
    ) -> io::Result<bool> {
        // It stands at its exit.
        if self.standing.is_some() {
            return Ok(true);
        }
        match self
            .process
            .halt_by(calls, signals, (STOPPING, give_way), door)
        {
            Ok(halted) => {
                self.standing = Some(halted.stand());
                Ok(true)
            }
            Err(CheckpointError::Ended { .. }) => Ok(false),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Restores the process, which stands still. Returns how many pages were copied; `None` if it was killed, or is now.
    pub(super) fn restore(
        &mut self,
        image: Checkpoint,
        has_undone: bool,
        door: &mut Door,
    ) -> io::Result<Option<u64>> {
        let Some(standing) = self.standing.take() else {
            return Err(bug("a process is restored that does not stand still"));
        };
        let mut halted = standing.of(&mut self.process);
        let mut restored = halted.restore_for_good(image, door);
        if has_undone && restored.is_ok() {
            restored = halted.learn_sizes(door).and(restored);
        }
        self.standing = Some(halted.stand());
        match restored {
            Ok((restored, departing)) => {
                self.departing = Some(departing);
                Ok(Some(restored.pages))
            }
            // Its end is an event to come.
            Err(RollbackError::Ended { .. }) => Ok(None),
            // Nothing else could become of it than its end.
            Err(RollbackError::Lost { .. }) => self.destroy().map(|()| None),
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
            // It was killed meanwhile; its end is an event to come.
            Ok(()) | Err(RollbackError::Ended { .. }) => Ok(()),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// What the process has used, which stands still, and whose it is; `None` if it was killed.
    pub(super) fn account(&mut self, door: &mut Door) -> io::Result<Option<Account>> {
        self.with_halted(|halted| halted.account(door))
    }

    /// Has the process close all that it has open, which stands still.
    pub(super) fn close_files(&mut self, door: &mut Door) -> io::Result<()> {
        match self.standing {
            Some(_) => self
                .with_halted(|halted| halted.close_files(door))
                .map(drop),
            None => Ok(()),
        }
    }

    /// Has the process exit, which stands still, and returns when it has ended.
    pub(super) fn exit(&mut self, status: u8, door: &mut Door) -> io::Result<()> {
        match self.standing.take() {
            Some(standing) => standing.of(&mut self.process).exit(status, door),
            // It was killed.
            None => Ok(()),
        }
    }

    /// Answers a call of a thread that is to know of an exit, and has the thread take the signal before, if it takes that. Without
    /// an answer the call is made again. False if it was neither.
    pub(super) fn tell(
        &mut self,
        call: &Call,
        (exit, told): (&Exit, Option<&Told>),
        (way, others): (Way, &[PendingCall]),
        door: &mut Door,
    ) -> io::Result<bool> {
        if let (Way::Nowhere, Some(told)) = (way, told) {
            return self.fill_and_answer(call, told, door);
        }
        let mut calls = vec![call.pending()];
        calls.extend(others.iter().filter(|other| other.thread != call.thread()));
        let Ok(mut halted) = self.process.halt(&calls, Vec::new(), IMAGING, door) else {
            return Ok(false);
        };
        let is_told = told.is_none_or(|told| fill(halted.pid(), told));
        let answered = told.filter(|_| is_told);
        let answered = answered.map(|told| (call.thread(), told.result));
        if is_told {
            let (ending, account) = (&exit.ending, &exit.account);
            let number = ending.number as i32;
            let signal = SignalInfo::of_exit(number, account.user, ending.status, account.times);
            let given = match way {
                Way::Taken => {
                    halted.give(call.thread(), signal);
                    Ok(())
                }
                _ => halted.send(&signal, door),
            };
            match given {
                Err(error) if !halted.was_killed() => return Err(error),
                _ => {}
            }
        }
        halted.go_on(answered, Traced::Still, door)?;
        Ok(is_told)
    }

    /// Answers a call by which a thread looks for children. False if it was not answered.
    pub(super) fn fill_and_answer(
        &self,
        call: &Call,
        told: &Told,
        door: &mut Door,
    ) -> io::Result<bool> {
        Ok(fill(self.process.pid(), told) && door.answer(call.pending(), told.result)?)
    }

    /// Has the process, which stands still, hear no more of the end of a child that it knows of, and reap the child if it has
    /// collected that.
    pub(super) fn reap(
        &mut self,
        exit: &Exit,
        before: &Expects,
        door: &mut Door,
    ) -> io::Result<()> {
        let pid = self.process.pid();
        let child = exit.ending.number as i32;
        let reaped = self.with_halted(|halted| {
            if exit.is_collected() {
                halted.reap_child(child, door)?;
            }
            let zombies = family::zombies(pid).unwrap_or_default();
            let others = zombies
                .iter()
                .any(|zombie| *zombie != exit.child && !before.zombies.contains(zombie));
            // Only one waits at a time: an earlier one was not for this end, and a later one was lost for it.
            match before.has_signal || others {
                true => Ok(()),
                false => halted.forget_end(child),
            }
        });
        reaped.map(drop)
    }

    /// What the process, which stands still, could be told of its children.
    pub(super) fn expects(&mut self) -> io::Result<Expects> {
        let zombies = family::zombies(self.process.pid()).unwrap_or_default();
        let has_signal = self.with_halted(|halted| halted.has_waiting(Signal::CHILD))?;
        Ok(Expects {
            zombies,
            has_signal: has_signal.unwrap_or(false),
        })
    }

    /// Gives the process, which stands still, its timer back.
    pub(super) fn restore_timer(&mut self, before: &Timer, door: &mut Door) -> io::Result<()> {
        self.with_halted(|halted| halted.restore_timer(before, door))
            .map(drop)
    }

    /// Sends signals again to the process, which stands still.
    pub(super) fn send_again(&mut self, signals: &[SignalInfo], door: &mut Door) -> io::Result<()> {
        for signal in signals {
            self.with_halted(|halted| halted.send(signal, door))?;
        }
        Ok(())
    }

    /// Does something with the process, which stands still, and leaves it so. `None` if it was killed meanwhile, which is
    /// an event to come.
    pub(super) fn with_halted<T>(
        &mut self,
        act: impl FnOnce(&mut Halted<'_>) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        let Some(standing) = self.standing.take() else {
            return Err(bug("a process is looked at that does not stand still"));
        };
        let mut halted = standing.of(&mut self.process);
        let done = act(&mut halted);
        self.standing = Some(halted.stand());
        match done {
            Err(error) if self.process.has_ended_by(&error) => Ok(None),
            done => done.map(Some),
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

/// Puts into a process' memory what it is told. False if there is no room for it.
pub(super) fn fill(process: Pid, told: &Told) -> bool {
    let mut memory = told.memory.iter();
    memory.all(|(address, bytes)| memory::write(process, *address, bytes).is_ok())
}

/// Has the threads of a process make the calls once more that they sleep in, if they can be stopped soon.
pub(super) fn rouse(
    process: Pid,
    calls: &[PendingCall],
    traced: Traced,
    door: &mut Door,
) -> io::Result<()> {
    let Ok(mut process) = Process::new(process) else {
        return Ok(());
    };
    match process.halt(calls, Vec::new(), IMAGING, door) {
        Ok(halted) => halted.go_on(None, traced, door),
        Err(_) => Ok(()),
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

/// Nothing where the kernel has refused.
pub(super) fn unless_numbered<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.raw_os_error().is_none() => Err(error),
        result => Ok(result.ok()),
    }
}
