//! Why a domain's changes could not be shown or made real.

use std::io;

use surmise_commit::CommitError;
use surmise_journal::OpenError;
use surmise_outbox::{DeliveryError, OutboxError};
use surmise_view::LoadError;

use super::StateError;
use crate::domain::Domain;
use crate::doorway::Refusal;
use crate::seal::{READS, SealError};

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
    /// What the domain holds cannot be read.
    #[error(transparent)]
    Outbox(#[from] OutboxError),
    /// The real file system cannot be looked at.
    #[error("open /: {0}")]
    Real(#[source] io::Error),
    /// Held output has nowhere to go. Nothing has changed.
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
    /// The running domain did not grant it.
    #[error("{}", .0.error)]
    Refused(Refusal),
    /// It takes a running domain.
    #[error("domain `{name}` is not running")]
    NotRunning {
        /// Its name.
        name: String,
    },
    /// The domain ended before it answered.
    #[error("domain `{name}` ended meanwhile")]
    Ended {
        /// Its name.
        name: String,
    },
    /// The running domain's control is stopped, and hears nobody.
    #[error("domain `{name}` is stopped")]
    Stopped {
        /// Its name.
        name: String,
        /// Control.
        pid: i32,
    },
    /// The link to the running domain.
    #[error("ask the running domain: {0}")]
    Link(#[source] io::Error),
}

impl DecideError {
    /// Whether the domain is damaged.
    pub fn is_damage(&self) -> bool {
        let Self::State(StateError::Seal { source, .. }) = self else {
            return false;
        };
        matches!(source, SealError::Damaged { .. })
    }
}

impl Domain {
    /// The same error, as one of this domain's where it tells of damage, or of another version of Surmise.
    pub(crate) fn told(&self, error: impl Into<DecideError>) -> DecideError {
        let error = error.into();
        let Some((file, source)) = unreadable_log(&error) else {
            return error;
        };
        let path = self.directory().join(file);
        match SealError::of_content(path, source) {
            // A commit can do without, and the error says so.
            Some(SealError::Version { .. }) if file == READS => error,
            Some(source) => self.seal_error(source).into(),
            None => error,
        }
    }
}

/// Which of the domain's logs could not be read, and why, where that is the error.
fn unreadable_log(error: &DecideError) -> Option<(&'static str, &OpenError)> {
    match error {
        DecideError::View(LoadError::Log { source, .. }) => Some(("log", source)),
        DecideError::Outbox(OutboxError::Open(source))
        | DecideError::Delivery(DeliveryError::Outbox(OutboxError::Open(source))) => {
            Some(("outbox", source))
        }
        DecideError::Commit(error) => error.unreadable_log(),
        _ => None,
    }
}
