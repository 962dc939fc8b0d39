//! Signals that a process takes though that may be undone, and the timer that sends one.
//!
//! That a signal was sent is certain: a process that sends one waits. What is undone is that the receiver has taken the signal. So the
//! signal is sent again when the receiver is restored. But what a timer has sent is undone with the call that has set the timer.

use rustix::process::Pid;

use super::Core;
use super::imaging::Shot;
use crate::error::{SupervisorError, fail};
use crate::kind::Kind;
use crate::waits::Asked;
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
        self.stats.met(Kind::Signal);
        let is_of_timer = self.world.is_of_timer(&taken);
        if let Some(member) = self.members.get_mut(&process) {
            member.has_taken(&self.world, taken, is_of_timer);
        }
        Ok(true)
    }

    /// A call of a member sets its timer.
    pub(super) fn set_timer(&mut self, process: Pid, asked: &Asked) -> Result<(), SupervisorError> {
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
        let call = &asked.call;
        let set = self.world.set_timer(&mut member.process, call, &others);
        let before = set.map_err(fail("have a thread set its timer"))?;
        if let Some(before) = before {
            member.has_set_timer(before);
            self.stats.met(Kind::Process);
        }
        self.forget_answered()?;
        if before.is_some() {
            return Ok(());
        }
        match self.without_image(call)? {
            Shot::Waits => self.wait(process, asked),
            Shot::Taken | Shot::Again => Ok(()),
        }
    }
}
