//! Signals that a process takes though that may be undone.
//!
//! A signal that a process stops to take was certainly sent: one that a speculating process sends is given to its receiver by
//! `sending`, or waits. What is undone is that the receiver has taken the signal. So the
//! signal is sent again when the receiver is restored. But what a timer has sent is undone with the call that has set the timer. And
//! what has told of an exit that is held is undone when the telling is: the receiver is told anew then.

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
        let told = self.told_by(process, signal)?;
        if told.is_some() && self.has_zombies(process)? {
            return Ok(false);
        }
        self.stats.met(Kind::TakenSignal);
        if let Some(member) = self.members.get_mut(&process) {
            let origin = match self.world.is_of_timer(&taken) {
                true => member.timer_set_at(),
                false => told,
            };
            member.has_taken(&self.world, taken, origin);
        }
        Ok(true)
    }
}
