//! An append-only, checksummed log: the durable half of every part of Surmise that must survive
//! a kill or a power loss.
//!
//! A log is a header and a run of frames. A frame is appended with one write and is either whole or
//! not there: recovery takes frames as long as each one's length, checksum and sequence number
//! agree, and drops a rest that was never durable. What a frame's payload means is its owner's
//! affair (the view's name map, a commit's redo records).
//!
//! # Format (all integers little-endian)
//!
//! | offset | bytes | header |
//! |---|---|---|
//! | 0 | 8 | magic, `SURMISEJ` |
//! | 8 | 8 | the owner's format tag, ASCII, padded with NUL |
//! | 16 | 4 | the owner's format version |
//! | 20 | 4 | CRC-32C of bytes 0 to 19 |
//! | 512 | 32 | a mark |
//! | 1024 | 32 | a mark |
//!
//! | offset | bytes | mark |
//! |---|---|---|
//! | 0 | 8 | generation: the mark with the greater one counts |
//! | 8 | 8 | where the last durable frame ends |
//! | 16 | 8 | the number of frames up to there |
//! | 24 | 4 | 1: the log is sealed, and ends there; 0: more may follow |
//! | 28 | 4 | CRC-32C of the 28 bytes before |
//!
//! The first frame is at offset 1536 ([`HEADER_LENGTH`]).
//!
//! | offset | bytes | frame |
//! |---|---|---|
//! | 0 | 4 | length of the payload, at most [`PAYLOAD_MAX`] |
//! | 4 | 4 | CRC-32C of the sequence number and the payload |
//! | 8 | 8 | sequence number: 1 for the first frame, then one more each |
//! | 16 | n | payload |
//!
//! # Damage
//!
//! A mark is written when all before it is durable, and is made durable itself before anybody relies on
//! that. So whatever a kill or a power loss does, a log has all that its newest mark says: one that lacks
//! any of it is damaged, as is a sealed one with more. Behind the mark the last frames may be missing; an
//! unreadable frame there with a whole one behind it is damage, too. A damaged log is never changed.
//!
//! An owner for whom two flushes take too long has one with [`Journal::sync_behind`]. The newest mark then is some frames
//! behind what is durable. If exactly these frames are cut off, that does not show.
#![forbid(unsafe_code)]

mod damage;
mod frame;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod header;
mod scan;
mod storage;

pub use damage::{Damage, Salvage, Symptom};
pub use frame::{FRAME_HEADER_LENGTH, PAYLOAD_MAX};
pub use header::{Format, HEADER_LENGTH};
pub use storage::Storage;

use header::Mark;

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Why a log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file could not be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file lacks something that was in it, or was never a log.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The file is a log of another owner.
    #[error("a log of format {found:?} where {wanted:?} was expected")]
    WrongFormat {
        /// The format tag in the file.
        found: String,
        /// The format tag that the caller asked for.
        wanted: &'static str,
    },
    /// The log was written by another version of Surmise.
    #[error("log version {found}; this Surmise reads version {wanted}")]
    WrongVersion {
        /// The version in the file.
        found: u32,
        /// The version that the caller reads.
        wanted: u32,
    },
}

impl OpenError {
    /// Whether the file ends within its header; see [`is_cut_short`].
    pub fn is_cut_short(&self) -> bool {
        matches!(self, Self::Damaged(damage) if damage.what == Symptom::WithinHeader)
    }
}

/// Symptom [`Journal::open`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// Whole frames.
    pub frames: u64,
    /// Bytes dropped behind the last whole frame: an append that a kill or power loss cut short.
    pub dropped_bytes: u64,
    /// Whether the log says that nothing follows.
    pub is_sealed: bool,
}

/// How many bytes of durable frames [`Journal::sync_behind`] leaves without a mark.
const BEHIND_MAX: u64 = 64 << 10;

/// A log that can be appended to.
#[derive(Debug)]
pub struct Journal<S = File> {
    storage: S,
    end: u64,
    next: u64,
    /// The newest one in the storage.
    mark: Mark,
    /// Where the last frame ends that is known to be durable, and its sequence number.
    flushed: (u64, u64),
    /// Whether nothing waits for the disk.
    is_durable: bool,
    /// Whether the disk has failed to take something. The kernel tells of that once, and a later success says
    /// nothing of what was lost (fsync(2), EIO).
    has_lost: bool,
    frame: Vec<u8>,
}

impl Journal<File> {
    /// Creates the log at `path`, which must not exist.
    pub fn create_at(path: &Path, format: Format) -> Result<Self, OpenError> {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        Self::create(file, format).inspect_err(|_| {
            // A file without a header would stand in the way of the next attempt.
            let _ = std::fs::remove_file(path);
        })
    }

    /// Opens the log at `path` for appending; see [`Journal::open`].
    pub fn open_at(
        path: &Path,
        format: Format,
        each: impl FnMut(u64, &[u8]),
    ) -> Result<(Self, Recovery), OpenError> {
        let file = File::options().read(true).write(true).open(path)?;
        Self::open(file, format, each)
    }
}

/// Whether the file at `path` ends within the header of a log, and is all of that header up to there. If it was
/// never sealed, its creation was cut short, and it holds nothing.
///
/// A log of an earlier version may be as short and hold something, since its first frame comes sooner.
pub fn is_cut_short(path: &Path) -> bool {
    let read = || {
        let mut start = Vec::new();
        File::open(path)?
            .take(HEADER_LENGTH)
            .read_to_end(&mut start)?;
        io::Result::Ok(start)
    };
    read().is_ok_and(|start| header::is_cut_short(&start))
}

/// Reads the log at `path` without changing it, which may be done while its owner appends.
pub fn read_at(
    path: &Path,
    format: Format,
    each: impl FnMut(u64, &[u8]),
) -> Result<Recovery, OpenError> {
    let bytes = read(path)?;
    format.check(&bytes)?;
    Ok(scan::scan(&bytes, each)?)
}

/// Reads what can be read of a damaged log, in order. What a frame means may depend on one that cannot be.
///
/// # Errors
/// When the file cannot be read, or is one of another version. Nothing else is in the way.
pub fn salvage_at(
    path: &Path,
    format: Format,
    each: impl FnMut(u64, &[u8]),
) -> Result<Salvage, OpenError> {
    let bytes = read(path)?;
    match format.check(&bytes) {
        Ok(()) | Err(OpenError::Damaged(_)) => Ok(scan::salvage(&bytes, each)),
        Err(other) => Err(other),
    }
}

/// Seals the log at `path`, whatever its format, of which all is durable and to which nobody appends. The seal
/// counts when the caller has made the file durable. Returns the log's length in bytes.
pub fn seal_at(path: &Path) -> Result<u64, OpenError> {
    let mut file = File::options().read(true).write(true).open(path)?;
    let bytes = file.read_all()?;
    header::whole_header(&bytes)?;
    let mut journal = Journal::recover(file, &bytes, |_, _| {})?.0;
    journal.mark(true)?;
    Ok(journal.end)
}

/// All of a file. Its header is read first, so that a mark never says more than what is read behind it.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    loop {
        let mut bytes = Vec::new();
        let mut file = File::open(path)?;
        (&mut file).take(HEADER_LENGTH).read_to_end(&mut bytes)?;
        file.read_to_end(&mut bytes)?;
        if !header::has_more_than_sealed(&bytes) {
            return Ok(bytes);
        }
        // The owner may have broken the seal after the header was read.
        let mut header = [0; HEADER_LENGTH as usize];
        file.read_exact_at(&mut header, 0)?;
        if bytes.starts_with(&header) {
            return Ok(bytes);
        }
    }
}

impl<S: Storage> Journal<S> {
    /// Starts a log on empty storage.
    pub fn create(mut storage: S, format: Format) -> Result<Self, OpenError> {
        storage.write_at(0, &format.header())?;
        Ok(Self {
            storage,
            end: HEADER_LENGTH,
            next: 1,
            mark: Mark::FIRST,
            flushed: (HEADER_LENGTH, 0),
            is_durable: false,
            has_lost: false,
            frame: Vec::new(),
        })
    }

    /// Recovers a log: calls `each` with the sequence number and payload of every whole frame,
    /// oldest first, and cuts off what lies behind the last one.
    ///
    /// # Errors
    /// [`OpenError`], and the storage is as it was. `each` may have been called.
    pub fn open(
        mut storage: S,
        format: Format,
        each: impl FnMut(u64, &[u8]),
    ) -> Result<(Self, Recovery), OpenError> {
        let bytes = storage.read_all()?;
        format.check(&bytes)?;
        Self::recover(storage, &bytes, each)
    }

    fn recover(
        mut storage: S,
        bytes: &[u8],
        each: impl FnMut(u64, &[u8]),
    ) -> Result<(Self, Recovery), OpenError> {
        let recovery = scan::scan(bytes, each)?;
        let end = bytes.len() as u64 - recovery.dropped_bytes;
        if recovery.dropped_bytes > 0 {
            storage.truncate(end)?;
        }
        let mark = Mark::newest(bytes)?;
        let journal = Self {
            storage,
            end,
            next: recovery.frames + 1,
            mark,
            flushed: (mark.end, mark.frames),
            is_durable: recovery.is_sealed,
            has_lost: false,
            frame: Vec::new(),
        };
        Ok((journal, recovery))
    }

    /// Appends one frame and returns its sequence number. The frame survives a kill of this
    /// process at once, and a power loss after the next [`Journal::sync`].
    ///
    /// # Errors
    /// `InvalidInput` when the payload exceeds [`PAYLOAD_MAX`]; else what the storage says, and the
    /// log is as it was before the call.
    pub fn append(&mut self, payload: &[u8]) -> io::Result<u64> {
        let sequence = self.next;
        frame::encode(&mut self.frame, sequence, payload)?;
        if self.mark.is_sealed {
            self.break_seal()?;
        }
        if let Err(error) = self.storage.write_at(self.end, &self.frame) {
            // A torn frame here would end the log for every later reader. Should the cut fail too,
            // the next append overwrites the same place, and recovery drops the tail.
            let _ = self.storage.truncate(self.end);
            return Err(error);
        }
        self.end += self.frame.len() as u64;
        self.next += 1;
        self.is_durable = false;
        Ok(sequence)
    }

    /// Sequence number of the newest frame, 0 when there is none.
    pub fn last_sequence(&self) -> u64 {
        self.next - 1
    }

    /// Makes every appended frame durable (fdatasync(2)), and then a mark that says so: from then on a log
    /// without these frames is a damaged one.
    ///
    /// # Errors
    /// What the storage says; and once it has failed, ever after.
    pub fn sync(&mut self) -> io::Result<()> {
        if self.is_durable {
            return Ok(());
        }
        self.flush()?;
        if self.end != self.mark.end {
            self.mark(false)?;
            self.flush()?;
        }
        self.is_durable = true;
        Ok(())
    }

    /// Makes every appended frame durable by one flush, where [`Journal::sync`] takes two.
    ///
    /// A mark that goes out with the frames may reach the disk before them. So it tells only of the frames that an earlier
    /// flush has made durable, and is written when these are many.
    ///
    /// # Errors
    /// As [`Journal::sync`].
    pub fn sync_behind(&mut self) -> io::Result<()> {
        let (end, frames) = self.flushed;
        if end >= self.mark.end + BEHIND_MAX {
            self.write_mark(self.mark.next(end, frames, false))?;
        }
        self.flush()
    }

    /// The length of the log in bytes.
    pub fn length(&self) -> u64 {
        self.end
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.has_lost {
            return Err(io::Error::other("an earlier write did not reach the disk"));
        }
        self.storage.sync().inspect_err(|_| self.has_lost = true)?;
        self.flushed = (self.end, self.last_sequence());
        Ok(())
    }

    /// Before anything follows the seal, also on the disk.
    fn break_seal(&mut self) -> io::Result<()> {
        let sealed = self.mark;
        self.mark(false)?;
        self.storage.sync().inspect_err(|_| {
            // Whether the disk has the mark is not known, so the next append writes it once more.
            self.mark = sealed;
        })
    }

    /// Says that everything up to here is durable, and whether this is the end.
    fn mark(&mut self, is_sealed: bool) -> io::Result<()> {
        let mark = self.mark.next(self.end, self.last_sequence(), is_sealed);
        self.write_mark(mark)
    }

    fn write_mark(&mut self, mark: Mark) -> io::Result<()> {
        self.storage.write_at(mark.place() as u64, &mark.encode())?;
        self.mark = mark;
        Ok(())
    }
}
