//! Whose the open files of each node are, where changes may have to be undone.

use std::collections::HashMap;

use crate::types::{MarkId, NodeId};

/// Who has opened a file: a thread, as the kernel tells of it, and the newest mark then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Opener {
    pub(super) thread: u32,
    pub(super) mark: Option<MarkId>,
}

/// The open files of each node, where somebody speculates.
#[derive(Debug)]
pub(super) struct Openers {
    are_kept: bool,
    by_node: HashMap<NodeId, Vec<Opener>>,
}

impl Openers {
    /// None yet; they are kept where changes may have to be undone.
    pub(super) fn of(speculates: bool) -> Self {
        Self {
            are_kept: speculates,
            by_node: HashMap::new(),
        }
    }

    pub(super) fn are_kept(&self) -> bool {
        self.are_kept
    }

    pub(super) fn add(&mut self, id: NodeId, opener: Opener) {
        if self.are_kept {
            self.by_node.entry(id).or_default().push(opener);
        }
    }

    /// Who has a node open.
    pub(super) fn of_node(&self, id: NodeId) -> &[Opener] {
        self.by_node.get(&id).map_or(&[], Vec::as_slice)
    }

    /// An open file of a thread's is gone.
    pub(super) fn remove(&mut self, id: NodeId, thread: u32) {
        let Some(openers) = self.by_node.get_mut(&id) else {
            return;
        };
        let oldest = openers.iter().position(|opener| opener.thread == thread);
        if let Some(place) = oldest {
            openers.swap_remove(place);
        }
        if openers.is_empty() {
            self.by_node.remove(&id);
        }
    }
}
