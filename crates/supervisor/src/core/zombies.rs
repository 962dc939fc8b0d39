//! Children that have really ended while their parents depend on something undecided.
//!
//! To reap one cannot be undone. So the parent is told of the child as if it reaped it, and reaps it once nothing can undo that any
//! more. The signal that tells of the end is certain: the parent takes it as any other, and is sent it again after a rollback.

use rustix::process::Pid;

use super::Core;
use crate::call::Call;
use crate::error::{SupervisorError, bug, fail};
use crate::kind::Kind;
use crate::objects::wait::ChildWait;
use crate::objects::zombies::Zombie;
use crate::world::{Traced, World};

impl<W: World> Core<W> {
    /// Tells a member that waits for its children of one that has ended. True if the call was answered, or will be made again.
    pub(super) fn collect_zombie(
        &mut self,
        parent: Pid,
        call: &Call,
        wait: ChildWait,
    ) -> Result<bool, SupervisorError> {
        // Let go, it reaps the child itself.
        if self.is_free(parent)? {
            return Ok(false);
        }
        self.gather()?;
        let others = self.pending_calls(parent);
        let kin = self.kin(parent);
        let Some(member) = self.members.get_mut(&parent) else {
            return Ok(false);
        };
        let task = member.task;
        let process = &mut member.process;
        let told = self
            .world
            .tell_of_zombie(process, call, (wait, &kin), &others);
        let told = told.map_err(fail("tell a parent of a child that has ended"))?;
        self.forget_answered()?;
        let Some((child, number)) = told else {
            let waits = self.world.still_waits(call);
            return waits.map(|waits| !waits).map_err(fail("look at a call"));
        };
        let zombie = Zombie {
            child,
            parent,
            number,
        };
        let record = self.objects.record(Kind::Zombie);
        let object = self.objects.zombies.tell(zombie, record);
        if !self.access(task, object, record)? {
            let error = bug("the engine refuses what a task alone depends on");
            return Err(fail("tell a parent of a child that has ended")(error));
        }
        self.stats.met(Kind::Zombie);
        Ok(true)
    }

    /// Has parents reap what they have collected for good.
    pub(super) fn attend_zombies(&mut self) -> Result<(), SupervisorError> {
        while let Some(zombie) = self.take_due_zombie() {
            self.reap(zombie)?;
            self.may_dismiss = true;
        }
        Ok(())
    }

    fn take_due_zombie(&mut self) -> Option<Zombie> {
        // A parent that has lent its memory cannot be stopped.
        let lendings = &self.lendings;
        let can_be = |zombie: &Zombie| !lendings.concern(zombie.parent);
        self.objects.zombies.take_due(can_be)
    }

    fn reap(&mut self, zombie: Zombie) -> Result<(), SupervisorError> {
        let parent = zombie.parent;
        // If the parent has been killed, the child is another's.
        if !self.members.contains_key(&parent) {
            return Ok(());
        }
        // A parent that stands still at its own exit stays there.
        let stands = self.objects.exits.hold_back(parent);
        if (stands || self.stop(parent)?)
            && let Some(member) = self.members.get_mut(&parent)
        {
            let reaped = self.world.reap_zombie(&mut member.process, zombie.number);
            reaped.map_err(fail("reap a child"))?;
            if !stands {
                let resumed = self.world.resume(&mut member.process, Traced::Still);
                resumed.map_err(fail("let a process go on"))?;
            }
        }
        Ok(())
    }
}
