//! A process that depends on something undecided bears another, which depends on the same from its birth.
//!
//! If a prediction is denied that the parent had depended on before, the child would not have been born: it is
//! destroyed. It needs no image for that, and has none until it is given a guess of its own or takes another's.

use rustix::process::Pid;
use surmise_engine::{Kinds, Node, TaskId};

use super::Core;
use super::admission::MEMBERS_MAX;
use crate::call::Call;
use crate::error::{SupervisorError, fail, refused};
use crate::kind::Kind;
use crate::member::Member;
use crate::objects::stream::channel;
use crate::waits::Asked;
use crate::world::{Born, World};

impl<W: World> Core<W> {
    /// A call of a process bears another.
    pub(super) fn bear(&mut self, process: Pid, asked: &Asked) -> Result<(), SupervisorError> {
        if !self.can_be_stopped(process) || self.members.len() >= MEMBERS_MAX {
            return self.wait(process, asked);
        }
        self.gather()?;
        let others = self.pending_calls(process);
        let Some(member) = self.members.get_mut(&process) else {
            return self.pass(asked);
        };
        if member.is_barren {
            return self.wait(process, asked);
        }
        let parent = member.task;
        let call = &asked.call;
        let born = self.world.bear(&mut member.process, call, &others);
        let born = born.map_err(fail("have a process bear another"))?;
        self.forget_answered()?;
        let child = match born {
            Born::Child(child, supervised) => Some((child, supervised)),
            Born::Childless => None,
            Born::Unmade => return self.without_child(process, asked),
        };
        self.note_birth(process, call, Kind::Birth)?;
        match child {
            Some((child, supervised)) => self.enroll(Some(parent), child, supervised),
            None => Ok(()),
        }
    }

    /// A call has borne a process, whether or not that lives.
    pub(super) fn note_birth(
        &mut self,
        parent: Pid,
        call: &Call,
        kind: Kind,
    ) -> Result<(), SupervisorError> {
        let noted = self.world.happens(call);
        noted.map_err(fail("look at a call"))?;
        self.objects.files.note_birth(parent);
        if let Some(member) = self.members.get_mut(&parent) {
            member.has_borne();
        }
        self.stats.met(kind);
        Ok(())
    }

    /// A call that was to bear a process has not happened.
    fn without_child(&mut self, process: Pid, asked: &Asked) -> Result<(), SupervisorError> {
        if let Some(member) = self.members.get_mut(&process) {
            member.is_barren = true;
        }
        self.without_call(process, asked)
    }

    /// Makes a process a member. It depends on what its parent depends on; without a parent, on nothing.
    pub(super) fn enroll(
        &mut self,
        parent: Option<TaskId>,
        process: Pid,
        supervised: W::Process,
    ) -> Result<(), SupervisorError> {
        let id = TaskId(process.as_raw_nonzero().get().cast_unsigned().into());
        let mut effects = Vec::new();
        let told = self.engine.spawn(parent, id, &mut effects);
        let told = told.and_then(|()| self.engine.open(channel(id), Kinds::ALL_BUT_CONSENT));
        let group = told.and_then(|()| self.engine.group(id));
        let group = group.map_err(refused("note a task"))?;
        let mut member = Member::new(process, supervised, id, group);
        if parent.is_some() {
            let deps = self.engine.deps(Node::Task(id));
            member.born_by(deps.map_err(refused("look at a task"))?.predictions);
        }
        self.members.insert(process, member);
        self.perform(effects)
    }
}
