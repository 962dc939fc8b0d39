//! Inode numbers as they are shown.

use super::core::Core;
use crate::types::{Identity, InodeKey, NodeId};

/// Inode numbers of nodes that exist only in the view begin here, far above what file systems use.
const FIRST_NEW_INODE: u64 = 1 << 40;

impl Core {
    /// The inode number to show. Those of the root's file system are shown as they are; those of
    /// others carry their device in the upper bits, since one mount shows them all.
    pub(super) fn inode_number(&self, id: NodeId, identity: &Identity) -> u64 {
        match self.map.node(id) {
            Some(node) if node.origin.is_none() => self.created_inode(id),
            _ => self.shown_inode(identity.key()),
        }
    }

    /// The inode number of a node that exists only in the view.
    pub(super) fn created_inode(&self, id: NodeId) -> u64 {
        self.known.number(id).unwrap_or(FIRST_NEW_INODE + id.0)
    }

    pub(super) fn shown_inode(&self, key: InodeKey) -> u64 {
        if key.device == self.root_device {
            return key.inode;
        }
        let device = (key.device ^ (key.device >> 16)) & 0x7fff | 0x8000;
        key.inode ^ (device << 48)
    }
}

/// The node that exists only in the view and is shown with this number.
pub(super) fn created_node(number: u64) -> Option<NodeId> {
    number.checked_sub(FIRST_NEW_INODE).map(NodeId)
}
