//! One domain in a list.

use serde::{Deserialize, Serialize};
use surmise_kept::{Exit, Maker, Status};

use super::HeldRow;
use crate::text::Text;

/// A domain, as `surmise list` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainSummary {
    /// Its name.
    pub name: String,
    /// What it is doing, for people: `running`, `exited N`, `signal N`, `interrupted`, `damaged`, `committing`
    /// or `unsent`.
    pub status: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// Program and arguments as a shell takes them, for people.
    pub command: String,
    /// Where it was started.
    pub directory: String,
    /// Who made it; null where that was not written down.
    pub maker: Option<Maker>,
    /// How many changes so far; null while a commit is under way, or if they can't be read.
    pub changes: Option<usize>,
    /// What is held until the commit.
    pub held: Vec<HeldRow>,
    /// What it is doing.
    pub state: State,
    /// How its command ended, if it has: the exit status, or 128 and the number of the signal.
    #[serde(default)]
    pub exit: Option<u8>,
    /// Program and arguments.
    pub arguments: Vec<Text>,
}

/// What a domain is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its command runs.
    Running,
    /// Its command has ended.
    Ended,
    /// Surmise ended before its command did, or the machine.
    Interrupted,
    /// A file of it is not as it was.
    Damaged,
    /// A commit was cut short, or is under way.
    Committing,
    /// Its changes are committed, and held output could not be sent.
    Unsent,
}

impl From<Status> for State {
    fn from(status: Status) -> Self {
        match status {
            Status::Running { .. } => Self::Running,
            Status::Ended { .. } => Self::Ended,
            Status::Interrupted => Self::Interrupted,
            Status::Committing => Self::Committing,
            Status::Unsent => Self::Unsent,
        }
    }
}

/// For people.
pub(crate) fn status_text(status: Status) -> String {
    match status {
        Status::Running { .. } => "running".to_owned(),
        Status::Ended {
            exit: Exit::Exited(status),
        } => format!("exited {status}"),
        Status::Ended {
            exit: Exit::Signaled(signal),
        } => format!("signal {signal}"),
        Status::Interrupted => "interrupted".to_owned(),
        Status::Committing => "committing".to_owned(),
        Status::Unsent => "unsent".to_owned(),
    }
}
