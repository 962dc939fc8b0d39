//! Which processes may be given guesses: those that a rollback can restore, as far as memory lasts.

use rustix::process::Pid;

use super::Core;
use crate::error::{SupervisorError, fail, refused};
use crate::member::Member;
use crate::objects::stream::channel;
use crate::world::World;

/// How many images of one process there may be.
const IMAGES_MAX: usize = 64;
/// How many processes may have images at a time.
pub(super) const MEMBERS_MAX: usize = 256;

impl<W: World> Core<W> {
    /// Makes a process a member, if there is nothing about it that a rollback cannot undo.
    pub(super) fn admit(&mut self, process: Pid) -> Result<bool, SupervisorError> {
        if self.lendings.concern(process) {
            return Ok(false);
        }
        if let Some(member) = self.members.get(&process) {
            if member.has_perished() {
                return Ok(false);
            }
            // It may be one by its birth, and nobody has looked at it.
            return Ok(member.images().len() > 0 || self.may_be_imaged(process)?);
        }
        if self.members.len() >= MEMBERS_MAX {
            return Ok(false);
        }
        let supervised = self.world.admit(process);
        let Some(supervised) = supervised.map_err(fail("look at a process"))? else {
            return Ok(false);
        };
        self.enroll(None, process, supervised)?;
        Ok(true)
    }

    /// Whether there is room for one more image of a member.
    pub(super) fn has_room_for(&self, member: &Member<W>) -> bool {
        let images = self.members.values();
        let images: Vec<_> = images
            .map(|member| (member.pid(), member.images().len()))
            .collect();
        member.images().len() < IMAGES_MAX && self.world.has_memory_for(member.pid(), &images)
    }

    fn may_be_imaged(&mut self, process: Pid) -> Result<bool, SupervisorError> {
        let found = self.world.admit(process);
        let found = found.map_err(fail("look at a process"))?;
        Ok(found.is_some())
    }

    /// Forgets a process that depends on nothing undecided.
    pub(super) fn dismiss(&mut self, process: Pid) -> Result<(), SupervisorError> {
        let Some(member) = self.members.get(&process) else {
            return Ok(());
        };
        let mut effects = Vec::new();
        let task = member.task;
        let ended = self.engine.end(task, &mut effects);
        ended.map_err(refused("note the end of a task"))?;
        self.perform(effects)?;
        // All that it put out depended on no more than the task itself.
        let closed = self.engine.close(channel(task));
        closed.map_err(refused("close a channel"))?;
        self.may_dismiss |= self.lendings.forget(process);
        match self.members.remove(&process) {
            Some(member) => {
                let destroyed = member.destroy(&mut self.world);
                destroyed.map_err(fail("destroy a vessel"))
            }
            None => Ok(()),
        }
    }
}
