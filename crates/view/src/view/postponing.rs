//! Requests that wait until something is decided.

use std::cell::Cell;
use std::io;

use rustix::io::Errno;
use surmise_fuse::Postponed;

use super::View;
use super::core::Core;

thread_local! {
    /// What had been decided when this thread first postponed a request that it has not asked about since.
    static POSTPONED: Cell<Option<u64>> = const { Cell::new(None) };
}

impl View {
    /// Whether a request that was postponed by this thread may have its answer by now.
    pub(crate) fn is_decided(&self) -> bool {
        let core = self.locked();
        let then = POSTPONED.take();
        let is_decided =
            !core.is_marked() || then.is_some_and(|then| then != core.undecided.decided());
        drop(core);
        if !is_decided {
            self.decider.ask();
        }
        is_decided
    }
}

impl Core {
    /// What a change fails with where undecided ones may take the space that it lacks.
    pub(super) fn without_space(&self, error: io::Error) -> io::Error {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOSPC | Errno::DQUOT) if self.is_marked() && !self.is_concealing() => {
                self.postponed()
            }
            _ => error,
        }
    }

    /// What a call fails with that has to wait for a decision.
    pub(super) fn postponed(&self) -> io::Error {
        if self.undecided.is_given_up() || self.hinders_decision() {
            return Errno::INTR.into();
        }
        let decided = self.undecided.decided();
        let then = POSTPONED.get().unwrap_or(decided);
        POSTPONED.set(Some(then.min(decided)));
        Postponed.into()
    }
}
