//! What the seal says of one file, and its bytes.
//!
//! # Format: the file `seal`, a log of `surmise-journal` with the tag `SEAL`, version 1
//!
//! A frame is a byte, the path of a file below the state directory (its length as `u16`, and the bytes), the
//! file's length in bytes (`u64`), and then, by the byte:
//!
//! | byte | file | what follows |
//! |---|---|---|
//! | 1 | a log | nothing: it has marks of its own, and may have grown since |
//! | 2 | any other | for each block of 64 KiB that is not all zeros: its number (`u64`) and the CRC-32C of its bytes (`u32`) |
//!
//! A file of very many blocks has several frames, one after the other.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::SealError;
use super::sums::{BLOCK, Sums, first_difference, sums};

const LOG: u8 = 1;
const FILE: u8 = 2;

/// Blocks of one frame.
const BLOCKS_MAX: usize = 4096;

/// One file under the seal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) length: u64,
    /// `None` for a log.
    pub(super) sums: Option<Sums>,
}

impl Entry {
    /// Of any file but a log, as it is now.
    pub(super) fn of(state: &Path, path: PathBuf) -> Result<Self, SealError> {
        let whole = state.join(&path);
        let summed = || -> io::Result<_> {
            let file = File::open(&whole)?;
            let length = file.metadata()?.len();
            Ok((length, sums(&file, length)?))
        };
        let (length, sums) = summed().map_err(SealError::at(&whole))?;
        Ok(Self {
            path,
            length,
            sums: Some(sums),
        })
    }

    pub(super) fn check(&self, state: &Path) -> Result<(), SealError> {
        let path = state.join(&self.path);
        let damaged = |offset, what: String| SealError::Damaged {
            path: path.clone(),
            offset,
            what,
        };
        let length = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(damaged(0, "the file is gone".into()));
            }
            metadata => metadata.map_err(SealError::at(&path))?.len(),
        };
        let is_length_right = match self.sums {
            // What follows the seal has the log's own marks.
            None => length >= self.length,
            Some(_) => length == self.length,
        };
        if !is_length_right {
            let what = format!("the file has {length} bytes and had {}", self.length);
            return Err(damaged(length.min(self.length), what));
        }
        let Some(sealed) = &self.sums else {
            return Ok(());
        };
        let file = File::open(&path).map_err(SealError::at(&path))?;
        let now = sums(&file, length).map_err(SealError::at(&path))?;
        match first_difference(sealed, &now) {
            None => Ok(()),
            Some(block) => {
                let what = "its data are not those that were on disk".into();
                Err(damaged(block * BLOCK as u64, what))
            }
        }
    }

    pub(super) fn frames(&self) -> Vec<Vec<u8>> {
        let begin = |kind: u8| {
            let path = self.path.as_os_str().as_bytes();
            let mut frame = vec![kind];
            frame.extend_from_slice(&(path.len() as u16).to_le_bytes());
            frame.extend_from_slice(path);
            frame.extend_from_slice(&self.length.to_le_bytes());
            frame
        };
        let Some(sums) = &self.sums else {
            return vec![begin(LOG)];
        };
        let frame = |sums: &[(u64, u32)]| {
            let mut frame = begin(FILE);
            for (block, sum) in sums {
                frame.extend_from_slice(&block.to_le_bytes());
                frame.extend_from_slice(&sum.to_le_bytes());
            }
            frame
        };
        match sums.is_empty() {
            true => vec![frame(&[])],
            false => sums.chunks(BLOCKS_MAX).map(frame).collect(),
        }
    }

    pub(super) fn decode(frame: &[u8]) -> Option<Self> {
        let (kind, rest) = frame.split_first()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (path, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        let (length, rest) = rest.split_first_chunk()?;
        let sum = |bytes: &[u8; 12]| {
            let (block, sum) = bytes.split_first_chunk()?;
            Some((
                u64::from_le_bytes(*block),
                u32::from_le_bytes(*sum.first_chunk()?),
            ))
        };
        let (sums, rest) = rest.as_chunks();
        let sums = match *kind {
            LOG if sums.is_empty() => None,
            FILE => Some(sums.iter().map(sum).collect::<Option<_>>()?),
            _ => return None,
        };
        rest.is_empty().then(|| Self {
            path: OsStr::from_bytes(path).into(),
            length: u64::from_le_bytes(*length),
            sums,
        })
    }
}
