//! Images of processes, each taken before its process comes to depend on something more.

use std::time::Instant;

use rustix::process::Pid;
use surmise_checkpoint::{Change, PendingCall};
use surmise_engine::{Access, Answer as Permission, CkptId, ObjectId};

use super::Core;
use crate::call::Call;
use crate::error::{SupervisorError, bug, fail, refused};
use crate::source::Guess;
use crate::world::{Imaged, World};

/// What came of an attempt to take an image of a process whose thread waits in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shot {
    /// There is one. The caller was given its guess, or makes its call again.
    Taken,
    /// There is none, and the caller makes its call again.
    Again,
    /// There is none, and the caller still waits for its answer.
    Waits,
}

/// Whether a process depends on what an object does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gained {
    /// It does, and the caller still waits for its answer.
    Depends,
    /// The caller makes its call again. It depends if there is an image.
    Again,
    /// It may not, and the caller still waits for its answer.
    Refused,
}

impl<W: World> Core<W> {
    /// A caller is about to observe an object. Its process comes to depend on what that does, with an image of before
    /// if it has none that a rollback could restore.
    pub(super) fn gain(
        &mut self,
        process: Pid,
        call: &Call,
        object: ObjectId,
    ) -> Result<Gained, SupervisorError> {
        let gained = self.try_to_gain(process, call, object)?;
        if gained != Gained::Depends && self.may_go(process)? {
            self.dismiss(process)?;
        }
        Ok(gained)
    }

    fn try_to_gain(
        &mut self,
        process: Pid,
        call: &Call,
        object: ObjectId,
    ) -> Result<Gained, SupervisorError> {
        if self.members.contains_key(&process) && self.observe(process, object)? {
            return Ok(Gained::Depends);
        }
        // A thread that has stopped to take a signal stands in the way of an image.
        if self.waits.have_signal(process) || !self.admit(process)? {
            return Ok(Gained::Refused);
        }
        if self.observe(process, object)? {
            return Ok(Gained::Depends);
        }
        match self.take_image(process, call, (&Guess::Truth, None))? {
            Shot::Waits => return Ok(Gained::Refused),
            Shot::Again => return Ok(Gained::Again),
            Shot::Taken => {}
        }
        // The image is of a moment before the call, which is made again: then it is met by one that depends.
        match self.observe(process, object)? {
            true => Ok(Gained::Again),
            false => {
                let error = bug("the engine wants another checkpoint right after one");
                Err(fail("observe an object")(error))
            }
        }
    }

    /// False if the process needs an image first.
    pub(super) fn observe(
        &mut self,
        process: Pid,
        object: ObjectId,
    ) -> Result<bool, SupervisorError> {
        let Some(member) = self.members.get(&process) else {
            return Ok(true);
        };
        let mut effects = Vec::new();
        let permission = self
            .engine
            .access(member.task, object, Access::Observe, &mut effects);
        let permission = permission.map_err(refused("note an access"))?;
        self.perform(effects)?;
        Ok(permission == Permission::Go)
    }

    /// Takes an image of a member whose thread waits in a call, and gives the caller its guess. With the guess comes
    /// what the call changes.
    pub(super) fn take_image(
        &mut self,
        process: Pid,
        call: &Call,
        (guess, change): (&Guess, Option<Change>),
    ) -> Result<Shot, SupervisorError> {
        let begun = self.world.now();
        self.gather()?;
        let others = self.pending_calls(process);
        let member = self.members.get(&process);
        if member.is_none_or(|member| !self.has_room_for(member)) {
            return Ok(Shot::Waits);
        }
        let Some(member) = self.members.get_mut(&process) else {
            return Ok(Shot::Waits);
        };
        if let Some(change) = change {
            member.note(&self.world, change);
        }
        let world = &mut self.world;
        let imaged = world.take_image(&mut member.process, call, (guess, change), &others);
        let imaged = imaged.map_err(fail("take an image"))?;
        self.forget_answered()?;
        let (image, answered) = match imaged {
            Imaged::Taken { image, answered } => (image, answered),
            Imaged::Failed => return self.without_image(call),
        };
        if !answered {
            self.sources.be_truthful(call.thread());
        }
        self.keep_image(process, image, begun)?;
        Ok(Shot::Taken)
    }

    /// A member has got an image.
    pub(super) fn keep_image(
        &mut self,
        process: Pid,
        image: W::Image,
        begun: Instant,
    ) -> Result<(), SupervisorError> {
        let now = self.world.now();
        self.checkpoints += 1;
        let ckpt = CkptId(self.checkpoints);
        let mark = self.objects.files.last_mark();
        let Some(member) = self.members.get_mut(&process) else {
            let discarded = self.world.discard(image, None);
            return discarded.map_err(fail("destroy a vessel"));
        };
        let group = member.group;
        member.keep(ckpt, image, (now, mark));
        self.stats.totals.checkpoints.add(now.duration_since(begun));
        let mut effects = Vec::new();
        let told = self.engine.checkpointed(group, ckpt, &mut effects);
        told.map_err(refused("note a checkpoint"))?;
        self.perform(effects)
    }

    /// The calls of a member's threads that wait for their answers.
    pub(super) fn pending_calls(&self, process: Pid) -> Vec<PendingCall> {
        let Some(member) = self.members.get(&process) else {
            return Vec::new();
        };
        let calls = self.waits.calls();
        let calls = calls.filter(|call| self.world.has(&member.process, call.thread()));
        calls.map(Call::pending).collect()
    }

    /// Nothing is lost: calls that still wait are attended to, the others are made again.
    pub(super) fn without_image(&mut self, call: &Call) -> Result<Shot, SupervisorError> {
        let waits = self.world.still_waits(call);
        match waits.map_err(fail("look at a call"))? {
            true => Ok(Shot::Waits),
            false => {
                self.sources.be_truthful(call.thread());
                Ok(Shot::Again)
            }
        }
    }
}
