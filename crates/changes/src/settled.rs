//! What was decided about the changes of a view: which of them are left out, and what outside is taken
//! for what the domain found.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};

use surmise_view::{Identity, NodeId};

/// Decisions about single names and inodes; without any, all changes are as the domain made them.
#[derive(Debug, Clone, Default)]
pub struct Settled {
    /// Names whose change is left out.
    left_out: HashMap<NodeId, HashSet<OsString>>,
    /// Inodes whose change is left out.
    unedited: HashSet<NodeId>,
    /// What names lead to outside, where that is not what the domain found.
    now: HashMap<NodeId, HashMap<OsString, Option<Identity>>>,
    /// What changed inodes are outside, where that is not what the domain found.
    edited_now: HashMap<NodeId, Identity>,
}

impl Settled {
    /// Whether the change of a name is left out.
    pub fn leaves_out(&self, directory: NodeId, name: &OsStr) -> bool {
        let names = self.left_out.get(&directory);
        names.is_some_and(|names| names.contains(name))
    }

    /// Whether the change of an inode is left out.
    pub fn leaves_unedited(&self, node: NodeId) -> bool {
        self.unedited.contains(&node)
    }

    /// What a name is taken to have led to, given what it led to when the domain first used it.
    pub fn lower(
        &self,
        directory: NodeId,
        name: &OsStr,
        first: Option<Identity>,
    ) -> Option<Identity> {
        let names = self.now.get(&directory);
        let now = names.and_then(|names| names.get(name));
        now.copied().unwrap_or(first)
    }

    /// The same for an inode that the domain changed.
    pub fn edited(&self, node: NodeId, first: Identity) -> Identity {
        self.edited_now.get(&node).copied().unwrap_or(first)
    }

    /// Leaves out the change of a name; `false` where it was left out before.
    pub fn leave_out(&mut self, directory: NodeId, name: &OsStr) -> bool {
        let names = self.left_out.entry(directory).or_default();
        names.insert(name.to_owned())
    }

    /// Leaves out the change of an inode.
    pub fn leave_unedited(&mut self, node: NodeId) {
        self.unedited.insert(node);
    }

    /// Takes what a name leads to outside for what the domain found there.
    pub fn take(&mut self, directory: NodeId, name: OsString, now: Option<Identity>) {
        let names = self.now.entry(directory).or_default();
        names.insert(name, now);
    }

    /// Takes what a changed inode is outside for what the domain found.
    pub fn take_edited(&mut self, node: NodeId, now: Identity) {
        self.edited_now.insert(node, now);
    }
}
