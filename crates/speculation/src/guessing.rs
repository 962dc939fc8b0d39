//! Giving a task a guessed result.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use surmise_checkpoint::{Checkpoint, Gate, Halted, Process, Traced};
use surmise_engine::{CkptId, Guess as Permission, Id, Owner, TaskId};
use surmise_sys::memory;
use surmise_sys::seccomp::Notification;

use crate::deciding::Occasion;
use crate::door::{Door, pending};
use crate::speculator::{Speculator, SpeculatorError, fail, refused};
use crate::task;
use crate::torture::Guess;
use crate::tracked::{self, Meeting};

/// How long a thread may take to stop for a checkpoint: one that waits in the kernel for long is not worth
/// waiting for.
const PATIENCE: Duration = Duration::from_millis(10);

impl Speculator {
    /// Gives the caller a guess, if it can be taken back. True if the call was answered, or will be made
    /// again.
    pub(crate) fn guess(
        &mut self,
        call: &Notification,
        name: &str,
    ) -> Result<bool, SpeculatorError> {
        let Some(process) = task::process_of(call.thread).map_err(fail("find a process"))? else {
            return Ok(false);
        };
        let guess = self
            .torture
            .as_mut()
            .and_then(|torture| torture.guess(name, &call.arguments));
        let Some(guess) = guess else {
            return Ok(false);
        };
        let Some(takes) = self.takes(process, call, &guess)? else {
            return Ok(false);
        };
        if !self.admit(process)? {
            return Ok(false);
        }
        let outcome = self.try_guess(process, call, (&guess, takes))?;
        if outcome == Outcome::Given {
            self.stats.call(name).predictions += 1;
        }
        let members = &self.members;
        if members
            .get(&process)
            .is_some_and(|member| member.images() == 0)
        {
            self.dismiss(process)?;
        }
        Ok(outcome != Outcome::Waits)
    }

    /// What it takes that as much happens as the guess wants; `None` if a rollback would not undo it. A call
    /// that is answered does not happen at all.
    fn takes(
        &self,
        process: Pid,
        call: &Notification,
        guess: &Guess,
    ) -> Result<Option<Meeting>, SpeculatorError> {
        if matches!(guess, Guess::Result(_)) {
            return Ok(Some(Meeting::Pass("none")));
        }
        let Some(channels) = &self.channels else {
            return Ok(None);
        };
        match tracked::meet(process, call, self.known(process, channels)) {
            Ok(meeting @ (Meeting::Pass(_) | Meeting::Note(_))) => Ok(Some(meeting)),
            // The call is made again behind a checkpoint, and met then.
            Ok(meeting @ (Meeting::Hold { .. } | Meeting::Peek(_) | Meeting::Change(_))) => {
                Ok((*guess == Guess::Truth).then_some(meeting))
            }
            Ok(Meeting::Wait) => Ok(None),
            Err(error) if task::is_out_of_reach(&error) => Ok(None),
            Err(error) => Err(fail("look at a call")(error)),
        }
    }

    fn try_guess(
        &mut self,
        process: Pid,
        call: &Notification,
        (guess, takes): (&Guess, Meeting),
    ) -> Result<Outcome, SpeculatorError> {
        let member = &self.members[&process];
        let task = member.task;
        let age = member.newest().map(|taken| taken.elapsed());
        let torture = self.torture.as_mut();
        let is_simple = matches!(guess, Guess::Result(_) | Guess::Truth);
        let may_share = is_simple
            && matches!(takes, Meeting::Pass(_))
            && age
                .zip(torture)
                .is_some_and(|(age, torture)| torture.may_share(age));
        match self.predict(task, may_share)? {
            Permission::Wait(_) => Ok(Outcome::Waits),
            Permission::Go(id) => {
                self.given(id, process, call, guess);
                let answered = match guess {
                    Guess::Result(result) => self.door.answer(pending(call), *result),
                    _ => self.door.let_pass(pending(call)),
                };
                answered
                    .map(|_| Outcome::Given)
                    .map_err(fail("answer a call"))
            }
            Permission::CheckpointFirst(_) => {
                self.guess_at_checkpoint(process, call, (guess, takes))
            }
        }
    }

    /// As [`Self::try_guess`], with a checkpoint of this moment.
    fn guess_at_checkpoint(
        &mut self,
        process: Pid,
        call: &Notification,
        (guess, takes): (&Guess, Meeting),
    ) -> Result<Outcome, SpeculatorError> {
        let begun = Instant::now();
        let Some(member) = self.members.get_mut(&process) else {
            return Ok(Outcome::Waits);
        };
        let (task, group) = (member.task, member.group);
        if let Meeting::Note(change) = takes {
            member.note(change);
        }
        let taken = take_checkpoint(&mut member.process, call, (guess, &takes), &mut self.door)?;
        let (checkpoint, is_answered) = match taken {
            Ok(taken) => taken,
            Err(outcome) => {
                if outcome == Outcome::Again
                    && let Some(torture) = &mut self.torture
                {
                    torture.be_truthful(call.thread);
                }
                return Ok(outcome);
            }
        };
        if !is_answered && let Some(torture) = &mut self.torture {
            torture.be_truthful(call.thread);
        }
        self.checkpoints += 1;
        let ckpt = CkptId(self.checkpoints);
        member.keep(ckpt, checkpoint);
        self.stats.checkpoints.add(begun.elapsed());
        let mut effects = Vec::new();
        let told = self.engine.checkpointed(group, ckpt, &mut effects);
        told.map_err(refused("note a checkpoint"))?;
        self.perform(effects, &mut Occasion::default())?;
        match self.predict(task, true)? {
            Permission::Go(id) => self.given(id, process, call, guess),
            other => {
                let error = format!("after a checkpoint: {other:?}");
                return Err(fail("make a prediction")(io::Error::other(error)));
            }
        }
        Ok(Outcome::Given)
    }

    fn predict(&mut self, task: TaskId, may_share: bool) -> Result<Permission, SpeculatorError> {
        let mut effects = Vec::new();
        let answer = self
            .engine
            .predict(task, Owner::Outside, may_share, &mut effects);
        let answer = answer.map_err(refused("make a prediction"))?;
        self.perform(effects, &mut Occasion::default())?;
        Ok(answer)
    }

    fn given(&mut self, id: Id, process: Pid, call: &Notification, guess: &Guess) {
        self.stats.predictions += 1;
        if let Some(torture) = &mut self.torture {
            torture.given(id, process, call.thread, guess);
        }
    }
}

/// What came of a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The caller was given it.
    Given,
    /// It was not, and the caller makes its call again.
    Again,
    /// It was not, and the caller still waits for its answer.
    Waits,
}

/// Takes a checkpoint of a process whose thread waits in a call, and gives that its result. Tells whether it
/// got one; if not, it makes the call again.
fn take_checkpoint(
    process: &mut Process,
    call: &Notification,
    (guess, takes): (&Guess, &Meeting),
    door: &mut Door,
) -> Result<Result<(Checkpoint, bool), Outcome>, SpeculatorError> {
    let before = match process.is_traced() {
        true => Traced::Still,
        false => Traced::NoMore,
    };
    let others = door.take_pending(|thread| process.has(thread));
    let mut calls = vec![pending(call)];
    calls.extend(others.iter().map(pending));
    let Ok(mut halted) = process.halt(&calls, None, PATIENCE, door) else {
        // Nothing is lost. Calls that still wait come up again; the others are made again.
        let put_back = door.put_back(others);
        let still_waits = put_back.and_then(|()| door.still_waits(call));
        return match still_waits.map_err(fail("look at a call"))? {
            true => Ok(Err(Outcome::Waits)),
            false => Ok(Err(Outcome::Again)),
        };
    };
    let Ok(mut checkpoint) = halted.checkpoint(door) else {
        let gone_on = halted.go_on(None, before, door);
        return gone_on
            .map(|()| Err(Outcome::Again))
            .map_err(fail("let a process go on"));
    };
    if let Meeting::Note(change) = takes {
        checkpoint.note(halted.pid(), *change);
    }
    let result = match carry_out(&mut halted, call, guess, door) {
        Err(error) if !task::is_gone(&error) => return Err(fail("have a guess happen")(error)),
        result => result.ok().flatten(),
    };
    let answered = result.map(|result| (call.thread, result));
    let gone_on = halted.go_on(answered, Traced::Still, door);
    gone_on.map_err(fail("let a process go on"))?;
    Ok(Ok((checkpoint, answered.is_some())))
}

/// What the caller is to be told, the process being halted; `None` where the call shall happen. What has
/// to happen for that does.
fn carry_out(
    halted: &mut Halted<'_>,
    call: &Notification,
    guess: &Guess,
    gate: &mut dyn Gate,
) -> io::Result<Option<i64>> {
    let number = i64::from(call.number);
    let mut arguments = call.arguments;
    match guess {
        Guess::Result(result) => Ok(Some(*result)),
        Guess::Truth => Ok(None),
        Guess::Short(length) => {
            arguments[2] = *length;
            halted
                .call(call.thread, (number, arguments), gate)
                .map(Some)
        }
        Guess::Attributes(stale) => {
            let result = halted.call(call.thread, (number, arguments), gate)?;
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
