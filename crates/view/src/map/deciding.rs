//! What the map does by marks: taken back, settled, and what is refused meanwhile.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

use super::cells::{End, Layers, NameKey};
use super::together::Together;
use super::{Binding, Inconsistent, Map, Node};
use crate::record::Record;
use crate::types::{FileKind, InodeKey, MarkId, NodeId, ObjectId, Timestamp};

/// The cells that some marks have changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Inodes.
    pub nodes: Vec<NodeId>,
    /// Names, and whether they led to a directory before, or do now.
    pub names: Vec<(NodeId, OsString, bool)>,
}

impl Map {
    /// Whether something is undecided.
    pub fn is_undecided(&self) -> bool {
        !self.cells.is_empty()
    }

    /// The marks of which a change is undecided.
    pub fn undecided_marks(&self) -> Vec<MarkId> {
        self.cells.marks().into_iter().collect()
    }

    /// The highest mark ever that has changed something.
    pub fn last_mark(&self) -> MarkId {
        MarkId(self.last_mark)
    }

    /// Adds the marks that have a layer of a node.
    pub fn marks_of_node(&self, id: NodeId, which: Layers, marks: &mut BTreeSet<MarkId>) {
        self.cells.marks_of_node(id, which, marks);
    }

    /// Adds the marks that have a layer of a name.
    pub fn marks_of_name(&self, directory: NodeId, name: &OsStr, marks: &mut BTreeSet<MarkId>) {
        if self.cells.has_name(directory, name) {
            self.cells.marks_of_name(&(directory, name.into()), marks);
        }
    }

    /// The nodes that have layers.
    pub fn undecided_nodes(&self) -> impl Iterator<Item = NodeId> {
        self.cells.changed_nodes()
    }

    /// Whether a node's data, which are in an object, may be changed in that object by a mark: no undoing needs the
    /// object as it is, and no other mark's change lies on this one's.
    pub fn owns_object(&self, id: NodeId, by: Option<MarkId>) -> bool {
        let now = self.node(id).and_then(|node| node.object);
        let mut needed = self.cells.objects(id);
        self.cells.is_changed_last_by(id, by) && !needed.any(|object| Some(object) == now)
    }

    /// Whether the node, or what it was before a change, may still be needed.
    pub fn is_kept_by_mark(&self, id: NodeId) -> bool {
        self.cells.has_node(id)
    }

    /// Whether a change of a node's own, or of its data, may be decided at once: no change of it is undecided.
    pub fn is_decided(&self, id: NodeId) -> bool {
        !self.cells.has_node(id)
    }

    /// Whether records may belong to no mark: what they change is decided, but for what commutes.
    pub fn may_be_decided(&self, records: &[Record]) -> bool {
        self.cells.is_empty() || records.iter().all(|record| self.may_be_decided_one(record))
    }

    fn may_be_decided_one(&self, record: &Record) -> bool {
        match record {
            Record::Bind {
                directory,
                name,
                lower,
                ..
            }
            | Record::Unbind {
                directory,
                name,
                lower,
            } => {
                let bound = self
                    .node(*directory)
                    .and_then(|node| node.entries.get(name));
                let occupant = match bound {
                    Some(binding) => binding.target,
                    None => lower.and_then(|lower| self.adopted(lower.key())),
                };
                let target = match record {
                    Record::Bind { node, .. } => Some(*node),
                    _ => None,
                };
                let mut nodes = [Some(*directory), occupant, target].into_iter().flatten();
                !self.cells.has_name(*directory, name) && nodes.all(|id| self.cells.commutes(id))
            }
            Record::Content { node, .. }
            | Record::Borrow { node, .. }
            | Record::Own { node, .. }
            | Record::Cut { node, .. }
            | Record::Permissions { node, .. }
            | Record::Owner { node, .. }
            | Record::Times { node, .. }
            | Record::Xattr { node, .. } => self.is_decided(*node),
            Record::Rebase => false,
            // The first is nobody's in any case, and nothing could lie below the second.
            Record::Adopt { .. } | Record::Create { .. } => true,
            Record::By(_) | Record::Settle(_) | Record::TakeBack(_) => true,
        }
    }

    /// The cells of some marks.
    pub fn touched(&self, marks: &[MarkId]) -> Touched {
        let (nodes, names) = self.cells.touched(&marks.iter().copied().collect());
        let names = names.into_iter().map(|name| {
            let now = self.binding(&name);
            let mut ends = now.into_iter().chain(self.cells.bindings(&name));
            let is_directory = ends.any(|binding| self.leads_to_directory(binding));
            drop(ends);
            (name.0, name.1.into_os_string(), is_directory)
        });
        Touched {
            names: names.collect(),
            nodes: nodes.into_iter().collect(),
        }
    }

    /// Whether some marks can be settled: nothing that is undecided lies below what they have changed.
    ///
    /// # Errors
    /// [`Inconsistent::Undecided`] where something does.
    pub fn check_settling(&self, marks: &[MarkId]) -> Result<(), Inconsistent> {
        self.cells
            .check_order(&marks.iter().copied().collect(), End::Bottom)
    }

    /// Whether some marks can be taken back: nothing else lies on what they have changed.
    ///
    /// # Errors
    /// [`Inconsistent::Undecided`] where something does.
    pub fn check_taking_back(&self, marks: &[MarkId]) -> Result<(), Inconsistent> {
        self.cells
            .check_order(&marks.iter().copied().collect(), End::Top)
    }

    /// The objects that no node has any more since the last operation settled marks or took them back.
    pub fn superseded(&self) -> &[ObjectId] {
        &self.superseded
    }

    pub(super) fn settle(&mut self, marks: &[MarkId]) -> Result<(), Inconsistent> {
        self.check_settling(marks)?;
        let marks: BTreeSet<MarkId> = marks.iter().copied().collect();
        let (nodes, names) = self.cells.touched(&marks);
        for id in nodes {
            let before = self.objects_of(id);
            self.cells.settle_node(id, &marks);
            self.note_superseded(id, before);
        }
        for name in names {
            self.cells.settle_name(&name, &marks);
        }
        self.cells.forget(&marks);
        Ok(())
    }

    pub(super) fn take_back(&mut self, marks: &[MarkId]) -> Result<(), Inconsistent> {
        self.check_taking_back(marks)?;
        let marks: BTreeSet<MarkId> = marks.iter().copied().collect();
        let (nodes, names) = self.cells.touched(&marks);
        for id in nodes {
            let before = self.objects_of(id);
            let mut node = self.nodes.remove(&id);
            self.cells.take_back_node(id, &marks, &mut node);
            if let Some(node) = node {
                self.nodes.insert(id, node);
            }
            self.note_superseded(id, before);
        }
        for name in names {
            let Some(before) = self.cells.take_back_name(&name, &marks) else {
                continue;
            };
            // A directory that was not there then has taken its names along.
            let Some(node) = self.nodes.get_mut(&name.0) else {
                continue;
            };
            match before {
                Some(binding) => node.entries.insert(&name.1, binding),
                None => node.entries.remove(&name.1),
            }
        }
        self.cells.forget(&marks);
        Ok(())
    }

    /// Does to a node what commutes with what others do.
    pub(super) fn change_together(
        &mut self,
        by: Option<MarkId>,
        id: NodeId,
        change: &Together,
    ) -> Result<(), Inconsistent> {
        let node = self.nodes.get_mut(&id).ok_or(Inconsistent::Node(id))?;
        self.cells.change_together(by, id, node, change)?;
        change.apply(node);
        Ok(())
    }

    /// The node, kept first as it was where that may have to come back.
    pub(super) fn saved(&mut self, id: NodeId) -> Result<&mut Node, Inconsistent> {
        let node = self.nodes.get_mut(&id).ok_or(Inconsistent::Node(id))?;
        self.cells.change_alone(self.by, id, Some(node))?;
        Ok(node)
    }

    /// Keeps that there was no such node, likewise.
    pub(super) fn save_birth(&mut self, id: NodeId) -> Result<(), Inconsistent> {
        self.cells.change_alone(self.by, id, None)
    }

    /// Keeps what a name leads to, likewise.
    pub(super) fn save_entry(
        &mut self,
        directory: NodeId,
        name: &OsStr,
    ) -> Result<(), Inconsistent> {
        let node = self.nodes.get(&directory);
        let now = node.and_then(|node| node.entries.get(name));
        self.cells.change_name(self.by, directory, name, now)
    }

    /// A real inode is adopted whose name leads elsewhere already: the node lacks a name, for as long as the name does
    /// not lead there again.
    pub(super) fn lack_name(
        &mut self,
        id: NodeId,
        directory: NodeId,
        name: &OsStr,
        key: InodeKey,
    ) -> Result<(), Inconsistent> {
        let by = self.cells.hidden_by(directory, name, key);
        let lack = Together {
            names: -1,
            ..Together::default()
        };
        self.change_together(by, id, &lack)
    }

    /// The objects that a node has, or that it could have again.
    fn objects_of(&self, id: NodeId) -> BTreeSet<ObjectId> {
        let now = self.node(id).and_then(|node| node.object);
        self.cells.objects(id).chain(now).collect()
    }

    fn note_superseded(&mut self, id: NodeId, before: BTreeSet<ObjectId>) {
        let after = self.objects_of(id);
        let gone = before.into_iter().filter(|object| !after.contains(object));
        self.superseded.extend(gone);
    }

    fn binding(&self, (directory, name): &NameKey) -> Option<&Binding> {
        self.node(*directory)?.entries.get(name)
    }

    fn leads_to_directory(&self, binding: &Binding) -> bool {
        let node = binding.target.and_then(|target| self.node(target));
        let lower = binding.lower().map(|lower| lower.kind);
        node.map(|node| node.kind).or(lower) == Some(FileKind::Directory)
    }
}

/// A change of a directory by a change of its names.
pub(super) fn renamed(subdirectories: i64, time: Timestamp) -> Together {
    Together {
        subdirectories,
        modified: Some(time),
        changed: Some(time),
        ..Together::default()
    }
}
