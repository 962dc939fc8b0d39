//! What stands before a block, and the frame before all blocks.

/// How long what stands before a block is.
pub(crate) const HEADER_BYTES: usize = 4;

/// How much one block that is not compressed carries at most, in bytes.
pub(crate) const PLAIN_BYTES_MAX: usize = 1 << 20;

/// How much one compressed block carries at most: as much as zstd compresses at once.
pub(crate) const COMPRESSED_BYTES_MAX: usize = 128 << 10;

const LENGTH: u32 = (1 << 24) - 1;
const WANTS: u32 = 1 << 30;
const COMPRESSED: u32 = 1 << 31;

/// What came is no block that a sender makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damaged;

/// What stands before a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// How long the body is.
    pub(crate) length: usize,
    pub(crate) is_compressed: bool,
    /// Whether the sender wants compressed blocks.
    pub(crate) wants: bool,
}

impl Header {
    pub(crate) fn encoded(self) -> [u8; HEADER_BYTES] {
        let length = u32::try_from(self.length).expect("no block is as long");
        assert!((1..=LENGTH).contains(&length), "{self:?}");
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.is_compressed, COMPRESSED) | flag(self.wants, WANTS);
        (length | flags).to_le_bytes()
    }

    pub(crate) fn decoded(bytes: [u8; HEADER_BYTES]) -> Result<Self, Damaged> {
        let word = u32::from_le_bytes(bytes);
        let header = Self {
            length: (word & LENGTH) as usize,
            is_compressed: word & COMPRESSED != 0,
            wants: word & WANTS != 0,
        };
        let is_odd = word & !(LENGTH | WANTS | COMPRESSED) != 0;
        match is_odd || header.length == 0 {
            true => Err(Damaged),
            false => Ok(header),
        }
    }
}

/// The first frame of a direction, which is in no block: four bytes that say how long it is, and as much.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    length: [u8; 4],
    known: usize,
    taken: usize,
}

impl Opening {
    /// How many of these bytes, which come next, are of it.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> usize {
        let missing = &mut self.length[self.known..];
        let known = missing.len().min(bytes.len());
        missing[..known].copy_from_slice(&bytes[..known]);
        self.known += known;
        let left = self.left().unwrap_or(0).min(bytes.len() - known);
        self.taken += left;
        known + left
    }

    /// Whether all of it has come.
    pub(crate) fn is_over(&self) -> bool {
        self.left() == Some(0)
    }

    /// How much is to come; `None` while that is not known.
    fn left(&self) -> Option<usize> {
        let is_known = self.known == self.length.len();
        is_known.then(|| u32::from_le_bytes(self.length) as usize - self.taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_out_as_they_went_in() {
        for length in [1, 77, LENGTH as usize] {
            for flags in 0..4 {
                let header = Header {
                    length,
                    is_compressed: flags & 1 != 0,
                    wants: flags & 2 != 0,
                };
                assert_eq!(Header::decoded(header.encoded()), Ok(header));
            }
        }
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for odd in [0, WANTS, COMPRESSED, 1 << 24 | 1, 1 << 29 | 1, u32::MAX] {
            assert_eq!(Header::decoded(odd.to_le_bytes()), Err(Damaged), "{odd:x}");
        }
    }

    #[test]
    fn the_opening_ends_where_its_length_says_however_it_is_cut() {
        let bytes = [3, 0, 0, 0, 7, 7, 7, 9, 9];
        for size in 1..bytes.len() {
            let (mut opening, mut at) = (Opening::default(), 0);
            while !opening.is_over() {
                let end = (at + size).min(bytes.len());
                at += opening.take(&bytes[at..end]);
            }
            assert_eq!(at, 7, "in pieces of {size}");
        }
    }
}
