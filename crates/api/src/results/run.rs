//! What a run came to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use surmise_kept::Sender;
use surmise_launch::Lingering;

use super::{ChangeRow, CommitResult, HeldRow, RefusedRow, SpeculationResult, SyncResult};

/// What has become of the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// They are real.
    Committed,
    /// They never happened.
    Aborted,
    /// They wait.
    Kept,
    /// There were none, and the domain is gone.
    Unchanged,
    /// The command had the real files, so there was nothing to decide.
    Real,
}

/// What a run did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResult {
    /// The domain's name; empty of a command that had the real files.
    pub name: String,
    /// The exit status: the command's, or 128 and the number of the signal that ended it.
    pub exit: u8,
    /// What has become of the changes.
    pub state: Fate,
    /// The changes.
    pub changes: Vec<ChangeRow>,
    /// Held output.
    pub held: Vec<HeldRow>,
    /// Processes that outlived the command and were ended.
    pub lingering: Vec<ProcessRow>,
    /// What could not be kept, for want of space say, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// What the boundary refused.
    pub refused: Vec<RefusedRow>,
    /// How many more attempts there were, of sorts for which the list has no place.
    pub refused_more: u64,
    /// How many messages the kernel sent to the view, by the kernel's names of what they asked for; none of a command
    /// that had the real files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub messages: BTreeMap<String, u64>,
    /// How many of them were answered by the thread of the view that follows callers to their processors.
    pub messages_beside: u64,
    /// What was done for speculation, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculation: Option<SpeculationResult>,
    /// What was done for external synchrony, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synchrony: Option<SyncResult>,
    /// What the commit did, where the changes were committed at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitResult>,
}

/// A process inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRow {
    /// Its number, as the domain counts.
    pub pid: i32,
    /// Its name, as `ps` shows it.
    pub name: String,
}

impl From<&Lingering> for ProcessRow {
    fn from(process: &Lingering) -> Self {
        Self {
            pid: process.pid,
            name: process.name.clone(),
        }
    }
}

impl From<&Sender> for ProcessRow {
    fn from(sender: &Sender) -> Self {
        Self {
            pid: sender.pid,
            name: sender.name.clone(),
        }
    }
}
