//! The log: what the server has promised.
//!
//! # Format
//! A log of `surmise-journal`, format `SERVER`, version 2. A frame is an [`Entry`] in the wire format of the crate `postcard`
//! (version 1). The first one is `Begins`. Behind it come `Pairs` and the records of the clients that were known by then, and
//! then the records since.
//!
//! A log is replaced when it has become long, and when a server starts or ends: all that it says has been made by then and is
//! durable in the directory. The new one is written beside it, made durable, and renamed over it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use serde::{Deserialize, Serialize};
use surmise_journal::{Format, Journal, OpenError};
use surmise_remote::object::ObjectId;
use surmise_remote::server::Record;

const FORMAT: Format = Format {
    tag: "SERVER",
    version: 2,
};

const NAME: &str = "log";
const NEW: &str = "log.new";

/// How many pairs a frame has.
const PAIRS_EACH: usize = 10_000;

/// What is in a frame.
#[derive(Debug, Deserialize)]
enum Entry {
    Begins(Begins),
    Pairs(Vec<(ObjectId, u64)>),
    Record(Record),
}

/// The same, as it is written.
#[derive(Debug, Serialize)]
enum Written<'e> {
    Begins(Begins),
    Pairs(&'e [(ObjectId, u64)]),
    Record(&'e Record),
}

/// What the first frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begins {
    /// The inode of the export's root. A copy of the export has another one, and all other numbers here mean nothing there.
    pub(crate) root: u64,
    /// The inode of the directory of the server's state, and its time of birth in nanoseconds since 1970, 0 where the file
    /// system does not tell. A copy of a whole file system may have the same inodes, and not the same times.
    pub(crate) state: (u64, u64),
    /// How many operations had been made in the directory, since it was first served.
    pub(crate) operations: u64,
    /// How often a server has started.
    pub(crate) starts: u64,
}

/// What a log holds.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) begins: Begins,
    pub(crate) pairs: Vec<(ObjectId, u64)>,
    pub(crate) records: Vec<Record>,
}

/// A log that is appended to.
#[derive(Debug)]
pub(crate) struct Log {
    journal: Journal,
    state: OwnedFd,
    bytes: Vec<u8>,
}

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("entry {0} can't be read")]
    Entry(u64),
    #[error("it does not begin as a log of a server")]
    Begin,
    #[error("it is the log of another directory, of which this one is a copy")]
    Other,
}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> Self {
        Self::Open(error.into())
    }
}

impl Log {
    /// Opens the log in the directory of the server's state; `None` if there is none.
    pub(crate) fn open(state: &OwnedFd) -> Result<Option<(Self, Contents)>, LogError> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(state, NAME, flags, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            file => File::from(file.map_err(io::Error::from)?),
        };
        let (mut entries, mut bad) = (Vec::new(), None);
        let (journal, _) =
            Journal::open(file, FORMAT, |number, bytes| {
                match postcard::from_bytes(bytes) {
                    Ok(entry) => entries.push(entry),
                    Err(_) => bad = bad.or(Some(number)),
                }
            })?;
        if let Some(number) = bad {
            return Err(LogError::Entry(number));
        }
        let contents = Contents::of(entries).ok_or(LogError::Begin)?;
        let state = state.try_clone()?;
        let bytes = Vec::new();
        Ok(Some((
            Self {
                journal,
                state,
                bytes,
            },
            contents,
        )))
    }

    /// Puts a new log in the place of any other.
    pub(crate) fn replace<'r>(
        state: &OwnedFd,
        begins: Begins,
        pairs: &[(ObjectId, u64)],
        records: impl IntoIterator<Item = &'r Record>,
    ) -> Result<Self, LogError> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(state, NEW, flags, mode).map_err(io::Error::from)?;
        let mut log = Self {
            journal: Journal::create(File::from(file), FORMAT)?,
            state: state.try_clone()?,
            bytes: Vec::new(),
        };
        log.write(&Written::Begins(begins))?;
        for pairs in pairs.chunks(PAIRS_EACH) {
            log.write(&Written::Pairs(pairs))?;
        }
        for record in records {
            log.append(record)?;
        }
        log.journal.sync()?;
        rustix::fs::renameat(state, NEW, state, NAME).map_err(io::Error::from)?;
        // A descriptor that is open for its place alone cannot be flushed.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(state, ".", flags, Mode::empty());
        let directory = directory.map_err(io::Error::from)?;
        // From here on it is the log, so this is not a failure to begin one (`ENOSPC`).
        rustix::fs::fsync(directory).map_err(|errno| io::Error::other(errno.to_string()))?;
        Ok(log)
    }

    /// As [`Log::replace`], in the place of this one.
    pub(crate) fn replaced(
        &self,
        begins: Begins,
        pairs: &[(ObjectId, u64)],
        records: &[Record],
    ) -> Result<Self, LogError> {
        Self::replace(&self.state, begins, pairs, records)
    }

    /// Removes what a failure has left of a new log.
    pub(crate) fn remove_unfinished(&self) -> io::Result<()> {
        remove_unfinished(&self.state)
    }

    pub(crate) fn append(&mut self, record: &Record) -> io::Result<()> {
        self.write(&Written::Record(record))
    }

    /// Makes all that was appended durable.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.journal.sync_behind()
    }

    /// Its length in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.journal.length()
    }

    fn write(&mut self, entry: &Written<'_>) -> io::Result<()> {
        self.bytes.clear();
        let bytes = postcard::to_extend(entry, std::mem::take(&mut self.bytes));
        self.bytes = bytes.map_err(io::Error::other)?;
        self.journal.append(&self.bytes)?;
        Ok(())
    }
}

impl Contents {
    /// Where there is no log.
    pub(crate) fn empty(root: u64, state: (u64, u64), operations: u64) -> Self {
        Self {
            begins: Begins {
                root,
                state,
                operations,
                starts: 0,
            },
            pairs: Vec::new(),
            records: Vec::new(),
        }
    }

    fn of(entries: Vec<Entry>) -> Option<Self> {
        let mut entries = entries.into_iter();
        let Some(Entry::Begins(begins)) = entries.next() else {
            return None;
        };
        let mut contents = Self {
            begins,
            pairs: Vec::new(),
            records: Vec::new(),
        };
        for entry in entries {
            match entry {
                Entry::Begins(_) => return None,
                Entry::Pairs(pairs) => contents.pairs.extend(pairs),
                Entry::Record(record) => contents.records.push(record),
            }
        }
        Some(contents)
    }
}

/// When the log was last appended to, in seconds and nanoseconds; `None` if there is none.
pub(crate) fn ended(state: impl AsFd) -> io::Result<Option<(i64, u32)>> {
    let mask = StatxFlags::MTIME;
    match rustix::fs::statx(state, NAME, AtFlags::SYMLINK_NOFOLLOW, mask) {
        Ok(found) => Ok(Some((found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec))),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes what a kill has left of a new log.
pub(crate) fn remove_unfinished(state: impl AsFd) -> io::Result<()> {
    match rustix::fs::unlinkat(state, NEW, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
