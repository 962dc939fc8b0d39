//! Counts a commit's steps for its caller, who may stop it between two.

use std::ops::ControlFlow;

use crate::error::CommitError;
use crate::report::{Activity, Progress};

/// Told before each step. `Break` stops the commit on the spot, as a kill would: what has begun is
/// left to [`crate::resume`].
pub type OnProgress<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

pub(crate) struct Steps<'a, 'b> {
    on_progress: &'a mut OnProgress<'b>,
    progress: Progress,
}

impl<'a, 'b> Steps<'a, 'b> {
    pub(crate) fn new(
        on_progress: &'a mut OnProgress<'b>,
        activity: Activity,
        total: usize,
    ) -> Self {
        let progress = Progress {
            activity,
            done: 0,
            total,
        };
        Self {
            on_progress,
            progress,
        }
    }

    /// Before each step.
    pub(crate) fn step(&mut self) -> Result<(), CommitError> {
        self.pause()?;
        self.progress.done = (self.progress.done + 1).min(self.progress.total);
        Ok(())
    }

    /// Between two changes of one step.
    pub(crate) fn pause(&mut self) -> Result<(), CommitError> {
        match (self.on_progress)(self.progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(CommitError::Stopped),
        }
    }
}
