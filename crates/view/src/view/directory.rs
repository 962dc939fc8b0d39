//! Directories listed: the real names, less what the domain removed, with what it added.

use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::Arc;

use rustix::io::Errno;
use surmise_lower::{Directory, Space};

use super::core::{Core, now};
use super::numbers::created_node;
use super::{View, fail};
use crate::types::{FileKind, InodeKey, NodeId};

/// Names of this many bytes are fine everywhere.
const COMMON_NAME_BYTES_MAX: usize = 255;

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

/// What an open directory shows.
#[derive(Debug)]
pub(super) struct Listing {
    entries: Arc<Vec<DirectoryEntry>>,
    /// Whether a reader who begins may do so again. Otherwise it needs no newer one.
    was_read: bool,
}

/// A directory that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenDirectory {
    /// Of its listing.
    pub handle: u64,
    /// Whether it is as it was at its last open, but for what the domain itself changed.
    pub is_unchanged: bool,
}

impl View {
    /// Opens a directory.
    pub fn open_directory(&self, node: NodeId) -> io::Result<OpenDirectory> {
        let mut core = self.core();
        // Looked at first: what changes before the listing then counts as changed after it.
        let is_unchanged = core.is_listed(node)?;
        let listing = core.list(node)?;
        core.last_listing += 1;
        let handle = core.last_listing;
        let listing = Listing {
            entries: Arc::new(listing),
            // The kernel may let the reader begin in its own memory, and asks when that is outdated.
            was_read: is_unchanged,
        };
        core.listings.insert(handle, listing);
        Ok(OpenDirectory {
            handle,
            is_unchanged,
        })
    }

    /// The listing of an open directory, `.` and `..` first. It is a snapshot, made anew when the
    /// reader begins again (`rewind`, see rewinddir(3)).
    pub fn read_directory(
        &self,
        node: NodeId,
        handle: u64,
        rewind: bool,
    ) -> io::Result<Arc<Vec<DirectoryEntry>>> {
        let mut core = self.core();
        let read_before = core.listings.get(&handle).is_some_and(|open| open.was_read);
        if rewind && read_before {
            let listing = Listing {
                entries: Arc::new(core.list(node)?),
                was_read: true,
            };
            core.listings.insert(handle, listing);
        }
        let open = core.listings.get_mut(&handle).ok_or(Errno::BADF)?;
        open.was_read = true;
        Ok(Arc::clone(&open.entries))
    }

    /// Closes a directory's handle.
    pub fn close_directory(&self, handle: u64) {
        self.core().listings.remove(&handle);
    }

    /// Space and limits of the real file system that a node is on.
    pub fn file_system(&self, node: NodeId) -> io::Result<Space> {
        let mut core = self.core();
        let directory = core.nearest_directory(node)?;
        directory.space()
    }
}

impl Core {
    /// Gives the names of open listings the inode numbers that they have by now.
    pub(super) fn renumber_listings(&mut self) {
        let mut listings = std::mem::take(&mut self.listings);
        for listing in listings.values_mut() {
            let entries = listing.entries.iter().enumerate();
            let entries = entries.filter_map(|(index, entry)| {
                let node = created_node(entry.inode)?;
                let place = self.known.node(node)?.place.as_ref()?;
                Some((index, self.shown_inode(place.key)))
            });
            for (index, number) in entries.collect::<Vec<_>>() {
                Arc::make_mut(&mut listing.entries)[index].inode = number;
            }
        }
        self.listings = listings;
    }

    fn is_listed(&mut self, id: NodeId) -> io::Result<bool> {
        let is_real = self.map.node(id).is_none_or(|node| node.origin.is_some());
        let real = is_real.then(|| self.lower_attributes(id)).transpose()?;
        let real = real.map(|attributes| attributes.identity);
        Ok(self.listed.note(id, real.as_ref(), now()))
    }

    pub(super) fn check_empty(&mut self, directory: NodeId) -> io::Result<()> {
        // `.` and `..` are always there.
        if self.list(directory)?.len() > 2 {
            return fail(Errno::NOTEMPTY);
        }
        Ok(())
    }

    fn list(&mut self, id: NodeId) -> io::Result<Vec<DirectoryEntry>> {
        let parent = self.parent(id)?;
        let mut entries = Vec::new();
        for (name, node) in [(".", id), ("..", parent)] {
            entries.push(DirectoryEntry {
                name: name.into(),
                inode: self.shown_inode_of(node)?,
                kind: Some(FileKind::Directory),
            });
        }
        let real = self.map.node(id).is_none_or(|node| node.origin.is_some());
        if real {
            let device = self.device_of(id)?;
            let directory = self.directory(id)?;
            for entry in directory.list()? {
                let key = InodeKey {
                    device,
                    inode: entry.inode,
                };
                let changed = self
                    .map
                    .node(id)
                    .is_some_and(|node| node.entries.contains_key(&entry.name));
                if changed || self.config.hidden.contains(&key) {
                    continue;
                }
                entries.push(DirectoryEntry {
                    inode: self.shown_inode(key),
                    name: entry.name,
                    kind: entry.kind,
                });
            }
        }
        let bound = self.map.node(id).map_or_else(Vec::new, |node| {
            let targets = node.entries.iter();
            targets
                .filter_map(|(name, binding)| Some((name.to_owned(), binding.target?)))
                .collect()
        });
        for (name, target) in bound {
            entries.push(DirectoryEntry {
                name,
                inode: self.shown_inode_of(target)?,
                kind: Some(self.kind(target)?),
            });
        }
        Ok(entries)
    }

    fn parent(&self, id: NodeId) -> io::Result<NodeId> {
        match self.map.node(id) {
            Some(node) => Ok(node.parent),
            None if id == NodeId::ROOT => Ok(id),
            None => Ok(self.place(id)?.parent),
        }
    }

    fn shown_inode_of(&mut self, id: NodeId) -> io::Result<u64> {
        match self.map.node(id) {
            Some(node) if node.origin.is_none() => Ok(self.created_inode(id)),
            _ if id == NodeId::ROOT => {
                let key = self.lower_attributes(id)?.identity.key();
                Ok(self.shown_inode(key))
            }
            _ => {
                let key = self.place(id)?.key;
                Ok(self.shown_inode(key))
            }
        }
    }

    /// The real file system's limit holds in directories that only the view has, too.
    pub(super) fn check_length(&mut self, parent: NodeId, name: &OsStr) -> io::Result<()> {
        if name.len() <= COMMON_NAME_BYTES_MAX {
            return Ok(());
        }
        let directory = self.nearest_directory(parent)?;
        let limit = directory.space()?.name_bytes_max;
        if name.len() as u64 > limit {
            return fail(Errno::NAMETOOLONG);
        }
        Ok(())
    }

    /// The real directory that a node is in, or will be in.
    pub(super) fn nearest_directory(&mut self, id: NodeId) -> io::Result<Arc<dyn Directory>> {
        let mut at = id;
        loop {
            let node = self.map.node(at);
            let real = node.is_none_or(|node| node.origin.is_some());
            if node.is_none() && at != NodeId::ROOT && self.place(at).is_err() {
                // Removed and forgotten, while the file has other names or is only open.
                let device = self.device_of(id)?;
                return self.directory_on(device);
            }
            if real && self.kind(at)? == FileKind::Directory {
                return self.directory(at);
            }
            at = self.parent(at)?;
        }
    }

    /// Some real directory on a file system.
    fn directory_on(&mut self, device: u64) -> io::Result<Arc<dyn Directory>> {
        let mut adopted = self.map.nodes().filter(|(_, node)| {
            node.kind == FileKind::Directory && node.origin.is_some() && node.device == device
        });
        let id = adopted.next().map(|(id, _)| id);
        drop(adopted);
        match id {
            Some(id) => self.directory(id),
            None if device == self.root_device => self.directory(NodeId::ROOT),
            None => fail(Errno::STALE),
        }
    }
}
