//! Real files that the domain has open while somebody outside changes, moves or removes them.
//!
//! A descriptor keeps what it is of, as on any file system. And whatever the kernel has cached of an
//! open file is looked at again and again, since no request comes for what is cached.

use std::io;
use std::sync::Arc;

use rustix::io::Errno;
use surmise_lower::OpenFile;

use super::core::Core;
use super::files::Data;
use super::{View, fail};
use crate::types::{Attributes, Identity, InodeKey, NodeId};

impl View {
    /// The files of which the kernel may hold data from before a change outside; each change is told
    /// once. To be called several times a second, since changes outside are to show within one.
    pub(crate) fn changed_outside(&self) -> Vec<NodeId> {
        let (open, mut changed) = {
            let mut core = self.locked();
            if core.commit.is_some() {
                return Vec::new();
            }
            let open: Vec<NodeId> = core.known.open_nodes().collect();
            (open, std::mem::take(&mut core.changed_outside))
        };
        for node in open {
            // The lock is taken for each, so that no call waits for all.
            if self.locked().has_changed_outside(node) {
                changed.push(node);
            }
        }
        changed
    }
}

impl Core {
    fn has_changed_outside(&mut self, id: NodeId) -> bool {
        if self.commit.is_some() || self.has_object(id) || !self.known.is_open(id) {
            return false;
        }
        // What can't be looked at any more keeps the data that the kernel has.
        let Ok(attributes) = self.lower_attributes(id) else {
            return false;
        };
        !self.known.note_open(id, &attributes.identity)
    }

    /// A real file is opened, or gets data of the domain's own: what the kernel holds of it must be from
    /// this state.
    pub(super) fn note_last_look(&mut self, id: NodeId, now: &Identity) {
        if self.known.is_open(id) && self.known.was_other(id, now) {
            self.changed_outside.push(id);
        }
    }

    /// The attributes of an inode that is no more where it was, by a descriptor of it.
    pub(super) fn held_attributes(&mut self, id: NodeId, key: InodeKey) -> io::Result<Attributes> {
        let found = match (self.held_file(id), self.directories.peek(&id)) {
            (Some(file), _) => file.attributes()?,
            (None, Some(directory)) => directory.attributes()?,
            (None, None) => return fail(Errno::STALE),
        };
        match found.identity.key() == key {
            true => Ok(found),
            false => fail(Errno::STALE),
        }
    }

    /// The real file of a node, if it is held open. No other can have its inode number meanwhile.
    pub(super) fn held_file(&self, id: NodeId) -> Option<&Arc<dyn OpenFile>> {
        match self.files.peek(&id)? {
            Data::Real(file) if !self.has_object(id) => Some(file),
            _ => None,
        }
    }
}
