//! What happens while something works.

use serde::{Deserialize, Serialize};
use surmise_kept::Notice;
use surmise_launch::Question;

use crate::results::{ProcessRow, ProgressRow};
use crate::text::Text;

/// What happens while a command runs, or while a domain is looked at or decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A domain is watched from now on.
    Watching,
    /// The domain is there, and the command about to start. It may still turn out that there is no such command.
    Started {
        /// The domain's name; null of a command that has the real files.
        name: Option<String>,
    },
    /// The command wants to reach a host that no rule names, and waits for an answer.
    Reach {
        /// By what it is answered.
        question: u64,
        /// Host and port.
        peer: String,
        /// Which process.
        process: Option<ProcessRow>,
    },
    /// Nothing goes on: all tasks wait for replies to output that is held.
    Stalled {
        /// By what it is answered; null for a watcher, who may decide.
        question: Option<u64>,
        /// Whose replies.
        peers: Vec<String>,
    },
    /// A program waits for a reply to output that is held.
    Waiting {
        /// Where it goes.
        to: String,
        /// How many bytes of it are held.
        bytes: u64,
        /// Which process.
        process: Option<ProcessRow>,
    },
    /// Output could not be kept, and its connection was reset.
    NotKept {
        /// Where it was to go.
        to: String,
        /// Why.
        error: String,
    },
    /// Output stays held that everything waits for: a commit lets the domain go on.
    WaitsForCommit {
        /// The domain's name.
        name: String,
    },
    /// All that was done so far is real now, by a commit from elsewhere. The command goes on.
    Committed {
        /// How many changes.
        changes: usize,
    },
    /// The command has put something out; or a commit shows what was held for its streams.
    Output {
        /// On which stream.
        stream: Stream,
        /// What; a piece, which may end anywhere.
        data: Text,
    },
    /// How far a commit is.
    Progress(ProgressRow),
    /// A piece of a patch, which may end anywhere.
    Patch {
        /// The piece.
        data: Text,
    },
}

/// A stream of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// What was held for the command's terminal.
    Terminal,
}

impl Event {
    /// The number by which it is answered, if it is a question.
    pub fn question(&self) -> Option<u64> {
        match self {
            Self::Reach { question, .. } => Some(*question),
            Self::Stalled { question, .. } => *question,
            _ => None,
        }
    }

    /// What a watcher hears.
    pub fn of(notice: Notice) -> Self {
        let process = |sender: Option<surmise_kept::Sender>| sender.as_ref().map(ProcessRow::from);
        match notice {
            Notice::Started { name } => Self::Started { name },
            Notice::Stalled { peers } => Self::Stalled {
                question: None,
                peers,
            },
            Notice::Waiting {
                bytes,
                peer,
                sender,
            } => Self::Waiting {
                to: peer,
                bytes,
                process: process(sender),
            },
            Notice::NotKept { peer, error } => Self::NotKept { to: peer, error },
            Notice::WaitsForCommit { name } => Self::WaitsForCommit { name },
            Notice::Committed { changes } => Self::Committed { changes },
        }
    }

    pub(crate) fn asked(question: u64, asked: &Question) -> Self {
        match asked {
            Question::Reach { peer, sender } => Self::Reach {
                question,
                peer: peer.clone(),
                process: sender.as_ref().map(ProcessRow::from),
            },
            Question::Stalled { peers } => Self::Stalled {
                question: Some(question),
                peers: peers.clone(),
            },
        }
    }
}
