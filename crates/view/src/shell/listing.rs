//! Entries of a directory, as the kernel reads them.

use surmise_fuse as fuse;

use crate::listers::Detail;
use crate::types::{FileKind, Lifetime, NodeId};
use crate::view::{DirectoryEntry, Entry};

/// What one answer of a listing tells, as it is filled.
pub(super) struct Page {
    detail: Detail,
    /// Names so far that are not directories.
    pub(super) files: u32,
    pub(super) probe: Option<NodeId>,
}

impl Page {
    pub(super) fn telling(detail: Detail) -> Self {
        Self {
            detail,
            files: 0,
            probe: None,
        }
    }

    /// The next name, and whether its attributes are told.
    pub(super) fn tells(&mut self, entry: &DirectoryEntry) -> bool {
        if entry.name == "." || entry.name == ".." {
            return false;
        }
        self.files += u32::from(entry.kind != Some(FileKind::Directory));
        self.detail.tells(entry.kind)
    }

    /// What is told of a name that was found. The first regular file is the probe, where there is to be one: a link is
    /// followed without a look at it.
    pub(super) fn tell(&mut self, mut found: Entry) -> Entry {
        let is_file = found.attributes.identity.kind == FileKind::Regular;
        if is_file && self.detail == Detail::Probed && self.probe.is_none() {
            self.probe = Some(found.node);
            found.attributes_lifetime = Lifetime::Never;
        }
        found
    }
}

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
