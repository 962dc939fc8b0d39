//! An append-only, checksummed log: the durable half of every part of Surmise that must survive
//! a kill or a power loss.
//!
//! A log is a header and a run of frames. A frame is appended with one write and is either whole or
//! not there: recovery takes frames as long as each one's length, checksum and sequence number
//! agree, and drops the rest, which was never synced. What a frame's payload means is its owner's
//! affair (the view's name map, a commit's redo records).
//!
//! # Format, version 1 (all integers little-endian)
//!
//! | offset | bytes | header |
//! |---|---|---|
//! | 0 | 8 | magic, `SURMISEJ` |
//! | 8 | 8 | the owner's format tag, ASCII, padded with NUL |
//! | 16 | 4 | the owner's format version |
//! | 20 | 4 | CRC-32C of bytes 0 to 19 |
//!
//! | offset | bytes | frame |
//! |---|---|---|
//! | 0 | 4 | length of the payload, at most [`PAYLOAD_MAX`] |
//! | 4 | 4 | CRC-32C of the sequence number and the payload |
//! | 8 | 8 | sequence number: 1 for the first frame, then one more each |
//! | 16 | n | payload |
#![forbid(unsafe_code)]

mod frame;
mod storage;

pub use frame::{Format, HEADER_LENGTH, PAYLOAD_MAX};
pub use storage::Storage;

use std::fs::File;
use std::io;
use std::path::Path;

/// Why a log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file could not be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is not a log, or its header is damaged.
    #[error("not a Surmise log, or its header is damaged")]
    NotALog,
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

/// What [`Journal::open`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// Whole frames.
    pub frames: u64,
    /// Bytes dropped behind the last whole frame: an append that a kill or power loss cut short.
    pub dropped_bytes: u64,
}

/// A log that can be appended to.
#[derive(Debug)]
pub struct Journal<S = File> {
    storage: S,
    end: u64,
    next: u64,
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

/// Whether the log at `path` ends within its header: its creation was cut short, so it holds nothing.
pub fn is_cut_short(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.len() < HEADER_LENGTH)
}

/// Reads the log at `path` without changing it, which may be done while its owner appends.
pub fn read_at(
    path: &Path,
    format: Format,
    each: impl FnMut(u64, &[u8]),
) -> Result<Recovery, OpenError> {
    let bytes = std::fs::read(path)?;
    format.check(&bytes)?;
    Ok(frame::scan(&bytes, each))
}

impl<S: Storage> Journal<S> {
    /// Starts a log on empty storage.
    pub fn create(mut storage: S, format: Format) -> Result<Self, OpenError> {
        let header = format.header();
        storage.write_at(0, &header)?;
        Ok(Self {
            storage,
            end: HEADER_LENGTH,
            next: 1,
            frame: Vec::new(),
        })
    }

    /// Recovers a log: calls `each` with the sequence number and payload of every whole frame,
    /// oldest first, and cuts off what lies behind the last one.
    pub fn open(
        mut storage: S,
        format: Format,
        each: impl FnMut(u64, &[u8]),
    ) -> Result<(Self, Recovery), OpenError> {
        let bytes = storage.read_all()?;
        format.check(&bytes)?;
        let recovery = frame::scan(&bytes, each);
        let end = bytes.len() as u64 - recovery.dropped_bytes;
        if recovery.dropped_bytes > 0 {
            storage.truncate(end)?;
        }
        let journal = Self {
            storage,
            end,
            next: recovery.frames + 1,
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
        if let Err(error) = self.storage.write_at(self.end, &self.frame) {
            // A torn frame here would end the log for every later reader. Should the cut fail too,
            // the next append overwrites the same place, and recovery drops the tail.
            let _ = self.storage.truncate(self.end);
            return Err(error);
        }
        self.end += self.frame.len() as u64;
        self.next += 1;
        Ok(sequence)
    }

    /// Sequence number of the newest frame, 0 when there is none.
    pub fn last_sequence(&self) -> u64 {
        self.next - 1
    }

    /// Makes every appended frame durable (fdatasync(2)).
    pub fn sync(&mut self) -> io::Result<()> {
        self.storage.sync()
    }
}
