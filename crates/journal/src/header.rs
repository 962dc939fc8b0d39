//! The bytes before the first frame: whose log it is, and how much of it is known to be there.

use crate::{Damage, OpenError, Symptom};

/// Bytes before the first frame.
pub const HEADER_LENGTH: u64 = 1536;

const MAGIC: &[u8; 8] = b"SURMISEJ";

/// Where the two marks are. A sector each: a write that a power loss tears leaves the other one whole.
const MARKS: [usize; 2] = [512, 1024];
const MARK_LENGTH: usize = 32;

/// Whose log it is, and which version of its payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// One to eight ASCII characters.
    pub tag: &'static str,
    /// Version of the payloads' meaning.
    pub version: u32,
}

/// How much of a log is durable. A log that lacks any of that is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The newer of two marks has the greater one.
    generation: u64,
    /// Where the last durable frame ends.
    pub(crate) end: u64,
    /// How many frames there are up to `end`.
    pub(crate) frames: u64,
    /// Whether nothing comes behind `end`.
    pub(crate) is_sealed: bool,
}

/// Bytes that say whose log it is.
const NAME_LENGTH: usize = 24;

impl Format {
    /// All bytes of an empty log.
    pub(crate) fn header(self) -> Vec<u8> {
        let mut header = vec![0; HEADER_LENGTH as usize];
        header[..8].copy_from_slice(MAGIC);
        header[8..16].copy_from_slice(&self.padded_tag());
        header[16..20].copy_from_slice(&self.version.to_le_bytes());
        let checksum = crc32c::crc32c(&header[..20]);
        header[20..NAME_LENGTH].copy_from_slice(&checksum.to_le_bytes());
        header[NAME_LENGTH..].copy_from_slice(&behind_name());
        header
    }

    pub(crate) fn check(self, bytes: &[u8]) -> Result<(), OpenError> {
        if is_cut_short(bytes) {
            return Err(Damage::at(bytes.len() as u64, Symptom::WithinHeader).into());
        }
        let header = whole_header(bytes)?;
        if header[8..16] != self.padded_tag() {
            return Err(OpenError::WrongFormat {
                found: String::from_utf8_lossy(&header[8..16])
                    .trim_end_matches('\0')
                    .to_owned(),
                wanted: self.tag,
            });
        }
        let found = u32_at(header, 16);
        if found != self.version {
            return Err(OpenError::WrongVersion {
                found,
                wanted: self.version,
            });
        }
        Ok(())
    }

    fn padded_tag(self) -> [u8; 8] {
        let mut tag = [0; 8];
        tag[..self.tag.len()].copy_from_slice(self.tag.as_bytes());
        tag
    }
}

/// What the header of every empty log has behind the name.
fn behind_name() -> Vec<u8> {
    let first = Mark::FIRST;
    let mut bytes = vec![0; HEADER_LENGTH as usize - NAME_LENGTH];
    bytes[first.place() - NAME_LENGTH..][..MARK_LENGTH].copy_from_slice(&first.encode());
    bytes
}

/// Whether `bytes` end within a header, and are as in the header of an empty log up to there.
pub(crate) fn is_cut_short(bytes: &[u8]) -> bool {
    let behind = bytes.get(NAME_LENGTH..).unwrap_or_default();
    bytes.len() < HEADER_LENGTH as usize && behind_name().starts_with(behind)
}

/// Whether a log is longer than its seal says.
pub(crate) fn has_more_than_sealed(bytes: &[u8]) -> bool {
    let newest = Mark::newest(bytes);
    newest.is_ok_and(|mark| mark.is_sealed && (bytes.len() as u64) > mark.end)
}

/// The part of a header that says whose log it is, if all of it is there and undamaged.
pub(crate) fn whole_header(bytes: &[u8]) -> Result<&[u8; NAME_LENGTH], Damage> {
    let header = bytes.first_chunk::<NAME_LENGTH>();
    let header = header.ok_or(Damage::at(bytes.len() as u64, Symptom::Header))?;
    match header[..8] == *MAGIC && crc32c::crc32c(&header[..20]) == u32_at(header, 20) {
        true => Ok(header),
        false => Err(Damage::at(0, Symptom::Header)),
    }
}

impl Mark {
    /// Of a log without frames.
    pub(crate) const FIRST: Self = Self {
        generation: 1,
        end: HEADER_LENGTH,
        frames: 0,
        is_sealed: false,
    };

    /// The newest one that is whole. Where that is the older of two, it says less, and nothing that is not so.
    pub(crate) fn newest(bytes: &[u8]) -> Result<Self, Damage> {
        let marks = MARKS.iter().filter_map(|place| Self::decode(bytes, *place));
        let newest = marks.max_by_key(|mark| mark.generation);
        newest.ok_or(Damage::at(MARKS[0] as u64, Symptom::Header))
    }

    /// The one to be written after this one.
    pub(crate) fn next(self, end: u64, frames: u64, is_sealed: bool) -> Self {
        Self {
            generation: self.generation + 1,
            end,
            frames,
            is_sealed,
        }
    }

    /// Its offset in the file: never that of the mark before it.
    pub(crate) fn place(self) -> usize {
        MARKS[(self.generation % 2) as usize]
    }

    pub(crate) fn encode(self) -> [u8; MARK_LENGTH] {
        let mut bytes = [0; MARK_LENGTH];
        bytes[..8].copy_from_slice(&self.generation.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.end.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.frames.to_le_bytes());
        bytes[24..28].copy_from_slice(&u32::from(self.is_sealed).to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..28]);
        bytes[28..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8], place: usize) -> Option<Self> {
        let bytes = bytes.get(place..place + MARK_LENGTH)?;
        let is_whole = crc32c::crc32c(&bytes[..28]) == u32_at(bytes, 28);
        is_whole.then(|| Self {
            generation: u64_at(bytes, 0),
            end: u64_at(bytes, 8),
            frames: u64_at(bytes, 16),
            is_sealed: u32_at(bytes, 24) != 0,
        })
    }
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(word)
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(word)
}
