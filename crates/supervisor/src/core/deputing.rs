//! Calls that another process makes in place of the caller.

use rustix::process::Pid;
use surmise_checkpoint::Change;

use super::Core;
use super::imaging::Shot;
use crate::error::{SupervisorError, fail};
use crate::kind::Kind;
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
        // A thread that has stopped to take a signal would have to be stopped elsewhere, and one that has lent the memory
        // cannot be.
        if self.waits.have_signal(process) || self.lendings.concern(process) {
            return self.wait(process, asked);
        }
        self.gather()?;
        let others = self.pending_calls(process);
        let Some(member) = self.members.get_mut(&process) else {
            return self.pass(asked);
        };
        member.note(&self.world, change);
        let call = &asked.call;
        let deputed = self.world.depute(&mut member.process, call, &others);
        let deputed = deputed.map_err(fail("have another process make a call"))?;
        self.forget_answered()?;
        if deputed {
            self.stats.met(Kind::Process);
            return Ok(());
        }
        match self.without_image(call)? {
            Shot::Waits => self.wait(process, asked),
            Shot::Taken | Shot::Again => Ok(()),
        }
    }
}
