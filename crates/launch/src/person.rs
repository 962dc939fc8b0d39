//! The person at whose command a domain runs, as far as control needs them.

use std::os::fd::BorrowedFd;

use surmise_kept::{Answer, Notice};
use surmise_outbox::Sender;

/// Who is told and asked while a domain runs. The library itself neither prints nor reads.
pub trait Person {
    /// Whether there is somebody to ask now.
    fn is_there(&self) -> bool;

    /// Asks and waits for the answer, however long that takes. Called in a process of its own, a copy
    /// of the caller in its place at the terminal, so that nothing else waits meanwhile.
    fn ask(&self, question: &Question) -> Answer;

    /// What [`Self::ask`] needs open besides 0, 1 and 2: the copy that asks closes all else.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Takes a notice. What this returns the relay writes to standard error as one line; without its end.
    fn tell(&self, notice: &Notice) -> Option<String>;
}

/// What only a person can decide while the domain runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The command wants to reach somebody, who knows nothing of it yet.
    Reach {
        /// Whom: host and port.
        peer: String,
        /// Which process.
        sender: Option<Sender>,
    },
    /// Nothing in the domain goes on: all wait for replies to output that is held.
    Stalled {
        /// Whose replies.
        peers: Vec<String>,
    },
}
