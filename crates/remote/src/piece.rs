//! Pieces of files that a client's machine keeps over unmounts.
//!
//! A kept piece is used only when the server has said that the file has just these bytes now. The client names them by their
//! digest, and the server reads the file and compares. Nothing else could tell over any time: two contents of one file can have the
//! same size and times. A user sets back the modification time. A crash of the server takes back the change time of data
//! that is on the disk. Whoever writes through a mapping changes no time as long as the page is dirty, and on some file
//! systems never. A copy that is put back from a backup, or a clock that is set back, may give an inode any time again.

use std::fmt::{self, Debug, Formatter};

use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use crate::object::ObjectId;

/// How many bytes a piece has, but for the last one of a file. A small file is one piece.
pub const PIECE_BYTES: u64 = 128 << 10;

/// What tells bytes from all others: their SHA-256. No two pieces with the same one are known, nor how to make them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }
}

impl Debug for Digest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let first = u32::from_be_bytes([self.0[0], self.0[1], self.0[2], self.0[3]]);
        write!(f, "{first:08x}..")
    }
}

/// Bytes that are kept, and where they were in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Which file it was.
    pub object: ObjectId,
    /// Where its first byte was.
    pub offset: u64,
    /// How many bytes.
    pub length: u32,
    /// What they are.
    pub digest: Digest,
}

impl Piece {
    /// The first byte behind it.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }
}

/// Bytes of a file, as the server has read them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// All that were asked for, and just those that the client has.
    Same,
    /// These.
    Bytes(Vec<u8>),
}

impl Found {
    /// What to tell a client that has asked for so many bytes, and has kept some of this digest, if it has.
    pub fn compared(bytes: Vec<u8>, length: u32, kept: Option<Digest>) -> Self {
        let are_all = bytes.len() == length as usize;
        match kept {
            Some(kept) if are_all && kept == Digest::of(&bytes) => Self::Same,
            _ => Self::Bytes(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_sha_256() {
        // FIPS 180-2, appendix B.1.
        let Digest(abc) = Digest::of(b"abc");
        assert_eq!(abc[..4], [0xba, 0x78, 0x16, 0xbf]);
        assert_eq!(abc[28..], [0xf2, 0x00, 0x15, 0xad]);
    }

    #[test]
    fn only_the_very_bytes_are_the_same() {
        let kept = Some(Digest::of(b"bytes"));
        assert_eq!(Found::compared(b"bytes".to_vec(), 5, kept), Found::Same);
        // The file has become shorter.
        let short = Found::compared(b"bytes".to_vec(), 6, kept);
        assert_eq!(short, Found::Bytes(b"bytes".to_vec()));
        for other in [&b"Bytes"[..], b"byte", b"bytes\0", b""] {
            let found = Found::compared(other.to_vec(), 5, kept);
            assert_eq!(found, Found::Bytes(other.to_vec()));
        }
        let found = Found::compared(b"bytes".to_vec(), 5, None);
        assert_eq!(found, Found::Bytes(b"bytes".to_vec()));
    }
}
