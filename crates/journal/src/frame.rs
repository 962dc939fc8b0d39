//! The bytes of a header and of a frame.

use std::io;

use crate::{OpenError, Recovery};

/// Bytes of the header.
pub const HEADER_LENGTH: u64 = 24;

/// The longest payload of one frame, in bytes. Far above what any record needs; it keeps a damaged
/// length from being believed.
pub const PAYLOAD_MAX: usize = 64 << 20;

const MAGIC: &[u8; 8] = b"SURMISEJ";
const FRAME_HEADER_LENGTH: usize = 16;

/// Whose log it is, and which version of its payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// One to eight ASCII characters.
    pub tag: &'static str,
    /// Version of the payloads' meaning.
    pub version: u32,
}

impl Format {
    pub(crate) fn header(self) -> [u8; HEADER_LENGTH as usize] {
        let mut header = [0; HEADER_LENGTH as usize];
        header[..8].copy_from_slice(MAGIC);
        header[8..16].copy_from_slice(&self.padded_tag());
        header[16..20].copy_from_slice(&self.version.to_le_bytes());
        let checksum = crc32c::crc32c(&header[..20]);
        header[20..].copy_from_slice(&checksum.to_le_bytes());
        header
    }

    pub(crate) fn check(self, bytes: &[u8]) -> Result<(), OpenError> {
        let header = bytes.first_chunk::<24>().ok_or(OpenError::NotALog)?;
        if header[..8] != *MAGIC || crc32c::crc32c(&header[..20]) != u32_at(header, 20) {
            return Err(OpenError::NotALog);
        }
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

/// Puts one frame into `buffer`, replacing what it holds.
pub(crate) fn encode(buffer: &mut Vec<u8>, sequence: u64, payload: &[u8]) -> io::Result<()> {
    if payload.len() > PAYLOAD_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "a record of {} bytes; the most is {PAYLOAD_MAX}",
                payload.len()
            ),
        ));
    }
    buffer.clear();
    buffer.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    buffer.extend_from_slice(&checksum(sequence, payload).to_le_bytes());
    buffer.extend_from_slice(&sequence.to_le_bytes());
    buffer.extend_from_slice(payload);
    Ok(())
}

/// Calls `each` with every whole frame behind the header.
pub(crate) fn scan(bytes: &[u8], mut each: impl FnMut(u64, &[u8])) -> Recovery {
    let mut rest = &bytes[HEADER_LENGTH as usize..];
    let mut frames = 0;
    while let Some(payload) = decode(rest, frames + 1) {
        frames += 1;
        each(frames, payload);
        rest = &rest[FRAME_HEADER_LENGTH + payload.len()..];
    }
    Recovery {
        frames,
        dropped_bytes: rest.len() as u64,
    }
}

fn decode(bytes: &[u8], sequence: u64) -> Option<&[u8]> {
    let header = bytes.first_chunk::<FRAME_HEADER_LENGTH>()?;
    let length = u32_at(header, 0) as usize;
    let payload = bytes[FRAME_HEADER_LENGTH..].get(..length)?;
    let whole = length <= PAYLOAD_MAX
        && u64::from_le_bytes(*header.last_chunk()?) == sequence
        && u32_at(header, 4) == checksum(sequence, payload);
    whole.then_some(payload)
}

fn checksum(sequence: u64, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&sequence.to_le_bytes()), payload)
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(word)
}
