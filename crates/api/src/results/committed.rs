//! What a commit came to.

use serde::{Deserialize, Serialize};
use surmise_kept::{After, Committed, ReadChanged};

/// The last line of `surmise commit --json`, when it succeeds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitLine {
    /// The changes are real.
    Committed(CommitResult),
    /// A commit that was cut short is taken back.
    Undone(Undone),
}

/// What a commit did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitResult {
    /// The domain's name.
    pub name: String,
    /// How many changes are real; 0 when a commit was finished that an earlier one had begun.
    pub changes: usize,
    /// Whether the domain's command runs on, under a new consent.
    pub goes_on: bool,
    /// What somebody outside was faster with, a line each.
    pub left: Vec<String>,
    /// What the command merely read and had changed outside: `{"count", "first"}`.
    pub read_changed: ReadChanged,
    /// Held output that went out.
    pub sent: Vec<Sent>,
    /// Held output that did not go out as a whole. The domain keeps it.
    pub unsent: Vec<Unsent>,
    /// Whether held output still goes out, and was not waited for.
    pub sending: bool,
}

/// Held output that went out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Where to.
    pub to: String,
    /// How much.
    pub bytes: u64,
}

/// Held output that did not go out as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsent {
    /// Where to.
    pub to: String,
    /// How many bytes have left.
    pub bytes: u64,
    /// Why not the rest.
    pub error: String,
}

/// A commit that is taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undone {
    /// The domain's name.
    pub name: String,
}

impl CommitResult {
    /// Of a commit of the domain `name`.
    pub fn of(name: &str, committed: &Committed) -> Self {
        let done = &committed.done;
        let sent = done.sent.iter().map(|(to, bytes)| Sent {
            to: to.clone(),
            bytes: *bytes,
        });
        let unsent = done.unsent.iter().map(|(to, bytes, error)| Unsent {
            to: to.clone(),
            bytes: *bytes,
            error: error.clone(),
        });
        Self {
            name: name.to_owned(),
            changes: done.changes,
            goes_on: committed.domain == After::RunsOn,
            left: done.left.clone(),
            read_changed: done.read_changed.clone(),
            sent: sent.collect(),
            unsent: unsent.collect(),
            sending: done.is_sending,
        }
    }
}
