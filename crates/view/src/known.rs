//! What the kernel's FUSE client holds: which nodes it may still name, and where unchanged ones are.
//!
//! Nothing here outlives the view process; what must, is in the map.

use std::collections::HashMap;
use std::ffi::OsString;

use crate::types::{FileKind, Identity, InodeKey, NodeId};

/// The real place of a node that the map has not adopted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) parent: NodeId,
    pub(crate) name: OsString,
    pub(crate) key: InodeKey,
    pub(crate) kind: FileKind,
}

/// A node that the kernel knows.
#[derive(Debug, Default)]
pub(crate) struct KnownNode {
    /// For nodes that are not in the map.
    pub(crate) place: Option<Place>,
    /// Names that the domain removed, for nodes that are not in the map.
    pub(crate) lost_names: u32,
    /// Its state when the domain first opened it, for nodes that are not in the map: should it
    /// change outside before the domain changes it, that is a conflict.
    pub(crate) first_use: Option<Identity>,
    /// Its state at the last open: while it stays so, the kernel's cached pages are right.
    pub(crate) cached: Option<Identity>,
    lookups: u64,
}

/// The nodes that the kernel knows.
#[derive(Debug, Default)]
pub(crate) struct Known {
    nodes: HashMap<NodeId, KnownNode>,
    by_key: HashMap<InodeKey, NodeId>,
}

impl Known {
    pub(crate) fn node(&self, id: NodeId) -> Option<&KnownNode> {
        self.nodes.get(&id)
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut KnownNode {
        self.nodes.entry(id).or_default()
    }

    /// The unadopted node of a real inode.
    pub(crate) fn by_key(&self, key: InodeKey) -> Option<NodeId> {
        self.by_key.get(&key).copied()
    }

    /// Notes where an unadopted node is. The last place in which it was seen is the surest.
    pub(crate) fn place(&mut self, id: NodeId, place: Place) {
        self.by_key.insert(place.key, id);
        self.node_mut(id).place = Some(place);
    }

    /// The map took the node over.
    pub(crate) fn adopted(&mut self, id: NodeId) {
        let place = self.nodes.get_mut(&id).and_then(|node| node.place.take());
        if let Some(place) = place {
            self.by_key.remove(&place.key);
        }
    }

    /// The kernel was told of the node once more.
    pub(crate) fn remember(&mut self, id: NodeId) {
        self.node_mut(id).lookups += 1;
    }

    /// The kernel gave back `count` of its references; true when none are left.
    pub(crate) fn forget(&mut self, id: NodeId, count: u64) -> bool {
        let Some(node) = self.nodes.get_mut(&id) else {
            return true;
        };
        node.lookups = node.lookups.saturating_sub(count);
        if node.lookups > 0 {
            return false;
        }
        let place = node.place.as_ref();
        if place.is_some_and(|place| place.kind == FileKind::Directory) {
            // Files below may still be known by their place in it: an inode with several names stays
            // when the directory in which it was last seen is forgotten.
            return true;
        }
        let key = place.map(|place| place.key);
        self.nodes.remove(&id);
        if let Some(key) = key.filter(|key| self.by_key.get(key) == Some(&id)) {
            self.by_key.remove(&key);
        }
        true
    }
}
