//! A segment of the cache: two files, of which one has pieces behind each other, and the other one says what they are.
//!
//! `NUMBER.data` is bytes alone. `NUMBER.index` begins with [`HEADER`], and has a record of 64 bytes for each piece, numbers
//! little-endian:
//!
//! | bytes | |
//! |---|---|
//! | 0–7 | the object's number |
//! | 8–15 | where the piece begins in the file |
//! | 16–19 | where it begins in `NUMBER.data` |
//! | 20–23 | its length |
//! | 24–55 | its SHA-256 |
//! | 56–63 | the first bytes of the SHA-256 of bytes 0–55 |
//!
//! A record that is torn or damaged is passed over. One whose piece is, is found out when the piece is read.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use surmise_remote::object::ObjectId;
use surmise_remote::piece::{Digest, PIECE_BYTES, Piece};

/// How long a record is.
pub(super) const RECORD_BYTES: u64 = 64;

const RECORD: usize = RECORD_BYTES as usize;

/// What the index begins with. Another one is of another version.
const HEADER: [u8; RECORD] = {
    let mut header = [0; RECORD];
    let text = b"surmise cache 1\n";
    let mut at = 0;
    while at < text.len() {
        header[at] = text[at];
        at += 1;
    }
    header
};

const DATA: &str = "data";
const INDEX: &str = "index";

/// The files of a segment.
#[derive(Debug)]
pub(super) struct Segment {
    data: File,
    index: File,
    data_bytes: AtomicU64,
    index_bytes: AtomicU64,
}

/// A piece, and where in its segment it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) piece: Piece,
    position: u32,
}

impl Segment {
    /// A new one, without pieces.
    pub(super) fn create(directory: &OwnedFd, number: u64) -> io::Result<Self> {
        let segment = Self::open(directory, number, OFlags::CREATE | OFlags::TRUNC)?;
        segment.index.write_all_at(&HEADER, 0)?;
        segment.index_bytes.store(RECORD_BYTES, Ordering::Relaxed);
        Ok(segment)
    }

    fn open(directory: &OwnedFd, number: u64, flags: OFlags) -> io::Result<Self> {
        let open = |what| -> io::Result<File> {
            let flags = flags | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = Mode::RUSR | Mode::WUSR;
            let file = rustix::fs::openat(directory, name(number, what), flags, mode)?;
            let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
            match kind {
                FileType::RegularFile => Ok(File::from(file)),
                _ => Err(io::ErrorKind::InvalidInput.into()),
            }
        };
        Ok(Self {
            data: open(DATA)?,
            index: open(INDEX)?,
            data_bytes: AtomicU64::new(0),
            index_bytes: AtomicU64::new(0),
        })
    }

    /// One that is there, and what is in it.
    fn load(directory: &OwnedFd, number: u64) -> io::Result<(Self, Vec<Stored>)> {
        let segment = Self::open(directory, number, OFlags::empty())?;
        let data_bytes = segment.data.metadata()?.len();
        let mut index = Vec::new();
        io::Read::read_to_end(&mut &segment.index, &mut index)?;
        let (records, _) = index.as_chunks::<RECORD>();
        let Some((&HEADER, records)) = records.split_first() else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let all = records.iter().filter_map(Stored::decode);
        let stored = all.filter(|one| one.end() <= data_bytes).collect();
        // What comes next goes behind the last whole record, and behind all bytes.
        let index_bytes = (records.len() as u64 + 1) * RECORD_BYTES;
        segment.data_bytes.store(data_bytes, Ordering::Relaxed);
        segment.index_bytes.store(index_bytes, Ordering::Relaxed);
        Ok((segment, stored))
    }

    /// How many bytes it has.
    pub(super) fn bytes(&self) -> u64 {
        self.data_bytes.load(Ordering::Relaxed) + self.index_bytes.load(Ordering::Relaxed)
    }

    /// Adds a piece. One thread alone does so.
    pub(super) fn append(&self, piece: Piece, data: &[u8]) -> io::Result<Stored> {
        let position = self.data_bytes.load(Ordering::Relaxed);
        let stored = Stored {
            piece,
            position: u32::try_from(position).map_err(io::Error::other)?,
        };
        self.data.write_all_at(data, position)?;
        let at = self.index_bytes.load(Ordering::Relaxed);
        self.index.write_all_at(&stored.encode(), at)?;
        let end = position + data.len() as u64;
        self.data_bytes.store(end, Ordering::Relaxed);
        self.index_bytes.store(at + RECORD_BYTES, Ordering::Relaxed);
        Ok(stored)
    }

    /// The bytes of a piece; `None` if they are not what they were.
    pub(super) fn read(&self, stored: &Stored) -> Option<Vec<u8>> {
        let mut data = vec![0; stored.piece.length as usize];
        let read = self.data.read_exact_at(&mut data, stored.position.into());
        read.ok()?;
        (Digest::of(&data) == stored.piece.digest).then_some(data)
    }
}

impl Stored {
    fn end(&self) -> u64 {
        u64::from(self.position) + u64::from(self.piece.length)
    }

    fn encode(&self) -> [u8; RECORD] {
        let mut record = [0; RECORD];
        record[..8].copy_from_slice(&self.piece.object.number().to_le_bytes());
        record[8..16].copy_from_slice(&self.piece.offset.to_le_bytes());
        record[16..20].copy_from_slice(&self.position.to_le_bytes());
        record[20..24].copy_from_slice(&self.piece.length.to_le_bytes());
        record[24..56].copy_from_slice(&self.piece.digest.0);
        let check = Digest::of(&record[..56]);
        record[56..].copy_from_slice(&check.0[..8]);
        record
    }

    fn decode(record: &[u8; RECORD]) -> Option<Self> {
        let word = |at: usize| <[u8; 8]>::try_from(&record[at..at + 8]).map(u64::from_le_bytes);
        let half = |at: usize| <[u8; 4]>::try_from(&record[at..at + 4]).map(u32::from_le_bytes);
        let is_whole = Digest::of(&record[..56]).0[..8] == record[56..];
        let piece = Piece {
            object: ObjectId::numbered(word(0).ok()?),
            offset: word(8).ok()?,
            length: half(20).ok()?,
            digest: Digest(record[24..56].try_into().ok()?),
        };
        let position = half(16).ok()?;
        let is_piece = u64::from(piece.length) <= PIECE_BYTES;
        (is_whole && is_piece).then_some(Self { piece, position })
    }
}

/// All segments of a cache, the oldest one first. Those that are no segments are removed.
///
/// # Errors
/// One cannot be looked at now: too many files are open (`EMFILE`), say.
pub(super) fn load_all(directory: &OwnedFd) -> io::Result<Vec<(u64, Segment, Vec<Stored>)>> {
    let mut numbers = numbers(directory)?;
    numbers.sort_unstable();
    numbers.dedup();
    let mut all = Vec::new();
    for number in numbers {
        match Segment::load(directory, number) {
            Ok((segment, stored)) => all.push((number, segment, stored)),
            Err(error) if is_of_the_files(&error) => remove(directory, number),
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// Whether an error says that files are no segment. No later mount could read them either.
fn is_of_the_files(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, NotFound, PermissionDenied};
    let is_link = error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
    is_link
        || matches!(
            error.kind(),
            InvalidData | InvalidInput | NotFound | PermissionDenied
        )
}

/// Removes the files of a segment.
pub(super) fn remove(directory: &OwnedFd, number: u64) {
    for what in [INDEX, DATA] {
        // The user may have removed it.
        let _ = rustix::fs::unlinkat(directory, name(number, what), AtFlags::empty());
    }
}

fn numbers(directory: &OwnedFd) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in Dir::read_from(directory.as_fd())? {
        let entry = entry?;
        let name = entry.file_name().to_str().ok();
        let parts = name.and_then(|name| name.split_once('.'));
        if let Some((number, DATA | INDEX)) = parts {
            numbers.extend(u64::from_str_radix(number, 16).ok());
        }
    }
    Ok(numbers)
}

fn name(number: u64, what: &str) -> String {
    format!("{number:08x}.{what}")
}
