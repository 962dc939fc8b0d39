//! Entries of a directory, as the kernel reads them.

use surmise_fuse as fuse;

use crate::types::FileKind;
use crate::view::DirectoryEntry;

pub(super) fn remaining(
    listing: &[DirectoryEntry],
    offset: u64,
) -> impl Iterator<Item = (usize, &DirectoryEntry)> {
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    listing.iter().enumerate().skip(offset)
}

pub(super) fn listed(index: usize, entry: &DirectoryEntry) -> fuse::DirectoryEntry<'_> {
    fuse::DirectoryEntry {
        ino: entry.inode,
        next_offset: index as u64 + 1,
        mode: entry.kind.map_or(0, FileKind::mode_bits),
        name: &entry.name,
    }
}
