//! A process that depends on something undecided lends its memory to a child, which depends on the same from its birth.
//!
//! Until the child executes a program or ends, what either of the two comes to know the other knows, too, by the memory. So
//! neither may come to depend on more. Only a new image would let them gain: the parent has borne since its newest image, and
//! the child has none. So no image is taken of either (`admit`). It follows that a denial concerns both or
//! neither: the child is destroyed where its parent is restored, and with the parent's memory all is undone that the child
//! has done to it.
//!
//! Nor can the parent be stopped meanwhile, since its thread waits in the kernel. So if both come to depend on nothing,
//! they stay members until the memory is given back; and what they call then passes.

use rustix::process::Pid;
use surmise_engine::TaskId;

use super::Core;
use super::admission::MEMBERS_MAX;
use crate::call::Call;
use crate::error::{SupervisorError, bug, fail};
use crate::kind::Kind;
use crate::meeting::Meeting;
use crate::waits::Asked;
use crate::world::{Born, World};

/// Which members have lent their memory, and to whom.
#[derive(Debug, Default)]
pub(super) struct Lendings(Vec<Lending>);

#[derive(Clone, Copy, Debug)]
struct Lending {
    parent: Pid,
    child: Pid,
}

impl Lendings {
    /// Whether a process has one memory with its child, or with its parent.
    pub(super) fn concern(&self, process: Pid) -> bool {
        let mut all = self.0.iter();
        all.any(|lending| lending.parent == process || lending.child == process)
    }

    /// A process is no member any more. Returns whether the other one may be let go for that.
    pub(super) fn forget(&mut self, process: Pid) -> bool {
        let before = self.0.len();
        self.0
            .retain(|lending| lending.parent != process && lending.child != process);
        self.0.len() < before
    }
}

impl<W: World> Core<W> {
    /// A call of a process bears another, which has the memory for now. `is_alone`: whether the process has one thread.
    pub(super) fn lend(
        &mut self,
        process: Pid,
        asked: &Asked,
        is_alone: bool,
    ) -> Result<(), SupervisorError> {
        // A parent that will have to collect an exit really has to be stopped for that, and its other threads could not
        // wait for that stop.
        let may_stay = is_alone || !self.objects.need(process);
        if !may_stay || self.members.len() >= MEMBERS_MAX && !self.only_stays(process)? {
            return self.wait(process, asked);
        }
        let Some(member) = self.members.get_mut(&process) else {
            return self.pass(asked);
        };
        let parent = member.task;
        let call = &asked.call;
        let lent = self.world.lend(&mut member.process, call);
        let child = match lent.map_err(fail("have a process lend its memory"))? {
            Born::Child(child, supervised) => Some((child, supervised)),
            Born::Childless => None,
            Born::Unmade => return self.without_call(process, asked),
        };
        self.note_birth(process, call, Kind::Loan)?;
        match child {
            Some((child, supervised)) => {
                let parent_task = Some(parent);
                let parent = process;
                self.lendings.0.push(Lending { parent, child });
                self.enroll(parent_task, child, supervised)
            }
            None => Ok(()),
        }
    }

    /// Whether a member depends on nothing undecided, but stays one until memory is given back.
    pub(super) fn only_stays(&self, process: Pid) -> Result<bool, SupervisorError> {
        Ok(self.lendings.concern(process) && self.is_free(process)?)
    }

    /// A call of such a member happens. Of what it lends must be known when it is let go.
    pub(super) fn pass_or_lend(
        &mut self,
        process: Pid,
        asked: &Asked,
    ) -> Result<(), SupervisorError> {
        let member = self.members.get(&process);
        let around = self.objects.files.around(&asked.call, member);
        let met = self.world.meet(process, &asked.call, around);
        match met.map_err(fail("look at a call"))? {
            Meeting::Lend { is_alone } => self.lend(process, asked, is_alone),
            Meeting::Execute => {
                self.note_execution(process);
                self.pass(asked)
            }
            _ => self.pass(asked),
        }
    }

    /// The first member that depends on something undecided.
    pub(super) fn first_bound(&self) -> Result<Option<TaskId>, SupervisorError> {
        for member in self.members.values() {
            if !self.only_stays(member.pid())? {
                return Ok(Some(member.task));
            }
        }
        Ok(None)
    }

    /// Whether a member can be let go.
    pub(super) fn may_go(&self, process: Pid) -> Result<bool, SupervisorError> {
        Ok(!self.lendings.concern(process) && self.is_free(process)?)
    }

    /// Looks which memory was given back. What waited for that can go on.
    pub(super) fn attend_lendings(&mut self) -> Result<(), SupervisorError> {
        if self.lendings.0.is_empty() {
            return Ok(());
        }
        for lending in std::mem::take(&mut self.lendings.0) {
            let Lending { parent, child } = lending;
            let is_lent = self.world.is_lent(parent, child);
            match is_lent.map_err(fail("look at a process' memory"))? {
                true => self.lendings.0.push(lending),
                false => self.have_parent_go_on(parent)?,
            }
        }
        Ok(())
    }

    /// What its other threads have waited for may be possible now.
    fn have_parent_go_on(&mut self, parent: Pid) -> Result<(), SupervisorError> {
        self.may_dismiss = true;
        let world = &self.world;
        let is_of_parent = |call: &Call| {
            let process = world.process_of(call.thread());
            process.ok().flatten() == Some(parent)
        };
        let recalled = self.waits.recall(is_of_parent);
        self.end_waits(recalled)
    }

    /// A rollback stops no process that has lent its memory: the child, which depends on the same, was destroyed before.
    pub(super) fn check_stop(&self, process: Pid) -> Result<(), SupervisorError> {
        match self.lendings.0.iter().any(|one| one.parent == process) {
            true => Err(fail("stop a process")(bug("its child has its memory"))),
            false => Ok(()),
        }
    }
}
