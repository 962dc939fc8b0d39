//! Signals that come while calls wait.
//!
//! A thread whose call waits for its answer takes no signal but one that kills it. A decision may be seconds away, and somebody may
//! press Ctrl-C. So it is looked from time to time whether a signal waits for such a thread, and if so its call ends as a signal
//! would have ended it in the kernel. The call has not happened. Where it begins again it is heard of anew.

use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::Core;
use crate::error::{SupervisorError, fail};
use crate::member::Member;
use crate::world::World;

/// How long a signal may wait for a call that waits.
const LOOK_AFTER: Duration = Duration::from_millis(50);

impl<W: World> Core<W> {
    /// Something begins to wait: it is looked for signals in a while.
    pub(super) fn look_for_signals_later(&mut self) {
        let now = self.world.now();
        self.signals_due.get_or_insert(now + LOOK_AFTER);
    }

    /// Interrupts the calls for whose threads signals wait, if it is time to look for such.
    pub(super) fn interrupt_calls(&mut self) -> Result<(), SupervisorError> {
        let now = self.world.now();
        if self.signals_due.is_none_or(|due| now < due) {
            return Ok(());
        }
        let waiting = self.waits.interruptible();
        self.signals_due = (!waiting.is_empty()).then(|| now + LOOK_AFTER);
        let mut are_interrupted = false;
        for (call, sleeps) in waiting {
            let interrupted = self.world.interrupt(&call, sleeps);
            are_interrupted |= interrupted.map_err(fail("interrupt a call"))?;
        }
        match are_interrupted {
            true => self.forget_answered(),
            false => Ok(()),
        }
    }

    /// When it is looked next.
    pub(super) fn signals_due(&self) -> Option<Instant> {
        self.signals_due
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
