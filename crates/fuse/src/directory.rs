//! Listings: a request's buffer filled name by name until it is full.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use zerocopy::IntoBytes;

use crate::{Entry, abi::output};

/// Records are padded to this many bytes (`FUSE_DIRENT_ALIGN`).
const ALIGNMENT: usize = 8;

/// One name of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    /// The inode number that `d_ino` shows; 0 hides the name from readdir(3).
    pub ino: u64,
    /// Where the listing goes on after this name: a later request's `offset`. Not 0.
    pub next_offset: u64,
    /// Type and permissions as in `st_mode`; only the type is used, and 0 is "unknown".
    pub mode: u32,
    /// The name, without a slash; at most 1024 bytes.
    pub name: &'a OsStr,
}

impl DirectoryEntry<'_> {
    fn to_wire(self) -> output::Dirent {
        output::Dirent {
            ino: self.ino,
            off: self.next_offset,
            // Longer than the kernel allows, it is refused there as a whole; it cannot wrap.
            namelen: u32::try_from(self.name.len()).unwrap_or(u32::MAX),
            // `DT_*` are the type bits of the mode, shifted.
            kind: (self.mode >> 12) & 0xf,
        }
    }
}

/// Takes the names of a plain listing. Adding none ends the listing.
#[derive(Debug)]
pub struct DirectorySink<'b> {
    records: Records<'b>,
}

impl<'b> DirectorySink<'b> {
    pub(crate) fn new(buffer: &'b mut [u8]) -> Self {
        Self {
            records: Records { buffer, used: 0 },
        }
    }

    /// Adds a name; `false` if it no longer fits: then stop, the kernel asks again from the
    /// `next_offset` of the last one taken.
    #[must_use]
    pub fn add(&mut self, entry: DirectoryEntry<'_>) -> bool {
        self.records.push(entry.to_wire().as_bytes(), entry.name)
    }

    pub(crate) fn into_used(self) -> usize {
        self.records.used
    }
}

/// Takes the names of a listing that also looks them up. Adding none ends the listing.
#[derive(Debug)]
pub struct DirectoryPlusSink<'b> {
    records: Records<'b>,
}

impl<'b> DirectoryPlusSink<'b> {
    pub(crate) fn new(buffer: &'b mut [u8]) -> Self {
        Self {
            records: Records { buffer, used: 0 },
        }
    }

    /// Whether [`add`](Self::add) would take this name; ask before making what it leads to.
    pub fn has_room(&self, name: &OsStr) -> bool {
        self.records.has_room(size_of::<output::Direntplus>(), name)
    }

    /// Adds a name and, unless `None` (for `.` and `..`, always), what it leads to: one more
    /// reference to that node. `false` if it no longer fits: no reference is taken; stop.
    #[must_use]
    pub fn add(&mut self, entry: DirectoryEntry<'_>, found: Option<Entry>) -> bool {
        let record = output::Direntplus {
            entry_out: found.map(Entry::to_wire).unwrap_or_default(),
            dirent: entry.to_wire(),
        };
        self.records.push(record.as_bytes(), entry.name)
    }

    pub(crate) fn into_used(self) -> usize {
        self.records.used
    }
}

#[derive(Debug)]
struct Records<'b> {
    buffer: &'b mut [u8],
    used: usize,
}

impl Records<'_> {
    fn has_room(&self, fixed: usize, name: &OsStr) -> bool {
        (fixed + name.len()).next_multiple_of(ALIGNMENT) <= self.buffer.len() - self.used
    }

    fn push(&mut self, fixed: &[u8], name: &OsStr) -> bool {
        if !self.has_room(fixed.len(), name) {
            return false;
        }
        let unpadded = fixed.len() + name.len();
        let record = &mut self.buffer[self.used..][..unpadded.next_multiple_of(ALIGNMENT)];
        record[..fixed.len()].copy_from_slice(fixed);
        record[fixed.len()..unpadded].copy_from_slice(name.as_bytes());
        record[unpadded..].fill(0);
        self.used += record.len();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> DirectoryEntry<'_> {
        DirectoryEntry {
            ino: 5,
            next_offset: 9,
            mode: 0o100_644,
            name: OsStr::new(name),
        }
    }

    #[test]
    fn a_record_is_laid_out_as_the_header_says() {
        let mut buffer = [0xff; 64];
        let mut sink = DirectorySink::new(&mut buffer);
        assert!(sink.add(entry("abc")));
        assert_eq!(sink.into_used(), 32);
        let mut expected = Vec::new();
        expected.extend(5u64.to_ne_bytes());
        expected.extend(9u64.to_ne_bytes());
        expected.extend(3u32.to_ne_bytes());
        expected.extend(8u32.to_ne_bytes()); // DT_REG
        expected.extend(b"abc\0\0\0\0\0");
        assert_eq!(buffer[..32], expected);
    }

    #[test]
    fn a_name_that_does_not_fit_is_not_taken_in_part() {
        let mut buffer = [0xff; 63];
        let mut sink = DirectorySink::new(&mut buffer);
        assert!(sink.add(entry("12345678")));
        assert!(!sink.add(entry("12345678")));
        assert_eq!(sink.into_used(), 32);
        assert!(buffer[32..].iter().all(|byte| *byte == 0xff));
    }

    #[test]
    fn a_plus_record_puts_the_entry_before_the_name() {
        let mut buffer = [0xff; 320];
        let mut sink = DirectoryPlusSink::new(&mut buffer);
        assert!(sink.has_room(OsStr::new("ab")));
        assert!(sink.add(entry(".."), None));
        assert!(sink.add(entry("ab"), Some(crate::node::tests::entry(77))));
        assert!(!sink.has_room(OsStr::new("ab")));
        assert_eq!(sink.into_used(), 320);
        assert_eq!(buffer[..8], 0u64.to_ne_bytes(), "`..` is not looked up");
        assert_eq!(buffer[160..168], 77u64.to_ne_bytes());
        assert_eq!(buffer[160 + 128..][..8], 5u64.to_ne_bytes());
        assert_eq!(buffer[160 + 152..][..3], *b"ab\0");
    }
}
