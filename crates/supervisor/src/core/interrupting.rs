//! Signals that come while calls wait.
//!
//! A thread whose call waits for its answer takes no signal but one that kills it. A decision may be seconds away, and somebody may
//! press Ctrl-C. So the core looks from time to time whether a signal waits for such a thread. If one does, the call ends as a signal
//! would have ended it in the kernel. The call has not happened. Where it begins again it is heard of anew.

use std::time::Duration;

use rustix::process::Pid;

use super::Core;
use crate::call::Call;
use crate::error::{SupervisorError, fail};
use crate::member::Member;
use crate::waits::{Interruptible, Waited};
use crate::world::World;

/// How long a signal may wait for a call that waits.
const LOOK_AFTER: Duration = Duration::from_millis(50);

impl<W: World> Core<W> {
    /// Something begins to wait: signals for it are looked for in a while.
    pub(super) fn look_for_signals_later(&mut self) {
        if self.signals_due.is_none() {
            self.signals_due = Some(self.world.now() + LOOK_AFTER);
        }
    }

    /// Interrupts the calls for whose threads signals wait, if it is time to look for such.
    pub(super) fn interrupt_calls(&mut self) -> Result<(), SupervisorError> {
        let Some(due) = self.signals_due else {
            return Ok(());
        };
        let now = self.world.now();
        if now < due {
            return Ok(());
        }
        let waiting = self.waits.interruptible();
        self.signals_due = (!waiting.is_empty()).then(|| now + LOOK_AFTER);
        for Interruptible {
            call,
            sleeps,
            waited,
        } in waiting
        {
            let interrupted = self.world.interrupt(&call, sleeps);
            if interrupted.map_err(fail("interrupt a call"))? {
                self.note_interruption(&call, waited)?;
            }
        }
        Ok(())
    }

    /// A call has ended. Its process gets no more guesses until it depends on nothing: the handler would bind it anew each time, and the
    /// call would wait for ever.
    fn note_interruption(
        &mut self,
        call: &Call,
        waited: Option<Waited>,
    ) -> Result<(), SupervisorError> {
        if let Some(waited) = waited {
            self.note_wait((Some(*call), waited))?;
        }
        if let Some(process) = self.member_of(call.thread())
            && let Some(member) = self.members.get_mut(&process)
        {
            member.is_interrupted = true;
        }
        self.forget_answered()
    }

    /// Whether a thread may be given guesses.
    pub(super) fn may_be_guessed(&self, thread: Pid) -> bool {
        let member = self.member_of(thread);
        let member = member.and_then(|process| self.members.get(&process));
        member.is_none_or(|member| !member.is_interrupted)
    }

    /// Whether a signal ends a member at once: it would have ended the member at each of its images, too. A process that is killed is
    /// not restored, so all that it did since the oldest might as well not have been done.
    pub(super) fn is_ended_by(
        &self,
        process: Pid,
        signal: &W::Signal,
    ) -> Result<bool, SupervisorError> {
        if self.lendings.concern(process) {
            return Ok(false);
        }
        let deadly = self.world.deadly(signal);
        let deadly = deadly.map_err(fail("look at a signal"))?;
        let mut images = self
            .members
            .get(&process)
            .into_iter()
            .flat_map(Member::images);
        Ok(deadly
            .is_some_and(|signal| !images.any(|image| self.world.might_survive(image, signal))))
    }
}
