//! What a commit tells its caller.

use std::path::PathBuf;

use surmise_view::InodeKey;

use crate::error::Conflict;

/// What a commit did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// What it had to leave, because someone outside was there first, between check and apply.
    pub left: Vec<Leftover>,
    /// Directories that the domain removed and that hold its own state, deepest first: see
    /// [`crate::finish_kept`].
    pub kept: Vec<Kept>,
    /// What the domain merely read and had changed outside before the commit, where that is known and
    /// the commit was not a strict one. Of a commit that was cut short it is not told.
    pub read_changed: Vec<Conflict>,
}

/// Something that a commit left as it found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The path.
    pub path: PathBuf,
    /// Why.
    pub reason: Reason,
}

/// Why a commit left something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u8)]
pub enum Reason {
    /// The domain removed it, but it changed or was replaced in the meantime.
    #[error("it changed while the commit ran, so it was not removed")]
    Changed = 1,
    /// The domain removed the directory, but something new is in it.
    #[error("something new appeared in it while the commit ran, so it was not removed")]
    NotEmpty = 2,
    /// The domain put something here, but something new is there.
    #[error(
        "something new appeared here while the commit ran; the domain's own is at the name beside it"
    )]
    Occupied = 3,
    /// The domain moved or changed it, but it is gone.
    #[error("it disappeared while the commit ran")]
    Gone = 4,
    /// The domain's version, under a temporary name, of a path that is occupied.
    #[error("what the domain wanted at the occupied path")]
    Own = 5,
}

impl Reason {
    pub(crate) fn of_code(code: u8) -> Option<Self> {
        [
            Self::Changed,
            Self::NotEmpty,
            Self::Occupied,
            Self::Gone,
            Self::Own,
        ]
        .into_iter()
        .find(|reason| *reason as u8 == code)
    }
}

/// A directory that outlives its removal because the domain's state is below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its path.
    pub path: PathBuf,
    /// Its inode.
    pub key: InodeKey,
}

/// How far a commit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What it does.
    pub activity: Activity,
    /// Steps of this activity that are done.
    pub done: usize,
    /// Steps of this activity in all.
    pub total: usize,
}

/// What a commit does at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Puts new data beside its target.
    Stage,
    /// Keeps what files hold that will be changed.
    Keep,
    /// Takes what was staged, or applied, away again.
    Undo,
    /// Changes names and files.
    Apply,
    /// Sends held output. The caller does that, when all else is done.
    Send,
}

impl Activity {
    const ALL: [Self; 5] = [Self::Stage, Self::Keep, Self::Undo, Self::Apply, Self::Send];

    /// One lower-case word, for programs to tell each other.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stage => "stage",
            Self::Keep => "keep",
            Self::Undo => "undo",
            Self::Apply => "apply",
            Self::Send => "send",
        }
    }

    /// The activity of that [`name`](Self::name).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|activity| activity.name() == name)
    }
}
