//! What becomes of a domain's changes: shown, and made real. ([`Domain::abort`] is beside
//! [`Domain`].)

use surmise_commit::{Changes, CommitError, OnProgress, Report, Request, Resumed};
use surmise_view::LoadError;

use crate::domain::Domain;
use crate::state::StateError;

/// Why a domain's changes could not be shown or made real.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// The domain's state: it is in use, or could not be removed after the commit.
    #[error(transparent)]
    State(#[from] StateError),
    /// What the domain changed cannot be read.
    #[error(transparent)]
    View(#[from] LoadError),
    /// The commit.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl Domain {
    /// What the domain changed so far. It may be running.
    ///
    /// # Errors
    /// When the view's log cannot be read.
    pub fn changes(&self) -> Result<Changes, DecideError> {
        Ok(Changes::of(&surmise_view::load(self.directory())?))
    }

    /// Makes its changes real, or finishes what a commit cut short has begun; then the domain is
    /// no more.
    ///
    /// # Errors
    /// When the domain is in use or the commit fails; the domain is kept then.
    pub fn commit(self, on_progress: &mut OnProgress<'_>) -> Result<Report, DecideError> {
        let _lock = self.lock()?;
        let mut report = match surmise_commit::resume(self.directory(), on_progress)? {
            Resumed::Finished(report) => report,
            Resumed::Nothing | Resumed::Undone => self.commit_anew(on_progress)?,
        };
        self.root().remove(self.name())?;
        // Directories that the domain removed and that held its state until now.
        if let Ok(left) = surmise_commit::finish_kept(&report.kept) {
            report.kept = left;
        }
        Ok(report)
    }

    fn commit_anew(&self, on_progress: &mut OnProgress<'_>) -> Result<Report, DecideError> {
        let map = surmise_view::load(self.directory())?;
        let root = self.root();
        let request = Request {
            name: self.name(),
            directory: self.directory(),
            map: &map,
            root: "/".as_ref(),
            keep: Some(root.path()),
        };
        Ok(surmise_commit::commit(&request, on_progress)?)
    }
}
