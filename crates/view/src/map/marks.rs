//! Marks: moments to which the map can go back while what came after them is undecided.
//!
//! From the first mark on, each node and each name is kept as it was before its first change since the
//! newest mark: an undo log an object, in segments that begin at marks. Where a process speculates, a
//! record of the log says each step, so that the log read back is the same map; what is undecided at its
//! end never was.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};

use super::{Binding, Inconsistent, Map, Node};
use crate::types::{FileKind, InodeKey, MarkId, NodeId, ObjectId};

/// All marks, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks {
    segments: Vec<Segment>,
}

/// What has changed between a mark and the next newer one, as it was before.
#[derive(Debug, Clone)]
struct Segment {
    mark: MarkId,
    /// Without their entries; `None` for those that there were not.
    nodes: HashMap<NodeId, Option<Box<Node>>>,
    entries: HashMap<(NodeId, Box<OsStr>), Option<Binding>>,
    adopted: HashMap<InodeKey, Option<NodeId>>,
}

/// What is no more as it was at a mark.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Inodes that there were, too.
    pub nodes: Vec<NodeId>,
    /// Inodes that there were not.
    pub born: Vec<NodeId>,
    /// Names, and whether they led to a directory then, or do now.
    pub names: Vec<(NodeId, OsString, bool)>,
}

impl Segment {
    fn new(mark: MarkId) -> Self {
        Self {
            mark,
            nodes: HashMap::new(),
            entries: HashMap::new(),
            adopted: HashMap::new(),
        }
    }

    /// Takes in a segment that begins where this one ends: what was first is what was before both.
    fn absorb(&mut self, newer: Self) {
        for (id, node) in newer.nodes {
            self.nodes.entry(id).or_insert(node);
        }
        for (name, binding) in newer.entries {
            self.entries.entry(name).or_insert(binding);
        }
        for (key, id) in newer.adopted {
            self.adopted.entry(key).or_insert(id);
        }
    }

    fn objects(&self) -> impl Iterator<Item = (NodeId, ObjectId)> {
        let nodes = self.nodes.iter();
        nodes.filter_map(|(&id, node)| Some((id, node.as_ref()?.object?)))
    }
}

impl Map {
    /// Whether something is undecided.
    pub fn is_marked(&self) -> bool {
        !self.marks.segments.is_empty()
    }

    /// The oldest mark.
    pub fn oldest_mark(&self) -> Option<MarkId> {
        self.marks.segments.first().map(|segment| segment.mark)
    }

    /// The newest mark.
    pub fn newest_mark(&self) -> Option<MarkId> {
        self.marks.segments.last().map(|segment| segment.mark)
    }

    /// The newest mark that is older than another.
    pub fn mark_before(&self, mark: MarkId) -> Option<MarkId> {
        let marks = self.marks.segments.iter().map(|segment| segment.mark);
        marks.take_while(|&older| older < mark).last()
    }

    /// The highest mark ever.
    pub fn last_mark(&self) -> MarkId {
        MarkId(self.last_mark)
    }

    /// Whether a node's object was given to it since the newest mark, if there is one: then it may be
    /// written to.
    pub fn owns_object_since_mark(&self, id: NodeId) -> bool {
        let Some(newest) = self.marks.segments.last() else {
            return true;
        };
        let now = self.node(id).and_then(|node| node.object);
        match newest.nodes.get(&id) {
            None => false,
            Some(before) => before.as_ref().and_then(|node| node.object) != now,
        }
    }

    /// Whether the node, or what it was at a mark, may still be needed.
    pub fn is_kept_by_mark(&self, id: NodeId) -> bool {
        let mut segments = self.marks.segments.iter();
        segments.any(|segment| segment.nodes.contains_key(&id))
    }

    /// What is not as it was at a mark.
    ///
    /// # Errors
    /// [`Inconsistent::Mark`] where there is none of this number.
    pub fn touched_since(&self, mark: MarkId) -> Result<Touched, Inconsistent> {
        let place = self.marks.place(mark)?;
        let (mut nodes, mut names) = (HashMap::new(), HashMap::new());
        for segment in &self.marks.segments[place..] {
            for (&id, before) in &segment.nodes {
                nodes.entry(id).or_insert(before.is_some());
            }
            for (name, before) in &segment.entries {
                names.entry(name).or_insert(before);
            }
        }
        let mut touched = Touched::default();
        for (id, was_there) in nodes {
            match was_there {
                true => touched.nodes.push(id),
                false => touched.born.push(id),
            }
        }
        for ((directory, name), before) in names {
            let now = self
                .node(*directory)
                .and_then(|node| node.entries.get(name));
            let mut ends = [before.as_ref(), now].into_iter().flatten();
            let is_directory = ends.any(|binding| self.leads_to_directory(binding));
            touched
                .names
                .push((*directory, name.as_ref().into(), is_directory));
        }
        touched.nodes.sort_unstable();
        touched.born.sort_unstable();
        touched.names.sort_unstable();
        Ok(touched)
    }

    /// Objects that no node has any more once the segment of a mark is absorbed by the one before it, or
    /// by what is decided.
    pub fn superseded_by_keeping(&self, mark: MarkId) -> Result<Vec<ObjectId>, Inconsistent> {
        let place = self.marks.place(mark)?;
        let (older, rest) = self.marks.segments.split_at(place);
        let Some((segment, newer)) = rest.split_first() else {
            return Err(Inconsistent::Mark(mark));
        };
        let heir = older.last();
        let is_needed = |id: NodeId, object: ObjectId| {
            let has = |node: Option<&Node>| node.is_some_and(|node| node.object == Some(object));
            let is_inherited = heir.is_some_and(|heir| !heir.nodes.contains_key(&id));
            // An older mark may have the same object: the node was changed in between, its data were not.
            let others = older.iter().chain(newer);
            let mut before = others.filter_map(|other| other.nodes.get(&id));
            is_inherited || has(self.node(id)) || before.any(|node| has(node.as_deref()))
        };
        let objects = segment.objects();
        let gone = objects.filter(|&(id, object)| !is_needed(id, object));
        Ok(gone.map(|(_, object)| object).collect())
    }

    /// Objects that no node will have any more once the map has gone back to a mark.
    pub fn superseded_by_undoing(&self, mark: MarkId) -> Result<Vec<ObjectId>, Inconsistent> {
        let place = self.marks.place(mark)?;
        let (older, undone) = self.marks.segments.split_at(place);
        let mut gone = BTreeSet::new();
        for segment in undone {
            gone.extend(segment.objects());
            let now = segment
                .nodes
                .keys()
                .filter_map(|&id| self.node(id).zip(Some(id)));
            gone.extend(now.filter_map(|(node, id)| Some((id, node.object?))));
        }
        // What was first in each comes back.
        for (place, segment) in undone.iter().enumerate() {
            for before in segment.objects() {
                let is_first = undone[..place]
                    .iter()
                    .all(|older| !older.nodes.contains_key(&before.0));
                if is_first {
                    gone.remove(&before);
                }
            }
        }
        for segment in older {
            for before in segment.objects() {
                gone.remove(&before);
            }
        }
        Ok(gone.into_iter().map(|(_, object)| object).collect())
    }

    pub(super) fn mark(&mut self, mark: MarkId) -> Result<(), Inconsistent> {
        if mark.0 <= self.last_mark {
            return Err(Inconsistent::Mark(mark));
        }
        self.last_mark = mark.0;
        self.marks.segments.push(Segment::new(mark));
        Ok(())
    }

    pub(super) fn keep(&mut self, mark: MarkId) -> Result<(), Inconsistent> {
        let place = self.marks.place(mark)?;
        let kept = self.marks.segments.remove(place);
        if let Some(older) = place.checked_sub(1) {
            self.marks.segments[older].absorb(kept);
        }
        Ok(())
    }

    pub(super) fn undo(&mut self, mark: MarkId) -> Result<(), Inconsistent> {
        let place = self.marks.place(mark)?;
        for segment in self.marks.segments.split_off(place).into_iter().rev() {
            self.go_back(segment);
        }
        Ok(())
    }

    fn go_back(&mut self, segment: Segment) {
        for (id, before) in segment.nodes {
            let now = self.nodes.remove(&id);
            let Some(mut node) = before else { continue };
            if let Some(now) = now {
                node.entries = now.entries;
            }
            self.nodes.insert(id, node);
        }
        for ((directory, name), before) in segment.entries {
            // A directory that was not there then has taken its names along.
            let Some(node) = self.nodes.get_mut(&directory) else {
                continue;
            };
            match before {
                Some(binding) => node.entries.insert(&name, binding),
                None => node.entries.remove(&name),
            }
        }
        for (key, before) in segment.adopted {
            match before {
                Some(id) => self.adopted.insert(key, id),
                None => self.adopted.remove(&key),
            };
        }
    }

    /// Keeps a node as it is, before its first change since the newest mark.
    pub(super) fn save_node(&mut self, id: NodeId) {
        let Some(newest) = self.marks.segments.last_mut() else {
            return;
        };
        newest.nodes.entry(id).or_insert_with(|| {
            let node = self.nodes.get_mut(&id)?;
            // Its names are kept one by one: there may be many.
            let entries = std::mem::take(&mut node.entries);
            let saved = node.clone();
            node.entries = entries;
            Some(saved)
        });
    }

    /// Keeps what a name leads to, likewise.
    pub(super) fn save_entry(&mut self, directory: NodeId, name: &OsStr) {
        let Some(newest) = self.marks.segments.last_mut() else {
            return;
        };
        let node = self.nodes.get(&directory);
        let binding = || node.and_then(|node| node.entries.get(name)).cloned();
        let key = (directory, name.into());
        newest.entries.entry(key).or_insert_with(binding);
    }

    /// Keeps which node a real inode became, likewise.
    pub(super) fn save_adopted(&mut self, key: InodeKey) {
        if let Some(newest) = self.marks.segments.last_mut() {
            let before = self.adopted.get(&key).copied();
            newest.adopted.entry(key).or_insert(before);
        }
    }

    fn leads_to_directory(&self, binding: &Binding) -> bool {
        let node = binding.target.and_then(|target| self.node(target));
        let lower = binding.lower().map(|lower| lower.kind);
        node.map(|node| node.kind).or(lower) == Some(FileKind::Directory)
    }
}

impl Marks {
    fn place(&self, mark: MarkId) -> Result<usize, Inconsistent> {
        let mut segments = self.segments.iter();
        let place = segments.position(|segment| segment.mark == mark);
        place.ok_or(Inconsistent::Mark(mark))
    }
}
