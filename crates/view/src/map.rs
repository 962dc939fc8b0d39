//! The name map: everything that the domain changed, as a fold over its operations.
//!
//! The map holds only differences. A directory that exists outside merges with its real self: a name
//! that the map does not bind is looked up there. Nothing but [`Map::apply`] changes a map, while the
//! domain runs and when its log is read back alike, so what a reader of the log sees is what the
//! domain saw.

mod cells;
mod deciding;
mod devices;
mod node;
mod table;
mod together;

pub use cells::Layers;
pub use deciding::Touched;
pub use node::{Binding, Node, Origin};
pub use table::Table;

use std::collections::HashMap;
use std::ffi::OsStr;

use crate::borrowed::Borrowed;
use crate::record::{Operation, Record};
use crate::types::{FileKind, Identity, InodeKey, MarkId, NodeId, ObjectId, Timestamp};
use cells::Cells;
use deciding::renamed;
use together::Together;

/// A record that does not fit what came before it: the log is not one that a view wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Inconsistent {
    /// It speaks of a node which does not exist, or of a second node under one id.
    #[error("the record does not fit what came before it (node {})", .0.0)]
    Node(NodeId),
    /// It settles, takes back or lies on undecided changes of a node, or of a name in it, in an order that could not
    /// be undone.
    #[error("the record does not fit what is undecided (node {})", .0.0)]
    Undecided(NodeId),
}

/// What the map says of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// It leads to this node.
    Bound(NodeId),
    /// It was removed.
    Unbound,
    /// Nothing: it is what the real directory says.
    Unchanged,
}

/// The name map.
#[derive(Debug, Clone, Default)]
pub struct Map {
    nodes: HashMap<NodeId, Box<Node>>,
    adopted: HashMap<InodeKey, NodeId>,
    operations: u64,
    last_node: u64,
    last_object: u64,
    last_mark: u64,
    /// Whose the records are that are being taken in.
    by: Option<MarkId>,
    cells: Cells,
    superseded: Vec<ObjectId>,
}

impl Map {
    /// The node, if the map knows it.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id).map(|node| &**node)
    }

    /// Every node, in no order.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().map(|(id, node)| (*id, &**node))
    }

    /// The node that a real inode became.
    pub fn adopted(&self, key: InodeKey) -> Option<NodeId> {
        self.adopted.get(&key).copied()
    }

    /// What the map says of `name` in `directory`.
    pub fn resolve(&self, directory: NodeId, name: &OsStr) -> Resolution {
        let Some(node) = self.nodes.get(&directory) else {
            return Resolution::Unchanged;
        };
        match node.entries.get(name) {
            Some(binding) => binding
                .target
                .map_or(Resolution::Unbound, Resolution::Bound),
            None if node.origin.is_some() => Resolution::Unchanged,
            None => Resolution::Unbound,
        }
    }

    /// Operations applied so far.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// The highest node id and object id in use.
    pub fn last_ids(&self) -> (NodeId, ObjectId) {
        (NodeId(self.last_node.max(1)), ObjectId(self.last_object))
    }

    /// Takes in one operation.
    ///
    /// # Errors
    /// [`Inconsistent`], after which the map must not be used.
    pub fn apply(&mut self, operation: &Operation) -> Result<(), Inconsistent> {
        self.operations += 1;
        self.by = None;
        self.superseded.clear();
        for record in &operation.records {
            self.apply_record(record, operation.time)?;
        }
        self.by = None;
        Ok(())
    }

    /// Drops what no name leads to and no process can hold any more, and returns the objects that
    /// went with it. For use when the log has been read back.
    pub fn prune(&mut self) -> Vec<ObjectId> {
        let gone = |node: &Node| node.origin.is_none() && node.names <= 0;
        let objects = self.nodes.values().filter(|node| gone(node));
        let objects = objects.filter_map(|node| node.object).collect();
        self.nodes.retain(|_, node| !gone(node));
        objects
    }

    /// Drops one created node that no name leads to and nothing holds, and returns its object. Nothing is
    /// dropped that undoing a mark might need.
    pub fn drop_nameless(&mut self, id: NodeId) -> Option<ObjectId> {
        let node = self.nodes.get(&id)?;
        if node.origin.is_some() || node.names > 0 || self.is_kept_by_mark(id) {
            return None;
        }
        self.nodes.remove(&id)?.object
    }

    /// Empties the map, and returns what was in it.
    pub(crate) fn take_nodes(&mut self) -> HashMap<NodeId, Box<Node>> {
        self.adopted = HashMap::new();
        std::mem::take(&mut self.nodes)
    }

    fn apply_record(&mut self, record: &Record, time: Timestamp) -> Result<(), Inconsistent> {
        match record {
            Record::Adopt { .. } | Record::Create { .. } => self.add(record, time),
            Record::Bind {
                directory,
                name,
                node,
                lower,
            } => self.rebind(*directory, name, Some(*node), *lower, time),
            Record::Unbind {
                directory,
                name,
                lower,
            } => self.rebind(*directory, name, None, *lower, time),
            Record::Content { node, object } => {
                self.last_object = self.last_object.max(object.0);
                let node = self.changing(*node, time)?;
                node.object = Some(*object);
                node.borrowed = None;
                // The object's own times take over, and every write keeps them right.
                node.modified = None;
                node.accessed = None;
                Ok(())
            }
            Record::Borrow { .. } | Record::Own { .. } | Record::Cut { .. } => {
                self.apply_borrowing(record, time)
            }
            Record::Permissions { node, permissions } => {
                let node = self.changing(*node, time)?;
                node.permissions = *permissions;
                node.owns_permissions = true;
                Ok(())
            }
            Record::Owner { node, uid, gid } => {
                let node = self.changing(*node, time)?;
                (node.uid, node.gid) = (*uid, *gid);
                node.owns_owner = true;
                Ok(())
            }
            Record::Times {
                node,
                accessed,
                modified,
            } => {
                let node = self.changing(*node, time)?;
                node.accessed = accessed.or(node.accessed);
                node.modified = modified.or(node.modified);
                node.owns_times = true;
                Ok(())
            }
            Record::Xattr { node, name, value } => {
                let node = self.changing(*node, time)?;
                let value = value.as_ref().map(|value| value.as_slice().into());
                node.xattrs.insert(name, value);
                Ok(())
            }
            Record::By(_) | Record::Settle(_) | Record::TakeBack(_) | Record::Rebase => {
                self.apply_decision(record)
            }
        }
    }

    fn apply_decision(&mut self, record: &Record) -> Result<(), Inconsistent> {
        match record {
            Record::By(mark) => {
                self.last_mark = self.last_mark.max(mark.0);
                self.by = Some(*mark);
                Ok(())
            }
            Record::Settle(marks) => self.settle(marks),
            Record::TakeBack(marks) => self.take_back(marks),
            // A commit is of what is decided.
            Record::Rebase if self.is_undecided() => Err(Inconsistent::Undecided(NodeId::ROOT)),
            Record::Rebase => {
                // Ids go on from where they are: an object's file may outlive its node for a while.
                self.take_nodes();
                Ok(())
            }
            _ => unreachable!("only records that change no node come here"),
        }
    }

    fn apply_borrowing(&mut self, record: &Record, time: Timestamp) -> Result<(), Inconsistent> {
        let id = match record {
            Record::Borrow {
                node: id,
                object,
                from,
                allocated,
                limit,
            } => {
                self.last_object = self.last_object.max(object.0);
                let node = self.changing(*id, time)?;
                node.object = Some(*object);
                node.borrowed = Some(Box::new(Borrowed::new(*from, *allocated, *limit)));
                // As with an object that holds all.
                node.modified = None;
                node.accessed = None;
                id
            }
            Record::Own { node, first, end } => {
                self.borrowing(*node, time)?.own(*first..*end);
                node
            }
            Record::Cut { node, limit } => {
                self.borrowing(*node, time)?.cut(*limit);
                node
            }
            _ => unreachable!("only records of borrowed data come here"),
        };
        let node = self.saved(*id)?;
        if node
            .borrowed
            .as_ref()
            .is_some_and(|borrowed| borrowed.is_whole())
        {
            node.borrowed = None;
        }
        Ok(())
    }

    /// What a node's object borrows, which must be something.
    fn borrowing(&mut self, id: NodeId, time: Timestamp) -> Result<&mut Borrowed, Inconsistent> {
        let borrowed = self.changing(id, time)?.borrowed.as_deref_mut();
        borrowed.ok_or(Inconsistent::Node(id))
    }

    fn add(&mut self, record: &Record, time: Timestamp) -> Result<(), Inconsistent> {
        let (id, node) = Node::born(record, time, self.operations);
        if self.nodes.contains_key(&id) {
            return Err(Inconsistent::Node(id));
        }
        let origin = node.origin.clone();
        match &origin {
            // Nothing that is seen changes by that, and others may come to rely on it: it is nobody's.
            Some(origin) => {
                // A walk up from a node comes to the root: each was found in one that was there before.
                let is_root = id == NodeId::ROOT && id == origin.parent;
                if !is_root && !self.nodes.contains_key(&origin.parent) {
                    return Err(Inconsistent::Node(origin.parent));
                }
                if self.cells.has_node(id) {
                    return Err(Inconsistent::Undecided(id));
                }
                self.adopted.insert(origin.identity.key(), id);
            }
            None => self.save_birth(id)?,
        }
        self.last_node = self.last_node.max(id.0);
        let object = node.object.map_or(0, |object| object.0);
        self.last_object = self.last_object.max(object);
        self.nodes.insert(id, Box::new(node));
        let Some(origin) = origin else { return Ok(()) };
        // A file that was open when its name went, and is changed only now.
        let place = self.nodes.get(&origin.parent);
        let binding = place.and_then(|place| place.entries.get(&origin.name));
        let key = origin.identity.key();
        match binding.and_then(Binding::lower) {
            Some(lower) if lower.key() == key => {
                self.lack_name(id, origin.parent, &origin.name, key)
            }
            _ => Ok(()),
        }
    }

    /// The node, stamped as changed now.
    fn changing(&mut self, id: NodeId, time: Timestamp) -> Result<&mut Node, Inconsistent> {
        let operations = self.operations;
        let node = self.saved(id)?;
        node.changed = Some(time);
        node.since.get_or_insert(operations);
        Ok(node)
    }

    fn rebind(
        &mut self,
        directory: NodeId,
        name: &OsStr,
        target: Option<NodeId>,
        lower: Option<Identity>,
        time: Timestamp,
    ) -> Result<(), Inconsistent> {
        let parent = self
            .nodes
            .get(&directory)
            .ok_or(Inconsistent::Node(directory))?;
        let (occupant, lower) = match parent.entries.get(name) {
            Some(binding) => (binding.target, binding.lower()),
            None => (lower.and_then(|lower| self.adopted(lower.key())), lower),
        };
        let was_directory = match (parent.entries.get(name), occupant) {
            (_, Some(occupant)) => self.kind(occupant)? == FileKind::Directory,
            (Some(_), None) => false,
            (None, None) => lower.is_some_and(|lower| lower.kind == FileKind::Directory),
        };
        let is_directory = match target {
            Some(target) => self.kind(target)? == FileKind::Directory,
            None => false,
        };
        let counted = |names, parent| Together {
            names,
            parent,
            changed: Some(time),
            ..Together::default()
        };
        if let Some(occupant) = occupant {
            self.change_together(self.by, occupant, &counted(-1, None))?;
        }
        if let Some(target) = target {
            self.change_together(self.by, target, &counted(1, Some(directory)))?;
        }
        let since = self.operations;
        self.save_entry(directory, name)?;
        let subdirectories = i64::from(is_directory) - i64::from(was_directory);
        self.change_together(self.by, directory, &renamed(subdirectories, time))?;
        let parent = self.nodes.get_mut(&directory);
        let parent = parent.ok_or(Inconsistent::Node(directory))?;
        parent.set_entry(name, target, lower, since);
        Ok(())
    }

    fn kind(&self, id: NodeId) -> Result<FileKind, Inconsistent> {
        Ok(self.nodes.get(&id).ok_or(Inconsistent::Node(id))?.kind)
    }
}
