//! What an abort came to.

use serde::{Deserialize, Serialize};
use surmise_kept::Aborted;

/// The result of `surmise abort --json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbortedList {
    /// What was thrown away.
    pub aborted: Vec<AbortedDomain>,
    /// The names of what others have made, and that was left.
    pub left: Vec<String>,
}

/// A domain that was thrown away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbortedDomain {
    /// Its name.
    pub name: String,
    /// How many changes it had; null where they could not be counted.
    pub changes: Option<usize>,
    /// What has become of it.
    pub outcome: AbortOutcome,
}

/// What has become of a domain that was thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbortOutcome {
    /// Outside, nothing is as the domain would have it.
    Whole,
    /// A commit of it had been cut short and could not be taken back: what that had changed stays.
    CommittedInPart,
    /// Its changes had been committed, and stay. Held output that was not sent is gone.
    Unsent,
}

impl From<Aborted> for AbortOutcome {
    fn from(aborted: Aborted) -> Self {
        match aborted {
            Aborted::Whole => Self::Whole,
            Aborted::CommittedInPart => Self::CommittedInPart,
            Aborted::Unsent => Self::Unsent,
        }
    }
}
