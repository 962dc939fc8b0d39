//! What becomes of a domain when its command has ended and nobody is asked.

use serde::{Deserialize, Serialize};
use surmise_commit::{OnProgress, Terms};
use surmise_kept::{Committed, DecideError, Exit, OnOutput, StateError};

use crate::domain::Domain;
use crate::error::Explained;
use crate::results::{ConflictRow, Fate};

/// What becomes of a domain's changes when its command has ended. Where there are none, the domain goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// They wait for a decision.
    #[default]
    Keep,
    /// They become real if the command exits with 0, and are thrown away otherwise.
    CommitIfZero,
    /// They are thrown away.
    Abort,
}

/// What has become of a domain.
#[derive(Clone, Debug)]
pub struct Settled {
    /// Its changes.
    pub fate: Fate,
    /// What could not be kept, for want of space say; a line each.
    pub missing: Vec<String>,
    /// What the commit did, if there was one. It may have left something, or not sent all.
    pub committed: Option<Committed>,
}

/// Why what should become of a domain has not.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// It could not be thrown away.
    #[error(transparent)]
    Abort(#[from] StateError),
    /// It could not be committed, and is kept.
    #[error("{source}")]
    Commit {
        /// Why not.
        source: DecideError,
        /// The domain's name.
        name: String,
    },
}

impl Then {
    /// Does it with `domain`, in which a command has ended as `exit` says. `is_empty`: whether nothing of it
    /// waits.
    ///
    /// # Errors
    /// When the domain could not be thrown away or committed.
    pub fn settle(
        self,
        domain: Domain,
        exit: Exit,
        is_empty: bool,
        on_progress: &mut OnProgress<'_>,
        on_output: &mut OnOutput<'_>,
    ) -> Result<Settled, SettleError> {
        if is_empty {
            domain.abort()?;
            return Ok(Fate::Unchanged.into());
        }
        match self {
            Self::Keep => Ok(Settled {
                missing: keep(&domain),
                ..Fate::Kept.into()
            }),
            Self::CommitIfZero if exit.code() == 0 => Ok(Settled {
                committed: Some(domain.commit_or_keep(on_progress, on_output)?),
                ..Fate::Committed.into()
            }),
            Self::CommitIfZero | Self::Abort => {
                domain.abort()?;
                Ok(Fate::Aborted.into())
            }
        }
    }
}

/// Makes a domain that is kept durable. Returns what is to be feared if that fails, a line each.
pub fn keep(domain: &Domain) -> Vec<String> {
    let error = domain.make_durable().err();
    let line = error.map(|error| {
        format!("a loss of power may take the changes, and damage to them may not be told: {error}")
    });
    line.into_iter().collect()
}

impl Domain {
    /// As [`Domain::commit`] on the usual terms. A domain whose commit fails, or that could not send all, is kept, and
    /// made durable.
    ///
    /// # Errors
    /// As [`Domain::commit`].
    pub fn commit_or_keep(
        self,
        on_progress: &mut OnProgress<'_>,
        on_output: &mut OnOutput<'_>,
    ) -> Result<Committed, SettleError> {
        let committed = self
            .clone()
            .commit(Terms::default(), on_progress, on_output);
        if self.exists() {
            // The first error is the one to tell.
            let _ = self.make_durable();
        }
        committed.map_err(|source| SettleError::Commit {
            source,
            name: self.name().to_owned(),
        })
    }
}

impl From<Fate> for Settled {
    fn from(fate: Fate) -> Self {
        Self {
            fate,
            missing: Vec::new(),
            committed: None,
        }
    }
}

impl Explained for SettleError {
    fn text(&self) -> String {
        match self {
            Self::Abort(error) => error.text(),
            Self::Commit { source, .. } => source.text(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Abort(error) => error.code(),
            Self::Commit { source, .. } => source.code(),
        }
    }

    fn details(&self) -> Vec<String> {
        match self {
            Self::Abort(error) => error.details(),
            Self::Commit { source, .. } => source.details(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Abort(error) => Explained::hint(error),
            Self::Commit { source, .. } => source.hint(),
        }
    }

    fn domain(&self) -> Option<String> {
        match self {
            Self::Abort(_) => None,
            Self::Commit { name, .. } => Some(name.clone()),
        }
    }

    fn conflicts(&self) -> Vec<ConflictRow> {
        match self {
            Self::Abort(_) => Vec::new(),
            Self::Commit { source, .. } => source.conflicts(),
        }
    }
}
