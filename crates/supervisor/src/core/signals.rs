//! Signals that a process takes though that may be undone.
//!
//! That a signal was sent is certain: a process that sends one waits. What is undone is that the receiver has taken the signal. So the
//! signal is sent again when the receiver is restored. But what a timer has sent is undone with the call that has set the timer.

use rustix::process::Pid;

use super::Core;
use crate::error::{SupervisorError, fail};
use crate::kind::Kind;
use crate::world::World;

impl<W: World> Core<W> {
    /// Whether a member takes a signal that one of its threads has stopped for, to be sent it again after a rollback.
    pub(super) fn takes_for_now(
        &mut self,
        process: Pid,
        signal: &W::Signal,
    ) -> Result<bool, SupervisorError> {
        if self.lendings.concern(process) {
            return Ok(false);
        }
        let taken = self.world.taken(signal);
        let Some(taken) = taken.map_err(fail("look at a signal"))? else {
            return Ok(false);
        };
        self.stats.met(Kind::TakenSignal);
        let is_of_timer = self.world.is_of_timer(&taken);
        if let Some(member) = self.members.get_mut(&process) {
            member.has_taken(&self.world, taken, is_of_timer);
        }
        Ok(true)
    }
}
