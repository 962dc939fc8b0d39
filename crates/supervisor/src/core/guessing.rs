//! Giving a task a guess.

use rustix::process::Pid;
use surmise_engine::{Guess as Permission, Owner, TaskId};
use surmise_sys::seccomp::Answer;

use super::Core;
use super::imaging::Shot;
use crate::call::Call;
use crate::error::{SupervisorError, bug, fail, refused};
use crate::meeting::Meeting;
use crate::source::{Guess, Offer};
use crate::world::World;

/// What came of a guess.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Guessed {
    /// The caller was given it.
    Given,
    /// It is the truth, behind an image that was there: the caller still waits for its answer, and its call happens as any
    /// other that its process makes while it depends on something undecided.
    Foreseen(Meeting),
    /// It was not given, and the caller makes its call again.
    Again,
    /// It was not given, and the caller still waits for its answer.
    Waits,
}

impl<W: World> Core<W> {
    /// Gives the caller a guess, if it can be taken back.
    pub(super) fn guess(&mut self, call: &Call, offer: &Offer) -> Result<Guessed, SupervisorError> {
        let Some(process) = self.caller(call)? else {
            return Ok(Guessed::Waits);
        };
        let waits = self.waits.have_signal(process) || self.waits.have_sleeper(process);
        if waits || self.is_to_execute(process)? || self.is_waited_for(process)? {
            return Ok(Guessed::Waits);
        }
        let Some(takes) = self.takes(process, call, &offer.guess)? else {
            return Ok(Guessed::Waits);
        };
        if !self.admit(process)? {
            return Ok(Guessed::Waits);
        }
        let guessed = self.try_guess(process, call, (offer, takes))?;
        if matches!(guessed, Guessed::Given | Guessed::Foreseen(_)) {
            self.stats.call(call.name()).predictions += 1;
        }
        if self.may_go(process)? {
            self.dismiss(process)?;
        }
        Ok(guessed)
    }

    /// Whether something waits for what a process was guessed. A further prediction would have that wait longer, and
    /// one after another for ever.
    pub(super) fn is_waited_for(&self, process: Pid) -> Result<bool, SupervisorError> {
        for node in self.waits.awaited() {
            for id in self.sources.given_to(process) {
                let depends = self.engine.depends_on(node, id);
                if depends.map_err(refused("look at a node"))? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// What it takes that as much happens as the guess wants; `None` if a rollback would not undo it. A call
    /// that is answered does not happen at all.
    fn takes(
        &mut self,
        process: Pid,
        call: &Call,
        guess: &Guess,
    ) -> Result<Option<Meeting>, SupervisorError> {
        if matches!(guess, Guess::Result(_)) {
            return Ok(Some(Meeting::Pass(crate::kind::Kind::None)));
        }
        Ok(match self.meet(process, call)? {
            meeting @ (Meeting::Pass(_) | Meeting::Note(_) | Meeting::NoteInNew(_)) => {
                Some(meeting)
            }
            // The call is made again behind an image, and met then.
            meeting @ (Meeting::Act(_)
            | Meeting::Move(_)
            | Meeting::SetTimer
            | Meeting::Depute(_)
            | Meeting::Signal(_)
            | Meeting::Bear
            | Meeting::Lend { .. }) => (*guess == Guess::Truth).then_some(meeting),
            // It is likely to be the first thing that its process does, and takes no image then.
            Meeting::Execute | Meeting::Wait => None,
        })
    }

    fn try_guess(
        &mut self,
        process: Pid,
        call: &Call,
        (offer, takes): (&Offer, Meeting),
    ) -> Result<Guessed, SupervisorError> {
        let Some(member) = self.members.get(&process) else {
            return Ok(Guessed::Waits);
        };
        let task = member.task;
        let now = self.world.now();
        let age = member.newest().map(|taken| now.duration_since(taken));
        let may_share = offer.guess.is_simple()
            && !member.has_lost_newest()
            && age.is_some_and(|age| self.sources.may_share(offer, age));
        match self.predict(task, may_share)? {
            Permission::Wait(_) => Ok(Guessed::Waits),
            Permission::Go(id) => {
                self.given(id, process, call, offer);
                let Guess::Result(result) = offer.guess else {
                    return Ok(Guessed::Foreseen(takes));
                };
                self.respond(call, Answer::Value(result))?;
                Ok(Guessed::Given)
            }
            Permission::CheckpointFirst(_) => {
                self.guess_at_checkpoint(process, call, (offer, &takes))
            }
        }
    }

    /// As [`Self::try_guess`], with an image of this moment.
    fn guess_at_checkpoint(
        &mut self,
        process: Pid,
        call: &Call,
        (offer, takes): (&Offer, &Meeting),
    ) -> Result<Guessed, SupervisorError> {
        let Some(member) = self.members.get(&process) else {
            return Ok(Guessed::Waits);
        };
        let task = member.task;
        let change = match takes {
            Meeting::Note(change) | Meeting::NoteInNew(change) => Some(*change),
            _ => None,
        };
        match self.take_image(process, call, (&offer.guess, change))? {
            Shot::Taken => {}
            Shot::Again => return Ok(Guessed::Again),
            Shot::Waits => return Ok(Guessed::Waits),
        }
        match self.predict(task, true)? {
            Permission::Go(id) => self.given(id, process, call, offer),
            Permission::CheckpointFirst(_) | Permission::Wait(_) => {
                let error = bug("the engine wants another checkpoint right after one");
                return Err(fail("make a prediction")(error));
            }
        }
        Ok(Guessed::Given)
    }

    fn predict(&mut self, task: TaskId, may_share: bool) -> Result<Permission, SupervisorError> {
        let mut effects = Vec::new();
        let answer = self
            .engine
            .predict(task, Owner::Outside, may_share, &mut effects);
        let answer = answer.map_err(refused("make a prediction"))?;
        self.perform(effects)?;
        Ok(answer)
    }

    fn given(&mut self, id: surmise_engine::Id, process: Pid, call: &Call, offer: &Offer) {
        self.stats.totals.predictions += 1;
        let now = self.world.now();
        self.sources.given(id, offer, (process, call.thread()), now);
    }
}
