//! Directories listed: the real names, less what the domain removed, with what it added.

use std::ffi::OsStr;
use std::io;
use std::sync::{Arc, MutexGuard};

use rustix::io::Errno;
use surmise_lower::{Directory, Space};

use super::core::{Core, now};
use super::facts::{Facts, Step};
use super::listings::{DirectoryEntry, Merge};
use super::showing::created_node;
use super::{View, fail};
use crate::types::{FileKind, Identity, NodeId};

/// Names of this many bytes are fine everywhere.
const COMMON_NAME_BYTES_MAX: usize = 255;

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
        // Before the look, and that is before the listing: what changes until then counts as changed later.
        let begun = now();
        let (entries, real, mut core) = self.list(node)?;
        let is_unchanged = core.believed.listed.note(node, real.as_ref(), begun);
        Ok(OpenDirectory {
            handle: core.listings.open(entries, is_unchanged),
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
        core.check_alive(node)?;
        if rewind && core.listings.needs_renewal(handle) {
            drop(core);
            let listed = self.list(node)?;
            core = listed.2;
            core.listings.renew(handle, listed.0);
        }
        let entries = core.listings.read(handle);
        entries.ok_or_else(|| Errno::BADF.into())
    }

    /// Closes a directory's handle.
    pub fn close_directory(&self, handle: u64) {
        self.core().listings.close(handle);
    }

    /// Space and limits of the real file system that a node is on.
    pub fn file_system(&self, node: NodeId) -> io::Result<Space> {
        let nearest = self.decide(|core, facts| core.nearest_directory(facts, node))?;
        nearest.space()
    }

    /// The names of a directory, what the real directory was before it was read, and the state. However many
    /// they are, they are read and merged without the lock.
    fn list(
        &self,
        node: NodeId,
    ) -> io::Result<(Vec<DirectoryEntry>, Option<Identity>, MutexGuard<'_, Core>)> {
        loop {
            let (real, merge, before) = self.decide(|core, facts| {
                let real = core.real_identity(facts, node)?;
                let before = (core.rebases, core.undecided.decided());
                Ok((real, core.merge(facts, node)?, before))
            })?;
            let entries = merge.list()?;
            let core = self.core();
            // After a commit the real directory has what the domain had. And names may have been undone meanwhile.
            if (core.rebases, core.undecided.decided()) == before {
                return Ok((entries, real, core));
            }
        }
    }
}

impl Core {
    /// Gives the names of open listings the inode numbers that they have by now.
    pub(super) fn renumber_listings(&mut self) {
        let mut listings = std::mem::take(&mut self.listings);
        listings.renumber(|number| {
            let place = self.known.node(created_node(number)?)?.place.as_ref()?;
            Some(self.showing.inode(place.key))
        });
        self.listings = listings;
    }

    /// The real directory that a node has, in its state of now.
    fn real_identity(&mut self, facts: &Facts, id: NodeId) -> Step<Option<Identity>> {
        let is_real = self.map.node(id).is_none_or(|node| node.origin.is_some());
        let real = is_real.then(|| self.lower_attributes(facts, id));
        Ok(real.transpose()?.map(|attributes| attributes.identity))
    }

    pub(super) fn check_empty(&mut self, facts: &Facts, directory: NodeId) -> Step<()> {
        let merge = self.merge(facts, directory)?;
        let is_empty = match merge.real() {
            Some(real) => merge.is_empty_with(&facts.listing(directory, real)?),
            None => merge.is_empty_with(&[]),
        };
        match is_empty {
            true => Ok(()),
            false => fail(Errno::NOTEMPTY),
        }
    }

    /// What a directory has by the map, and where the rest is to be read.
    fn merge(&mut self, facts: &Facts, id: NodeId) -> Step<Merge> {
        let parent = self.parent(id)?;
        let mut itself = Vec::new();
        for (name, node) in [(".", id), ("..", parent)] {
            itself.push(DirectoryEntry {
                name: name.into(),
                inode: self.shown_inode_of(facts, node)?,
                kind: Some(FileKind::Directory),
            });
        }
        let is_real = self.map.node(id).is_none_or(|node| node.origin.is_some());
        let real = match is_real {
            true => Some((self.directory(facts, id)?, self.device_of(facts, id)?)),
            false => None,
        };
        let changed = self.map.node(id).map_or_else(Vec::new, |node| {
            let entries = node.entries.iter();
            let entries = entries.map(|(name, binding)| (name.to_owned(), binding.target));
            entries.collect()
        });
        let mut bound = Vec::new();
        for (name, target) in &changed {
            let Some(target) = *target else { continue };
            bound.push(DirectoryEntry {
                name: name.clone(),
                inode: self.shown_inode_of(facts, target)?,
                kind: Some(self.kind(target)?),
            });
        }
        let showing = Arc::clone(&self.showing);
        let changed = changed.into_iter().map(|(name, _)| name);
        Ok(Merge::of(itself, real, changed, bound, showing))
    }

    fn parent(&self, id: NodeId) -> io::Result<NodeId> {
        match self.map.node(id) {
            Some(node) => Ok(node.parent),
            None if id == NodeId::ROOT => Ok(id),
            None => Ok(self.place(id)?.parent),
        }
    }

    fn shown_inode_of(&mut self, facts: &Facts, id: NodeId) -> Step<u64> {
        match self.map.node(id) {
            Some(node) if node.origin.is_none() => Ok(self.created_inode(id)),
            _ if id == NodeId::ROOT => {
                let key = self.lower_attributes(facts, id)?.identity.key();
                Ok(self.showing.inode(key))
            }
            _ => {
                let key = self.place(id)?.key;
                Ok(self.showing.inode(key))
            }
        }
    }

    /// The real file system's limit holds in directories that only the view has, too.
    pub(super) fn check_length(&mut self, facts: &Facts, parent: NodeId, name: &OsStr) -> Step<()> {
        if name.len() <= COMMON_NAME_BYTES_MAX {
            return Ok(());
        }
        let directory = self.nearest_directory(facts, parent)?;
        let limit = facts.space(parent, &directory)?.name_bytes_max;
        if name.len() as u64 > limit {
            return fail(Errno::NAMETOOLONG);
        }
        Ok(())
    }

    /// The real directory that a node is in, or will be in.
    pub(super) fn nearest_directory(
        &mut self,
        facts: &Facts,
        id: NodeId,
    ) -> Step<Arc<dyn Directory>> {
        let mut at = id;
        loop {
            let node = self.map.node(at);
            let real = node.is_none_or(|node| node.origin.is_some());
            if node.is_none() && at != NodeId::ROOT && self.place(at).is_err() {
                // Removed and forgotten, while the file has other names or is only open.
                let device = self.device_of(facts, id)?;
                return self.directory_on(facts, device);
            }
            if real && self.kind(at)? == FileKind::Directory {
                return self.directory(facts, at);
            }
            at = self.parent(at)?;
        }
    }

    /// Some real directory on a file system.
    fn directory_on(&mut self, facts: &Facts, device: u64) -> Step<Arc<dyn Directory>> {
        let mut adopted = self.map.nodes().filter(|(_, node)| {
            node.kind == FileKind::Directory && node.origin.is_some() && node.device == device
        });
        let id = adopted.next().map(|(id, _)| id);
        drop(adopted);
        match id {
            Some(id) => self.directory(facts, id),
            None if device == self.directories.root_device() => self.directory(facts, NodeId::ROOT),
            None => fail(Errno::STALE),
        }
    }
}
