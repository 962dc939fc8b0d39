//! What of the lower side is shown otherwise than it is: inode numbers, groups, and what is hidden.

use super::ViewConfig;
use crate::types::{Attributes, InodeKey, NodeId};

/// Inode numbers of nodes that exist only in the view begin here, far above what file systems use.
const FIRST_NEW_INODE: u64 = 1 << 40;

/// How the lower side is shown.
#[derive(Debug)]
pub(super) struct Showing {
    hidden: Vec<InodeKey>,
    foreign_groups: Vec<u32>,
    own_group: u32,
    root_device: u64,
}

impl Showing {
    /// As configured, of a tree whose root is on this file system.
    pub(super) fn of(config: &ViewConfig, root_device: u64) -> Self {
        Self {
            hidden: config.hidden.clone(),
            foreign_groups: config.foreign_groups.clone(),
            own_group: config.own_group,
            root_device,
        }
    }

    /// Whether a real inode does not exist in the view.
    pub(super) fn is_hidden(&self, key: InodeKey) -> bool {
        self.hidden.contains(&key)
    }

    /// A group that grants an ordinary user something, but that its user namespace cannot hold, is
    /// shown as the user's own.
    pub(super) fn present_group(&self, attributes: &mut Attributes) {
        if self.foreign_groups.contains(&attributes.gid) {
            attributes.gid = self.own_group;
        }
    }

    /// The inode number of a real inode. Those of the root's file system are shown as they are; those of
    /// others carry their device in the upper bits, since one mount shows them all.
    pub(super) fn inode(&self, key: InodeKey) -> u64 {
        if key.device == self.root_device {
            return key.inode;
        }
        let device = (key.device ^ (key.device >> 16)) & 0x7fff | 0x8000;
        key.inode ^ (device << 48)
    }
}

/// The inode number of a node that only the view has.
pub(super) fn created_inode(id: NodeId) -> u64 {
    FIRST_NEW_INODE + id.0
}

/// The node that only the view has and that is shown with this number.
pub(super) fn created_node(number: u64) -> Option<NodeId> {
    number.checked_sub(FIRST_NEW_INODE).map(NodeId)
}
