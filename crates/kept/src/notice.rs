//! What happens in a domain that runs, and what can be decided about it.

use serde::{Deserialize, Serialize};
use surmise_network::Verdict;
use surmise_outbox::Sender;

/// What a person decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// This host may be reached from now on; what is held for it goes out.
    Allow,
    /// What is sent there waits for the commit.
    Hold,
    /// Nobody is there.
    Refuse,
}

impl From<Answer> for Verdict {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Allow => Self::Allow,
            Answer::Hold => Self::Hold,
            Answer::Refuse => Self::Deny,
        }
    }
}

/// What happened while the domain ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// The domain's processes are there, and the command is about to start. It may still turn out that there is
    /// no such command.
    Started {
        /// The domain's name; none of a command on the real files.
        name: Option<String>,
    },
    /// Nothing in the domain goes on: all wait for replies to output that is held.
    Stalled {
        /// Whose replies.
        peers: Vec<String>,
    },
    /// A program waits for a reply that cannot come before the commit.
    Waiting {
        /// Bytes that it sent and that are held.
        bytes: u64,
        /// Whom to.
        peer: String,
        /// Which process.
        sender: Option<Sender>,
    },
    /// Output could not be kept, and its connection was reset.
    NotKept {
        /// Whom it was for.
        peer: String,
        /// Why.
        error: String,
    },
    /// The person wants output to stay held that everything waits for.
    WaitsForCommit {
        /// The domain's name.
        name: String,
    },
    /// All that was done so far is real now, by a commit from elsewhere.
    Committed {
        /// How many changes.
        changes: usize,
    },
}
