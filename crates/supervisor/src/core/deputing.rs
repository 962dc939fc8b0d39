//! Calls that are made while all threads of the caller's process are stopped: by a deputy, which is another process, or by the
//! caller's own thread.

use rustix::process::Pid;
use surmise_checkpoint::{Change, PendingCall};

use super::Core;
use super::imaging::Shot;
use crate::error::{SupervisorError, fail};
use crate::kind::Kind;
use crate::member::Member;
use crate::waits::Asked;
use crate::world::World;

impl<W: World> Core<W> {
    /// A process comes to ignore a signal. What waits of the signal is kept for a rollback.
    ///
    /// While the process is traced, a signal that comes later is heard of here, ignored or not: it waits until nothing is
    /// undecided, or is sent again after a rollback.
    pub(super) fn depute(
        &mut self,
        process: Pid,
        asked: &Asked,
        change: Change,
    ) -> Result<(), SupervisorError> {
        self.make_stopped(process, asked, Kind::Process, |world, member, others| {
            member.note(world, change);
            let deputed = world.depute(&mut member.process, &asked.call, others);
            deputed.map_err(fail("have another process make a call"))
        })
    }

    /// A call of a member sets its timer.
    pub(super) fn set_timer(&mut self, process: Pid, asked: &Asked) -> Result<(), SupervisorError> {
        self.make_stopped(process, asked, Kind::Timer, |world, member, others| {
            let set = world.set_timer(&mut member.process, &asked.call, others);
            let before = set.map_err(fail("have a thread set its timer"))?;
            let is_set = before.is_some();
            if let Some(before) = before {
                member.has_set_timer(before);
            }
            Ok(is_set)
        })
    }

    /// Has the world make a call of a member while the member's threads are stopped. `make` is given the calls of the other
    /// threads that wait, and returns false if the call has not happened. A call that has happened meets an object of `kind`.
    pub(super) fn make_stopped(
        &mut self,
        process: Pid,
        asked: &Asked,
        kind: Kind,
        make: impl FnOnce(&mut W, &mut Member<W>, &[PendingCall]) -> Result<bool, SupervisorError>,
    ) -> Result<(), SupervisorError> {
        if !self.can_be_stopped(process) {
            return self.wait(process, asked);
        }
        self.gather()?;
        let others = self.pending_calls(process);
        let Some(member) = self.members.get_mut(&process) else {
            return self.pass(asked);
        };
        let is_made = make(&mut self.world, member, &others)?;
        self.forget_answered()?;
        match is_made {
            true => {
                self.stats.met(kind);
                Ok(())
            }
            false => self.without_call(process, asked),
        }
    }

    /// Whether the threads of a process can be stopped for a call in which one of them waits.
    pub(super) fn can_be_stopped(&self, process: Pid) -> bool {
        // A thread that has stopped to take a signal would have to be stopped elsewhere, and one that has lent the memory
        // cannot be.
        !self.waits.have_signal(process) && !self.lendings.concern(process)
    }

    /// A call that the world was to make has not happened. The caller waits for a decision, or makes the call again.
    pub(super) fn without_call(
        &mut self,
        process: Pid,
        asked: &Asked,
    ) -> Result<(), SupervisorError> {
        match self.without_image(&asked.call)? {
            Shot::Waits => self.wait(process, asked),
            Shot::Taken | Shot::Again => Ok(()),
        }
    }
}
