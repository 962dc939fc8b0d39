//! Real files that the domain has open while somebody outside changes, moves or removes them.
//!
//! A descriptor keeps what it is of, as on any file system. And whatever the kernel has cached of an
//! open file is looked at again and again, since no request comes for what is cached.

use std::sync::Arc;

use rustix::io::Errno;
use surmise_lower::OpenFile;

use super::core::Core;
use super::facts::{Facts, Step};
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
            (open, core.believed.take_changed())
        };
        for node in open {
            // The lock is taken for each, so that no call waits for all.
            let looked = self.decide_under(
                || Ok(self.locked()),
                |core, facts| core.has_changed_outside(facts, node),
            );
            if looked.unwrap_or(false) {
                changed.push(node);
            }
        }
        changed
    }
}

impl Core {
    fn has_changed_outside(&mut self, facts: &Facts, id: NodeId) -> Step<bool> {
        if self.commit.is_some() || self.has_object(id) || !self.known.is_open(id) {
            return Ok(false);
        }
        // What can't be looked at any more keeps the data that the kernel has.
        let attributes = self.lower_attributes(facts, id)?;
        Ok(!self.known.note_open(id, &attributes.identity))
    }

    /// A real file is opened, or gets data of the domain's own: what the kernel holds of it must be from
    /// this state.
    pub(super) fn note_last_look(&mut self, id: NodeId, now: &Identity) {
        if self.known.is_open(id) && self.known.was_other(id, now) {
            self.believed.note_changed(id);
        }
    }

    /// The attributes of an inode that is no more where it was, by a descriptor of it.
    pub(super) fn held_attributes(
        &mut self,
        facts: &Facts,
        id: NodeId,
        key: InodeKey,
    ) -> Step<Attributes> {
        let found = match (self.held_file(id), self.directories.peek(id)) {
            (Some(file), _) => facts.file_itself(id, file)?,
            (None, Some(directory)) => facts.directory_itself(id, directory)?,
            (None, None) => return fail(Errno::STALE),
        };
        match found.identity.key() == key {
            true => Ok(found),
            false => fail(Errno::STALE),
        }
    }

    /// The real file of a node, if it is held open. No other can have its inode number meanwhile.
    pub(super) fn held_file(&self, id: NodeId) -> Option<&Arc<dyn OpenFile>> {
        match self.files.peek(id)? {
            Data::Real(file) if !self.has_object(id) => Some(file),
            _ => None,
        }
    }
}
