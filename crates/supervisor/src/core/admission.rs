//! Which processes may be given guesses: those that a rollback can restore, as far as memory lasts.

use rustix::process::Pid;
use surmise_engine::{Kinds, TaskId};

use super::Core;
use crate::error::{SupervisorError, fail, refused};
use crate::member::Member;
use crate::objects::stream::channel;
use crate::world::World;

/// How many images of one process there may be.
const IMAGES_MAX: usize = 64;
/// How many processes may have images at a time.
const MEMBERS_MAX: usize = 256;

impl<W: World> Core<W> {
    /// Makes a process a member, if there is nothing about it that a rollback cannot undo.
    pub(super) fn admit(&mut self, process: Pid) -> Result<bool, SupervisorError> {
        let images: Vec<_> = self
            .members
            .values()
            .map(|member| (member.pid(), member.images().len()))
            .collect();
        if !self.world.has_memory_for(process, &images) {
            return Ok(false);
        }
        if let Some(member) = self.members.get(&process) {
            return Ok(member.images().len() < IMAGES_MAX);
        }
        if self.members.len() >= MEMBERS_MAX {
            return Ok(false);
        }
        let supervised = self.world.admit(process);
        let Some(supervised) = supervised.map_err(fail("look at a process"))? else {
            return Ok(false);
        };
        let id = TaskId(process.as_raw_nonzero().get().cast_unsigned().into());
        let mut effects = Vec::new();
        let told = self.engine.spawn(None, id, &mut effects);
        let told = told.and_then(|()| self.engine.open(channel(id), Kinds::ALL_BUT_CONSENT));
        let group = told.and_then(|()| self.engine.group(id));
        let group = group.map_err(refused("note a task"))?;
        self.members
            .insert(process, Member::new(process, supervised, id, group));
        self.perform(effects)?;
        Ok(true)
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
        match self.members.remove(&process) {
            Some(member) => {
                let destroyed = member.destroy(&mut self.world);
                destroyed.map_err(fail("destroy a vessel"))
            }
            None => Ok(()),
        }
    }
}
