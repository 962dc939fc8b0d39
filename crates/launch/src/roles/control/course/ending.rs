//! The end of a domain, which the death of a role or another command brings.

use std::time::{Duration, Instant};

use super::super::supervisor::FREEING_MAX;
use super::Effects;
use super::effect::Effect;

/// How long pid 1 may take to notice that another role has died.
const NOTICE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Ending {
    /// Whether there is a supervisor that may trace tasks.
    may_trace: bool,
    /// When pid 1 is killed, because another role has died.
    kill_at: Option<Instant>,
    /// When pid 1 was killed.
    killed: Option<Instant>,
    /// Whether the supervisor was killed, which did not let go of tasks that were.
    is_freed: bool,
}

impl Ending {
    pub(super) fn new(may_trace: bool) -> Self {
        Self {
            may_trace,
            kill_at: None,
            killed: None,
            is_freed: false,
        }
    }

    /// A role has died without which the domain ends.
    pub(super) fn role_died(&mut self, now: Instant) {
        self.kill_at.get_or_insert(now + NOTICE);
    }

    /// The domain is to end now.
    pub(super) fn kill<V>(&mut self, now: Instant, effects: &mut Effects<V>) {
        self.killed.get_or_insert(now);
        effects.extend([Effect::KillInit, Effect::Wake]);
    }

    /// When [`Self::pass`] has something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        [self.kill_at, self.free_at()].into_iter().flatten().min()
    }

    pub(super) fn pass<V>(&mut self, now: Instant, effects: &mut Effects<V>) {
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill_at = None;
            self.kill(now, effects);
        }
        if self.free_at().is_some_and(|at| at <= now) {
            self.is_freed = true;
            effects.push(Effect::Free);
        }
    }

    /// When the supervisor is to be killed, should pid 1 not have ended by then.
    fn free_at(&self) -> Option<Instant> {
        let may_hold = self.may_trace && !self.is_freed;
        Some(self.killed.filter(|_| may_hold)? + FREEING_MAX)
    }
}
