//! The bytes of a frame.

use std::io;

use crate::header::{u32_at, u64_at};

/// The longest payload of one frame, in bytes. Far above what any record needs; it keeps a damaged
/// length from being believed.
pub const PAYLOAD_MAX: usize = 64 << 20;

/// Bytes of a frame before its payload.
pub const FRAME_HEADER_LENGTH: u64 = 16;

const BEFORE_PAYLOAD: usize = FRAME_HEADER_LENGTH as usize;

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

/// A frame at the beginning of some bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'b> {
    pub(crate) sequence: u64,
    pub(crate) payload: &'b [u8],
}

impl<'b> Frame<'b> {
    /// The frame that these bytes begin with, if its sequence number is `wanted` and all of it is there.
    pub(crate) fn decode(bytes: &'b [u8], wanted: impl Fn(u64) -> bool) -> Option<Self> {
        let header = bytes.get(..BEFORE_PAYLOAD)?;
        let sequence = u64_at(header, 8);
        // First what is checked at once: damage is looked behind at every byte.
        if !wanted(sequence) {
            return None;
        }
        let length = u32_at(header, 0) as usize;
        let payload = bytes[BEFORE_PAYLOAD..].get(..length)?;
        let is_whole = length <= PAYLOAD_MAX && u32_at(header, 4) == checksum(sequence, payload);
        is_whole.then_some(Self { sequence, payload })
    }

    /// All its bytes.
    pub(crate) fn length(self) -> usize {
        BEFORE_PAYLOAD + self.payload.len()
    }
}

/// How many bytes the frame at the beginning of `bytes` says that it has, as far as there are so many.
pub(crate) fn claimed_length(bytes: &[u8]) -> usize {
    let payload = bytes
        .get(..4)
        .map_or(0, |length| u32_at(length, 0) as usize);
    BEFORE_PAYLOAD.saturating_add(payload).min(bytes.len())
}

fn checksum(sequence: u64, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&sequence.to_le_bytes()), payload)
}
