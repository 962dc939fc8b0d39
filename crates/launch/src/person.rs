//! The person at whose command a domain runs, as far as control needs them.

use surmise_outbox::Sender;

/// Who is told and asked while a domain runs. The library itself neither prints nor reads.
pub trait Person {
    /// Whether there is somebody to ask now.
    fn is_there(&self) -> bool;

    /// Asks and waits for the answer, however long that takes. Called in a process of its own, a copy
    /// of the caller in its place at the terminal, so that nothing else waits meanwhile.
    fn ask(&self, question: &Question) -> Answer;

    /// A notice as one line of text, without its end. The relay writes it to standard error.
    fn phrase(&self, notice: &Notice) -> String;
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

/// What a person decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This host may be reached from now on; what is held for it goes out.
    Allow,
    /// What is sent there waits for the commit.
    Hold,
    /// Nobody is there.
    Refuse,
}

/// What happened while the domain ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
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
