//! What a domain read outside: every real file that it opened and every symbolic link that it
//! followed, in the state of that moment.
//!
//! A commit compares these with the real files of that moment. Nothing else depends on them, so they are written
//! late and in large pieces. It matters only that a list which lacks something is never
//! taken for a complete one: the last frame of a complete list is an end mark with the number of all reads.
//! A view that goes on after an end mark first says so, durably.
//!
//! # Format: the file `reads`, a journal with the tag `READS`, version 2
//!
//! A frame's payload begins with one byte.
//!
//! | byte | what follows |
//! |---|---|
//! | 1 | reads, each an identity (as in the view's log), the length of a path as 4 bytes, and the path from the view's root without its first `/` |
//! | 2 | the end mark: the number of reads in the file, 8 bytes |
//! | 3 | nothing: there is more to come, and the end mark before this holds no longer |
//!
//! A path may be there more than once, after a million others or when a kept domain is entered again:
//! the first one counts.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use surmise_journal::{Format, Journal, OpenError};

use crate::codec::{Malformed, Reader, Writer};
use crate::types::{Identity, NodeId};

const FORMAT: Format = Format {
    tag: "READS",
    version: 2,
};

/// What a frame holds.
const READS: u8 = 1;
const END: u8 = 2;
const AGAIN: u8 = 3;

/// So much is kept in memory before it is appended, in bytes.
const PIECE: usize = 64 << 10;

/// How many names are remembered as noted, 8 to 18 bytes each. After so many all of them are forgotten,
/// and a name that is read again is noted again.
const NOTED_MAX: usize = 1 << 20;

/// A real file or symbolic link that a domain read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// Its real path, relative to the view's root.
    pub path: PathBuf,
    /// Which inode it was, in which state, when it was first read.
    pub identity: Identity,
}

/// Why it is not known what a domain read.
#[derive(Debug, thiserror::Error)]
pub enum ReadsUnknown {
    /// An earlier version ran it, or the file could not be written.
    #[error("there is no record of it")]
    Absent,
    /// The view process was killed, or power failed, while the domain ran; or it still runs.
    #[error("the record of it has no end: its view was killed, or the machine failed")]
    NotWhole,
    /// The record is there and is none.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The record.
        path: PathBuf,
        /// What is wrong.
        source: OpenError,
    },
}

impl ReadsUnknown {
    /// Whether all of it was known, and the record has been damaged since.
    pub fn is_damage(&self) -> bool {
        let Self::Unreadable { source, .. } = self else {
            return false;
        };
        matches!(source, OpenError::Damaged(_))
    }
}

/// What the domain of a state directory read since its consent began.
///
/// # Errors
/// When not all of it is known.
pub fn load_reads(directory: &Path) -> Result<Vec<Read>, ReadsUnknown> {
    Ok(whole(&path_in(directory))?.reads)
}

fn whole(path: &Path) -> Result<Fold, ReadsUnknown> {
    let mut fold = Fold::default();
    match surmise_journal::read_at(path, FORMAT, |_, payload| fold.take(payload)) {
        // What begins behind an end mark is more, even if nobody can read it.
        Ok(recovery) if recovery.dropped_bytes == 0 && fold.is_whole() => Ok(fold),
        Ok(_) => Err(ReadsUnknown::NotWhole),
        Err(error) if error.is_cut_short() => Err(ReadsUnknown::NotWhole),
        Err(OpenError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            Err(ReadsUnknown::Absent)
        }
        Err(source) => Err(ReadsUnknown::Unreadable {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Takes down what is read.
#[derive(Debug)]
pub(crate) struct Reads {
    path: PathBuf,
    /// `None` once something is missing: what comes then cannot make it whole.
    log: Option<Log>,
    /// Hashes of the names that are noted. Two names of one hash, which nobody will meet, would be one.
    noted: HashSet<u64>,
    /// Whether some were forgotten.
    has_forgotten: bool,
    hashing: RandomState,
}

#[derive(Debug)]
struct Log {
    journal: Journal<File>,
    /// The payload of the next frame.
    piece: Vec<u8>,
    /// How many reads there are, in the file and in the piece.
    count: u64,
    is_ended: bool,
}

impl Reads {
    /// Those of a state directory. Where there are none and the domain is not a new one, what it read
    /// is not known.
    pub(crate) fn open(directory: &Path, is_new: bool) -> Self {
        let path = path_in(directory);
        let log = match path.try_exists() {
            Ok(false) if is_new => Log::create(&path).ok(),
            Ok(true) => Log::go_on(&path),
            _ => None,
        };
        Self {
            path,
            log,
            noted: HashSet::new(),
            has_forgotten: false,
            hashing: RandomState::new(),
        }
    }

    /// Whether a name in a directory is noted, or may be.
    pub(crate) fn has(&self, directory: NodeId, name: &OsStr) -> bool {
        let hash = self.hashing.hash_one((directory, name));
        self.has_forgotten || self.noted.contains(&hash)
    }

    /// Notes that what a real name leads to is read, in this state, unless the name is noted.
    pub(crate) fn note(
        &mut self,
        (directory, name): (NodeId, &OsStr),
        identity: &Identity,
        path: impl FnOnce() -> Option<OsString>,
    ) {
        let hash = self.hashing.hash_one((directory, name));
        if self.noted.contains(&hash) {
            return;
        }
        if self.noted.len() >= NOTED_MAX {
            self.noted.clear();
            self.has_forgotten = true;
        }
        // Also where nothing is written any more: the next consent begins with some of it.
        self.noted.insert(hash);
        if self.log.is_none() {
            return;
        }
        match path() {
            Some(path) => self.attempt(|log| log.note(identity, &path)),
            // Nobody knows where it is.
            None => self.lose(),
        }
    }

    /// Makes the record whole, as far as this process is concerned, until something else is read.
    pub(crate) fn end(&mut self) {
        self.attempt(Log::end);
    }

    /// There may be more from now on. To be said before anybody reads, and while nobody waits: it is made
    /// durable.
    pub(crate) fn reopen(&mut self) {
        self.attempt(Log::reopen);
    }

    /// Begins anew: what was read until now does not count any more.
    pub(crate) fn renew(&mut self) {
        self.noted.clear();
        self.has_forgotten = false;
        let renewed = Log::create(&self.path).and_then(|mut log| {
            // Else a power loss could bring the old record back, with its end mark.
            log.journal.sync()?;
            Ok(log)
        });
        match renewed {
            Ok(log) => self.log = Some(log),
            Err(_) => self.lose(),
        }
    }

    fn attempt(&mut self, act: impl FnOnce(&mut Log) -> io::Result<()>) {
        if let Some(log) = &mut self.log
            && act(log).is_err()
        {
            self.lose();
        }
    }

    /// Something is missing from now on. An end mark that is there must not say otherwise.
    fn lose(&mut self) {
        if self.log.take().is_none_or(|log| log.is_ended) {
            // Where even this fails there is nothing left to try.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Log {
    fn create(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(true);
        let journal = Journal::create(file.open(path)?, FORMAT).map_err(io::Error::other)?;
        Ok(Self {
            journal,
            piece: Vec::new(),
            count: 0,
            is_ended: false,
        })
    }

    /// Of a domain that is entered again: only a whole record can become one.
    fn go_on(path: &Path) -> Option<Self> {
        let count = whole(path).ok()?.count;
        let (journal, _) = Journal::open_at(path, FORMAT, |_, _| {}).ok()?;
        let mut log = Self {
            journal,
            piece: Vec::new(),
            count,
            is_ended: true,
        };
        match log.reopen() {
            Ok(()) => Some(log),
            Err(_) => {
                // What comes now would be missing behind the end mark.
                let _ = std::fs::remove_file(path);
                None
            }
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        if self.is_ended {
            self.journal.append(&[AGAIN])?;
            self.journal.sync()?;
            self.is_ended = false;
        }
        Ok(())
    }

    fn note(&mut self, identity: &Identity, path: &OsStr) -> io::Result<()> {
        debug_assert!(!self.is_ended, "somebody has to say that there is more");
        let mut read = Writer::default();
        read.identity(identity).run(path.as_encoded_bytes());
        if self.piece.is_empty() {
            self.piece.push(READS);
        }
        self.piece.extend_from_slice(&read.bytes);
        self.count += 1;
        match self.piece.len() {
            PIECE.. => self.flush(),
            _ => Ok(()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.piece.is_empty() {
            self.journal.append(&self.piece)?;
            self.piece.clear();
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        if self.is_ended {
            return Ok(());
        }
        self.flush()?;
        let mut end = Writer::default();
        end.u8(END).u64(self.count);
        self.journal.append(&end.bytes)?;
        self.is_ended = true;
        Ok(())
    }
}

#[derive(Default)]
struct Fold {
    reads: Vec<Read>,
    count: u64,
    paths: HashSet<u64>,
    hashing: RandomState,
    is_ended: bool,
    is_malformed: bool,
}

impl Fold {
    fn take(&mut self, payload: &[u8]) {
        self.is_malformed |= self.take_frame(payload).is_err();
    }

    fn take_frame(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let mut reader = Reader::new(payload);
        let kind = reader.u8()?;
        let was_ended = std::mem::replace(&mut self.is_ended, kind == END);
        match kind {
            READS if !was_ended => {
                while !reader.is_empty() {
                    let identity = reader.identity()?;
                    let path = reader.run()?;
                    self.count += 1;
                    if self.paths.insert(self.hashing.hash_one(&path)) {
                        let path = PathBuf::from(OsString::from_vec(path));
                        self.reads.push(Read { path, identity });
                    }
                }
                Ok(())
            }
            END if reader.u64()? == self.count && reader.is_empty() => Ok(()),
            AGAIN if was_ended && reader.is_empty() => Ok(()),
            _ => Err(Malformed),
        }
    }

    fn is_whole(&self) -> bool {
        self.is_ended && !self.is_malformed
    }
}

fn path_in(directory: &Path) -> PathBuf {
    directory.join("reads")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{FileKind, Timestamp};

    const IDENTITY: Identity = Identity {
        device: 1,
        inode: 2,
        kind: FileKind::Regular,
        size: 3,
        modified: Timestamp {
            seconds: 4,
            nanoseconds: 5,
        },
        changed: Timestamp {
            seconds: 6,
            nanoseconds: 7,
        },
    };

    fn note(reads: &mut Reads, name: &str) {
        let path = || Some(OsString::from(name));
        reads.note((NodeId::ROOT, OsStr::new(name)), &IDENTITY, path);
    }

    #[test]
    fn an_end_mark_goes_when_what_follows_cannot_be_written() {
        let directory = tempfile::tempdir().unwrap();
        let mut reads = Reads::open(directory.path(), true);
        note(&mut reads, "a");
        reads.end();
        assert_eq!(load_reads(directory.path()).unwrap().len(), 1);
        let read_only = File::open(path_in(directory.path())).unwrap();
        let (journal, _) = Journal::open(read_only, FORMAT, |_, _| {}).unwrap();
        reads.log.as_mut().unwrap().journal = journal;
        reads.reopen();
        note(&mut reads, "b");
        let unknown = load_reads(directory.path());
        assert!(matches!(unknown, Err(ReadsUnknown::Absent)), "{unknown:?}");
        reads.end();
        assert!(load_reads(directory.path()).is_err());
    }

    #[test]
    fn what_cannot_be_found_again_makes_the_record_useless() {
        let directory = tempfile::tempdir().unwrap();
        let mut reads = Reads::open(directory.path(), true);
        note(&mut reads, "a");
        reads.end();
        reads.note((NodeId::ROOT, OsStr::new("b")), &IDENTITY, || None);
        reads.end();
        assert!(load_reads(directory.path()).is_err());
    }
}
