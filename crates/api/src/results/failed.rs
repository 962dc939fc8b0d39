//! A failure, for programs.

use serde::{Deserialize, Serialize};

use crate::error::Explained;
use crate::text::Text;

/// The line that `--json` prints in place of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedLine {
    /// What went wrong.
    pub failed: Failed,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// What, where and which value, for people.
    pub error: String,
    /// A line each, for people.
    pub details: Vec<String>,
    /// The fix, for people; null where none is known.
    pub hint: Option<String>,
    /// The domain that is left, if one is.
    pub domain: Option<String>,
    /// The exit status of a command that fails so.
    pub status: u8,
    /// What went wrong, for programs: one of the codes in `docs/api.md`. It does not change.
    pub code: String,
    /// Where the domain and what is outside are at odds, if that is what went wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<ConflictRow>,
}

/// A name that is not what the domain found there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConflictRow {
    /// The real path.
    pub path: Text,
    /// What happened there: `created`, `removed`, `replaced`, `changed`, `created_in_removed`, `created_in_made`,
    /// `linked`, `not_kept`, `directory_moved`, `read_changed`, `read_removed`, `read_replaced` or `read_hidden`.
    pub what: String,
}

impl Failed {
    /// Of something that has no error of its own.
    pub fn plain(code: &str, error: String, status: u8) -> Box<Self> {
        Box::new(Self {
            error,
            details: Vec::new(),
            hint: None,
            domain: None,
            status,
            code: code.to_owned(),
            conflicts: Vec::new(),
        })
    }

    /// Of an error. `usual`: the exit status of errors that have none of their own.
    pub fn of(error: &(impl Explained + ?Sized), usual: u8) -> Box<Self> {
        Box::new(Self {
            error: error.text(),
            details: error.details(),
            hint: error.hint(),
            domain: error.domain(),
            status: error.status().unwrap_or(usual),
            code: error.code().to_owned(),
            conflicts: error.conflicts(),
        })
    }
}
