//! Changes of a node that commute: those of one mark can be taken back or settled, whatever marks have changed the node since.

use std::collections::BTreeSet;

use crate::map::Node;
use crate::types::{MarkId, NodeId, Timestamp};

/// Layers that commute.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// Below all of them.
    base: Base,
    /// In the order of their last changes, one a mark.
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
struct Part {
    mark: MarkId,
    change: Together,
}

/// A change of a node that commutes with others of its kind: sums add up, and of the rest the last counts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Together {
    pub(super) names: i64,
    pub(super) subdirectories: i64,
    pub(super) modified: Option<Timestamp>,
    pub(super) changed: Option<Timestamp>,
    pub(super) parent: Option<NodeId>,
}

/// What the last change of a run replaces.
#[derive(Debug, Clone, Copy)]
struct Base {
    modified: Option<Timestamp>,
    changed: Option<Timestamp>,
    parent: NodeId,
}

impl Together {
    /// Does to a node what the change says.
    pub(super) fn apply(&self, node: &mut Node) {
        node.names += self.names;
        node.subdirectories += self.subdirectories;
        node.modified = self.modified.or(node.modified);
        node.changed = self.changed.or(node.changed);
        node.parent = self.parent.unwrap_or(node.parent);
    }

    /// Takes in a later one.
    fn absorb(&mut self, later: &Self) {
        self.names += later.names;
        self.subdirectories += later.subdirectories;
        self.modified = later.modified.or(self.modified);
        self.changed = later.changed.or(self.changed);
        self.parent = later.parent.or(self.parent);
    }

    /// A later change is decided: what it has replaced never comes back.
    fn give_way_to(&mut self, later: &Self) {
        self.modified = self.modified.filter(|_| later.modified.is_none());
        self.changed = self.changed.filter(|_| later.changed.is_none());
        self.parent = self.parent.filter(|_| later.parent.is_none());
    }
}

impl Base {
    fn of(node: &Node) -> Self {
        Self {
            modified: node.modified,
            changed: node.changed,
            parent: node.parent,
        }
    }

    fn with(self, change: &Together) -> Self {
        Self {
            modified: change.modified.or(self.modified),
            changed: change.changed.or(self.changed),
            parent: change.parent.unwrap_or(self.parent),
        }
    }
}

impl Run {
    /// No layer as yet, on this node.
    pub(super) fn on(node: &Node) -> Self {
        Self {
            base: Base::of(node),
            parts: Vec::new(),
        }
    }

    /// Adds what a mark has changed. Whether it is the mark's first change here.
    pub(super) fn add(&mut self, mark: MarkId, change: &Together) -> bool {
        let place = self.parts.iter().position(|part| part.mark == mark);
        let part = place.map(|place| self.parts.remove(place));
        let is_first = part.is_none();
        let mut part = part.unwrap_or(Part {
            mark,
            change: Together::default(),
        });
        part.change.absorb(change);
        self.parts.push(part);
        is_first
    }

    /// Takes back what these marks have changed of the node.
    pub(super) fn take_back(&mut self, marks: &BTreeSet<MarkId>, node: &mut Node) {
        for part in self.parts.extract_if(.., |part| marks.contains(&part.mark)) {
            node.names -= part.change.names;
            node.subdirectories -= part.change.subdirectories;
        }
        let parts = self.parts.iter();
        let now = parts.fold(self.base, |base, part| base.with(&part.change));
        (node.modified, node.changed, node.parent) = (now.modified, now.changed, now.parent);
    }

    pub(super) fn settle(&mut self, marks: &BTreeSet<MarkId>) {
        let mut at = 0;
        while let Some(part) = self.parts.get(at) {
            if marks.contains(&part.mark) {
                let part = self.parts.remove(at);
                self.decided(&part.change, at);
            } else {
                at += 1;
            }
        }
    }

    /// A change is decided that came after all others.
    pub(super) fn decide(&mut self, change: &Together) {
        self.decided(change, self.parts.len());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(super) fn has(&self, test: impl Fn(MarkId) -> bool) -> bool {
        self.marks().any(test)
    }

    pub(super) fn marks(&self) -> impl Iterator<Item = MarkId> {
        self.parts.iter().map(|part| part.mark)
    }

    /// A change is decided that came after so many of the parts.
    fn decided(&mut self, change: &Together, after: usize) {
        self.base = self.base.with(change);
        for older in &mut self.parts[..after] {
            older.change.give_way_to(change);
        }
    }
}
