//! Whose the open files of each node are, where changes may have to be undone.

use std::collections::HashMap;

use super::View;
use super::core::Core;
use super::opening::OpenHow;
use crate::types::{MarkId, NodeId};

/// Who has opened a file, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Opener {
    /// The thread, as the kernel tells of it.
    pub(super) thread: u32,
    /// The newest mark then.
    pub(super) mark: Option<MarkId>,
    /// Whether data can be read by the open file.
    pub(super) reads: bool,
}

/// The open files of each node, where somebody speculates.
#[derive(Debug)]
pub(super) struct Openers {
    are_kept: bool,
    /// With the number of each open file. One thread may have opened a file several times.
    by_node: HashMap<NodeId, Vec<(u64, Opener)>>,
    /// The last of those numbers.
    last: u64,
}

impl Openers {
    /// None yet; they are kept where changes may have to be undone.
    pub(super) fn of(speculates: bool) -> Self {
        Self {
            are_kept: speculates,
            by_node: HashMap::new(),
            last: 0,
        }
    }

    pub(super) fn are_kept(&self) -> bool {
        self.are_kept
    }

    /// Returns the number of the open file.
    pub(super) fn add(&mut self, id: NodeId, opener: Opener) -> u64 {
        if !self.are_kept {
            return 0;
        }
        self.last += 1;
        let openers = self.by_node.entry(id).or_default();
        openers.push((self.last, opener));
        self.last
    }

    /// Who has a node open.
    pub(super) fn of_node(&self, id: NodeId) -> impl Iterator<Item = &Opener> {
        let openers = self.by_node.get(&id).into_iter().flatten();
        openers.map(|(_, opener)| opener)
    }

    /// Who can read data by open files, and of which nodes.
    pub(super) fn reading(&self) -> impl Iterator<Item = (NodeId, &Opener)> {
        let all = self.by_node.iter();
        let all = all.flat_map(|(id, openers)| openers.iter().map(|(_, opener)| (*id, opener)));
        all.filter(|(_, opener)| opener.reads)
    }

    /// The open file of this number is gone.
    pub(super) fn remove(&mut self, id: NodeId, number: u64) {
        let Some(openers) = self.by_node.get_mut(&id) else {
            return;
        };
        openers.retain(|(other, _)| *other != number);
        if openers.is_empty() {
            self.by_node.remove(&id);
        }
    }
}

impl View {
    /// Whether a process may have the file mapped that shows this inode number. `since`: an open file of after that mark does not
    /// count, if it is the only one by which the file can be read. True in doubt.
    ///
    /// Only what is open for reading can be mapped (mmap(2)). And a map keeps the file open, since nothing is passed through where
    /// changes may have to be undone: the kernel tells of the close after the last map is gone.
    pub fn may_be_mapped(&self, number: u64, since: Option<MarkId>) -> bool {
        let core = self.locked();
        if !core.openers.are_kept() {
            return true;
        }
        let shows_it = |id| core.number(id).is_none_or(|shown| shown == number);
        let reading = core.openers.reading();
        let mut reading = reading.filter(|(id, _)| shows_it(*id));
        match (reading.next(), reading.next()) {
            (None, _) => false,
            (Some((_, only)), None) => since.is_none() || only.mark <= since,
            (Some(_), Some(_)) => true,
        }
    }
}

impl Core {
    /// Returns the number of the open file.
    pub(super) fn note_opener(&mut self, id: NodeId, how: OpenHow) -> u64 {
        let opener = Opener {
            thread: how.opener,
            mark: self.newest_mark(),
            reads: how.reads,
        };
        self.openers.add(id, opener)
    }
}
