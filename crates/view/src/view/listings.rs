//! What open directories show.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::sync::Arc;

use surmise_lower::{Directory, Listed};

use super::showing::Showing;
use crate::types::{FileKind, InodeKey};

/// One name of a directory.
#[derive(Debug, Clone)]
pub struct DirectoryEntry {
    /// The name.
    pub name: OsString,
    /// The inode number to show.
    pub inode: u64,
    /// `None` where the real file system does not tell.
    pub kind: Option<FileKind>,
}

/// The listings of open directories, by handle.
#[derive(Debug, Default)]
pub(super) struct Listings {
    open: HashMap<u64, Listing>,
    last: u64,
}

/// What an open directory shows: a snapshot.
#[derive(Debug)]
struct Listing {
    entries: Arc<Vec<DirectoryEntry>>,
    /// Whether a reader that begins needs a newer listing: this one is outdated, or was read, perhaps from the kernel's memory.
    needs_renewal: bool,
}

impl Listings {
    /// A directory is opened, and has these names. Where it is unchanged since its last open, the kernel may
    /// let the reader begin in its own memory, and asks when that is outdated.
    pub(super) fn open(&mut self, entries: Vec<DirectoryEntry>, is_unchanged: bool) -> u64 {
        self.last += 1;
        let listing = Listing {
            entries: Arc::new(entries),
            needs_renewal: is_unchanged,
        };
        self.open.insert(self.last, listing);
        self.last
    }

    /// Whether a reader that begins needs a newer listing.
    pub(super) fn needs_renewal(&self, handle: u64) -> bool {
        self.open
            .get(&handle)
            .is_some_and(|open| open.needs_renewal)
    }

    /// An open directory has these names by now.
    pub(super) fn renew(&mut self, handle: u64, entries: Vec<DirectoryEntry>) {
        if let Some(open) = self.open.get_mut(&handle) {
            open.entries = Arc::new(entries);
        }
    }

    /// The names of an open directory, for a reader.
    pub(super) fn read(&mut self, handle: u64) -> Option<Arc<Vec<DirectoryEntry>>> {
        let open = self.open.get_mut(&handle)?;
        open.needs_renewal = true;
        Some(Arc::clone(&open.entries))
    }

    /// Any may have names that were undone: a reader that begins needs a newer listing.
    pub(super) fn outdate(&mut self) {
        for listing in self.open.values_mut() {
            listing.needs_renewal = true;
        }
    }

    pub(super) fn close(&mut self, handle: u64) {
        self.open.remove(&handle);
    }

    /// Gives names other inode numbers, where there are others.
    pub(super) fn renumber(&mut self, number: impl Fn(u64) -> Option<u64>) {
        for listing in self.open.values_mut() {
            let entries = listing.entries.iter().enumerate();
            let renumbered =
                entries.filter_map(|(index, entry)| Some((index, number(entry.inode)?)));
            for (index, number) in renumbered.collect::<Vec<_>>() {
                Arc::make_mut(&mut listing.entries)[index].inode = number;
            }
        }
    }
}

/// A directory's names, of which the real ones are still to be read.
pub(super) struct Merge {
    /// `.` and `..`.
    itself: Vec<DirectoryEntry>,
    real: Option<Arc<dyn Directory>>,
    /// The file system that it is on.
    device: u64,
    /// Names that are not as in the real directory.
    changed: HashSet<OsString>,
    /// Those of them that lead somewhere.
    bound: Vec<DirectoryEntry>,
    showing: Arc<Showing>,
}

impl Merge {
    pub(super) fn of(
        itself: Vec<DirectoryEntry>,
        real: Option<(Arc<dyn Directory>, u64)>,
        changed: impl Iterator<Item = OsString>,
        bound: Vec<DirectoryEntry>,
        showing: Arc<Showing>,
    ) -> Self {
        let (real, device) = real.unzip();
        Self {
            itself,
            real,
            device: device.unwrap_or_default(),
            changed: changed.collect(),
            bound,
            showing,
        }
    }

    /// The real directory, where there is one.
    pub(super) fn real(&self) -> Option<&Arc<dyn Directory>> {
        self.real.as_ref()
    }

    /// Whether there is nothing in it, given the names in the real directory.
    pub(super) fn is_empty_with(&self, real: &[Listed]) -> bool {
        self.bound.is_empty() && real.iter().all(|entry| self.number(entry).is_none())
    }

    /// Reads the real directory. May take long.
    ///
    /// # Errors
    /// As [`Directory::list`].
    pub(super) fn list(mut self) -> io::Result<Vec<DirectoryEntry>> {
        let real = self.real.as_ref().map(|real| real.list()).transpose()?;
        let real = real.unwrap_or_default();
        let mut entries = std::mem::take(&mut self.itself);
        entries.reserve(real.len() + self.bound.len());
        for entry in real {
            if let Some(inode) = self.number(&entry) {
                entries.push(DirectoryEntry {
                    name: entry.name,
                    inode,
                    kind: entry.kind,
                });
            }
        }
        entries.append(&mut self.bound);
        Ok(entries)
    }

    /// The inode number to show of a real name; `None` where the name is not to be seen.
    fn number(&self, entry: &Listed) -> Option<u64> {
        let key = InodeKey {
            device: self.device,
            inode: entry.inode,
        };
        let is_seen = !self.changed.contains(&entry.name) && !self.showing.is_hidden(key);
        is_seen.then(|| self.showing.inode(key))
    }
}
