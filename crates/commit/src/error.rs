//! Why a commit did not happen, or not all of it.

use std::io;
use std::path::PathBuf;

use surmise_journal::OpenError;
use surmise_view::{LoadError, ReadsUnknown};

use crate::journal::JournalError;

/// What the kernel says of a disk that fails.
const EIO: i32 = rustix::io::Errno::IO.raw_os_error();

/// Why a commit failed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Something that the domain changed has also changed outside. Nothing was done.
    #[error("{} changed outside since the domain first used {}", count(.0.len(), "path"), if .0.len() == 1 { "it" } else { "them" })]
    Conflicts(Vec<Conflict>),
    /// A strict commit, of a domain of which it is not known what it read. Nothing was done.
    #[error("what the domain read is not known: {0}")]
    ReadsUnknown(#[from] ReadsUnknown),
    /// The user may not, or cannot, do it. Nothing was done.
    #[error("{} in the way", count(.0.len(), "obstacle"))]
    Obstacles(Vec<Obstacle>),
    /// A path was chosen at which there is no conflict, nor below. Nothing was done.
    #[error("no conflict at {}", .0.display())]
    NoConflict(PathBuf),
    /// The domain's version was chosen of something that it cannot be made of. Nothing was done.
    #[error("{} cannot be forced", count(.0.len(), "conflict"))]
    Unforceable(Vec<Conflict>),
    /// Putting new data beside its target failed. All of it was taken away again.
    #[error("cannot prepare {}: {source}", path.display())]
    Stage {
        /// What could not be prepared.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A step failed after the point of no return. Once its cause is gone, the commit can be
    /// resumed and will finish.
    #[error("cannot finish {}: {source}", path.display())]
    Apply {
        /// What could not be done.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The view's log no longer says what the domain changed, and a commit that is to be finished goes by it.
    #[error("cannot finish {}: {source}", path.display())]
    Changes {
        /// The log.
        path: PathBuf,
        /// Why.
        source: LoadError,
    },
    /// Somebody outside changed what a commit that was cut short had applied. It was not taken back.
    #[error("{} changed outside since the commit changed {}", count(.0.len(), "path"), if .0.len() == 1 { "it" } else { "them" })]
    Changed(Vec<Conflict>),
    /// A step back failed. Once its cause is gone, the undo can be resumed.
    #[error("cannot take back {}: {source}", path.display())]
    Undo {
        /// What could not be taken back.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no commit to take back.
    #[error("no commit of this domain was cut short")]
    NothingToUndo,
    /// The file system on which a commit that was cut short has a directory is not there. Nothing was
    /// done.
    #[error("{} is not the directory that the commit has begun with", .0.display())]
    Elsewhere(PathBuf),
    /// A commit has begun to remove what was there before, and only ever goes on.
    #[error("the commit has made all changes already, and has begun to remove what they replaced")]
    TooLate,
    /// The commit's journal, or another log that the commit goes by, could not be read or written.
    #[error("what the commit goes by: {0}")]
    Journal(#[from] JournalError),
    /// What a file held before the commit is not what was kept of it. Nothing was taken back.
    #[error("{}: damaged: it is not what {} held before the commit", kept.display(), path.display())]
    Preimage {
        /// The file that was to be given its data back.
        path: PathBuf,
        /// What was kept of them.
        kept: PathBuf,
    },
    /// A commit of this domain has begun already; it is to be resumed first.
    #[error("a commit of this domain is under way")]
    UnderWay,
    /// The caller's progress callback stopped it.
    #[error("the commit was stopped before its end")]
    Stopped,
}

/// A name that is not what the domain found there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", path.display())]
pub struct Conflict {
    /// The real path.
    pub path: PathBuf,
    /// What happened there.
    pub what: ConflictKind,
}

/// What happened outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConflictKind {
    /// Nothing was there, and now something is.
    #[error("created outside")]
    Created,
    /// It is gone.
    #[error("removed outside")]
    Removed,
    /// Something else is there.
    #[error("replaced outside")]
    Replaced,
    /// The same file, with other data or attributes.
    #[error("changed outside")]
    Changed,
    /// The domain removed its directory, which did not hold it then.
    #[error("created outside in a directory that the domain removed")]
    CreatedInRemoved,
    /// The commit made its directory, and put nothing else there.
    #[error("created outside in a directory that the commit made")]
    CreatedInMade,
    /// The commit made it, and it has got another name.
    #[error("made by the commit, and moved or linked outside")]
    Linked,
    /// What it held before the commit was not kept: it could not be read, or is large and was changed
    /// in part.
    #[error("what it held before was not kept, so it cannot be put back")]
    NotKept,
    /// A directory on the way to it is no longer the same.
    #[error("its directory was moved or replaced outside")]
    DirectoryMoved,
    /// The domain did not change it, but read it: the same file, with other data or attributes.
    #[error("read by the domain, changed outside")]
    ReadChanged,
    /// The domain read it, and it is gone.
    #[error("read by the domain, removed outside")]
    ReadRemoved,
    /// The domain read it, and something else is there.
    #[error("read by the domain, replaced outside")]
    ReadReplaced,
    /// The domain read it, and whoever commits may not look at it.
    #[error("read by the domain, and cannot be looked at now")]
    ReadHidden,
}

impl ConflictKind {
    /// Whether it is of something that the domain merely read.
    pub fn is_of_read(self) -> bool {
        use ConflictKind::{ReadChanged, ReadHidden, ReadRemoved, ReadReplaced};
        matches!(self, ReadChanged | ReadRemoved | ReadReplaced | ReadHidden)
    }
}

/// Something that a commit would have to do and cannot.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct Obstacle {
    /// The real path.
    pub path: PathBuf,
    /// Why not.
    pub why: ObstacleKind,
}

/// Why something cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum ObstacleKind {
    /// On a file system that is mounted read-only.
    #[error("on a read-only file system")]
    ReadOnly,
    /// No right to write.
    #[error("you may not write to it")]
    NotWritable,
    /// An attribute that only the owner (or root) may change.
    #[error("only its owner or root may change its mode, owner or times")]
    NotOwner,
    /// Owned by someone else, which only root may set up.
    #[error("only root may give it to user {uid} and group {gid}")]
    NotGivable {
        /// The owner that it would get.
        uid: u32,
        /// The group that it would get.
        gid: u32,
    },
    /// A device node, which only root may make.
    #[error("only root may make device nodes")]
    Device,
    /// In a directory where everyone may only remove what is theirs.
    #[error("it belongs to someone else in a sticky directory")]
    Sticky,
    /// The immutable or append-only attribute.
    #[error("it is marked immutable or append-only (chattr)")]
    Immutable,
    /// Something is mounted on it, so its name cannot go.
    #[error("something is mounted on it")]
    MountPoint,
    /// It runs, so it cannot be written.
    #[error("it is being executed")]
    Busy,
    /// Its file system has no room for its extended attributes, or does not know them.
    #[error("its file system does not take its extended attributes: {0}")]
    Xattrs(#[source] io::Error),
    /// The file system is full.
    #[error(
        "the commit needs {needed} bytes on the file system at {}, where {available} are free",
        file_system.display()
    )]
    NoSpace {
        /// Where it is mounted.
        file_system: PathBuf,
        /// Bytes.
        needed: u64,
        /// Bytes.
        available: u64,
    },
    /// The domain moved or replaced a directory that holds Surmise's own state.
    #[error("Surmise's state directory is inside, so it cannot be moved or replaced")]
    HoldsState,
    /// Its object lacks data, and the real file that had them has changed.
    #[error("it changed outside, and data that the domain left as they were are gone with that")]
    Lost,
    /// It could not even be looked at.
    #[error("{0}")]
    Unreadable(#[source] io::Error),
}

impl ObstacleKind {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::ReadOnly => "remount the file system read-write, then commit again",
            Self::NotWritable | Self::Sticky => {
                "get write permission there, or commit as a user who has it"
            }
            Self::NotOwner | Self::NotGivable { .. } | Self::Device => "commit as root",
            Self::Immutable => "remove the attribute with chattr -i -a, then commit again",
            Self::MountPoint => "unmount it, then commit again",
            Self::Busy => "end the process that runs it, then commit again",
            Self::Xattrs(_) => {
                "remove them inside (`surmise shell`, then setfattr -x), then commit again"
            }
            Self::NoSpace { .. } => "free space on that file system, then commit again",
            Self::HoldsState => {
                "set XDG_STATE_HOME to a directory that the command leaves alone, and run it again"
            }
            Self::Lost => "put it back as it was, with its times, or abort the domain",
            Self::Unreadable(_) => "check the permissions of the directories above it",
        }
    }
}

impl CommitError {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Conflicts(conflicts) if conflicts.iter().all(|one| one.what.is_of_read()) => {
                "look at the paths; commit without --strict, or with --force-ours PATH for what does not \
                 matter, or abort the domain and run the command again"
            }
            Self::ReadsUnknown(_) => {
                "nothing was changed; commit without --strict, or abort the domain and run the command again"
            }
            Self::Conflicts(_) => {
                "look at the paths; put them back as they were, or decide with --force-ours PATH (the \
                 domain's version) or --force-theirs PATH (what is there now), or abort the domain"
            }
            Self::NoConflict(_) => "commit without it to see the conflicts",
            Self::Unforceable(_) => {
                "put them back as they were, or decide with --force-theirs PATH; `surmise shell` still \
                 shows the domain's version"
            }
            Self::Obstacles(obstacles) => obstacles
                .first()
                .map_or("commit again", |obstacle| obstacle.why.hint()),
            Self::Stage { .. } => "nothing was changed; remove the cause, then commit again",
            Self::Apply { .. } | Self::Changes { .. } => {
                "remove the cause, then commit again: it will finish; or take it back with --undo"
            }
            Self::Changed(_) => {
                "put the paths back as the commit left them, then undo again; or commit again: it will finish"
            }
            Self::Undo { .. } => "remove the cause, then undo again: it will finish",
            Self::NothingToUndo => {
                "`surmise list` shows commits that were cut short as `committing`"
            }
            Self::Elsewhere(_) => {
                "mount its file system again or put it back, then do the same again"
            }
            Self::TooLate => "commit again: it will finish",
            Self::Journal(_) => "check the space and the permissions of the state directory",
            Self::Preimage { .. } => "nothing was taken back; commit again: it will finish",
            Self::UnderWay => {
                "commit again without options: it will finish; or take it back with --undo"
            }
            Self::Stopped => "commit again: it will finish or begin anew",
        }
    }

    /// For `map_err`: the commit's journal could not be written.
    pub(crate) fn journal(error: impl Into<OpenError>) -> Self {
        Self::log("commit", error)
    }

    /// A log in the state directory could not be read or written.
    pub(crate) fn log(file: &'static str, error: impl Into<OpenError>) -> Self {
        Self::Journal(JournalError::Open {
            file,
            source: error.into(),
        })
    }

    /// Whether what the state directory holds of the commit is damaged.
    pub fn is_damage(&self) -> bool {
        let is_damaged = |source: &OpenError| matches!(source, OpenError::Damaged(_));
        let log = self.unreadable_log();
        log.is_some_and(|(_, source)| is_damaged(source)) || matches!(self, Self::Preimage { .. })
    }

    /// Of an undo that failed: whether a later one would fail, too. For one thing, somebody has changed outside
    /// what it would put back.
    pub fn is_for_good(&self) -> bool {
        let cannot_be_read = |error: &io::Error| error.raw_os_error() == Some(EIO);
        match self {
            Self::Changed(_) | Self::TooLate | Self::NothingToUndo => true,
            Self::Undo { source, .. } => cannot_be_read(source),
            Self::Journal(JournalError::Open {
                source: OpenError::Io(source),
                ..
            }) => cannot_be_read(source),
            Self::Journal(JournalError::Malformed { .. }) => true,
            error => error.is_damage(),
        }
    }

    /// Which log in the state directory could not be read, where that is the failure.
    pub fn unreadable_log(&self) -> Option<(&'static str, &OpenError)> {
        match self {
            Self::Journal(JournalError::Open { file, source }) => Some((file, source)),
            Self::ReadsUnknown(ReadsUnknown::Unreadable { source, .. }) => Some(("reads", source)),
            _ => None,
        }
    }

    pub(crate) fn stage(path: PathBuf, source: impl Into<io::Error>) -> Self {
        Self::Stage {
            path,
            source: source.into(),
        }
    }

    pub(crate) fn undo(path: PathBuf, source: impl Into<io::Error>) -> Self {
        Self::Undo {
            path,
            source: source.into(),
        }
    }

    pub(crate) fn apply(path: PathBuf, source: impl Into<io::Error>) -> Self {
        Self::Apply {
            path,
            source: source.into(),
        }
    }
}

fn count(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}
