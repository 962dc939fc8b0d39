//! What the kernel's FUSE client holds: which nodes it may still name, and where unchanged ones are.
//!
//! Nothing here outlives the view process; what must outlive it is in the map. A domain may look at hundreds of
//! thousands of files, so facts that few nodes have are kept beside the nodes.

use std::collections::HashMap;
use std::ffi::OsStr;

use surmise_lower::Hold;

use crate::map::Origin;
use crate::types::{Attributes, FileKind, Identity, InodeKey, NodeId, Version};

/// How many further names of one inode are remembered.
const ALIASES_MAX: usize = 8;

/// The real place of a node that the map has not adopted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) parent: NodeId,
    pub(crate) name: Box<OsStr>,
    pub(crate) key: InodeKey,
    pub(crate) kind: FileKind,
}

/// The real place of a node, as the holder of the node has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlaceRef<'k> {
    pub(crate) parent: NodeId,
    pub(crate) name: &'k OsStr,
    pub(crate) key: InodeKey,
    pub(crate) kind: FileKind,
}

impl<'k> From<&'k Place> for PlaceRef<'k> {
    fn from(place: &'k Place) -> Self {
        Self {
            parent: place.parent,
            name: &place.name,
            key: place.key,
            kind: place.kind,
        }
    }
}

impl<'k> From<&'k Origin> for PlaceRef<'k> {
    fn from(origin: &'k Origin) -> Self {
        Self {
            parent: origin.parent,
            name: &origin.name,
            key: origin.identity.key(),
            kind: origin.identity.kind,
        }
    }
}

/// A node that the kernel knows.
#[derive(Debug, Default)]
pub(crate) struct KnownNode {
    /// For nodes that are not in the map.
    pub(crate) place: Option<Box<Place>>,
    /// Names that the domain removed, for nodes that are not in the map.
    pub(crate) lost_names: u32,
    /// How many open files there are of it, those that only a mapping keeps included.
    opens: u32,
    /// Whether there was one since the kernel came to know the node: without, it has none of its data.
    was_opened: bool,
    lookups: u64,
}

/// What is remembered of a real file that was opened.
#[derive(Debug)]
struct Use {
    /// Its state when the domain first opened it, for nodes that are not in the map: should it
    /// change outside before the domain changes it, that is a conflict.
    first: Version,
    cached: Cached,
}

/// The state of a real file at its last open: while it stays so, the kernel's cached pages are right.
#[derive(Debug, PartialEq, Eq)]
enum Cached {
    Nothing,
    First,
    Later(Box<Version>),
}

/// Further real names of an inode.
pub(crate) type Aliases = Vec<(NodeId, Box<OsStr>)>;

/// A real inode that is gone outside.
#[derive(Debug)]
pub(crate) struct Outlived {
    /// The number that it is still shown with.
    pub(crate) number: u64,
    /// Keeps the number from being given to another inode.
    pub(crate) _inode: Box<dyn Hold>,
}

/// The nodes that the kernel knows.
#[derive(Debug)]
pub(crate) struct Known {
    last: u64,
    nodes: HashMap<NodeId, KnownNode>,
    by_key: HashMap<InodeKey, NodeId>,
    uses: HashMap<NodeId, Use>,
    /// Further real names under which inodes with several links were seen.
    aliases: HashMap<NodeId, Aliases>,
    /// Real inodes that are gone outside and still held inside.
    outlived: HashMap<NodeId, Outlived>,
}

impl From<NodeId> for Known {
    /// Nothing is known yet, and this is the highest number that was used.
    fn from(last: NodeId) -> Self {
        Self {
            last: last.0,
            nodes: HashMap::new(),
            by_key: HashMap::new(),
            uses: HashMap::new(),
            aliases: HashMap::new(),
            outlived: HashMap::new(),
        }
    }
}

impl Known {
    /// A number that no node has had.
    pub(crate) fn next_node(&mut self) -> NodeId {
        self.last += 1;
        NodeId(self.last)
    }

    pub(crate) fn node(&self, id: NodeId) -> Option<&KnownNode> {
        self.nodes.get(&id)
    }

    fn node_mut(&mut self, id: NodeId) -> &mut KnownNode {
        self.nodes.entry(id).or_default()
    }

    /// The nodes that the kernel may name in its next request, and their places.
    pub(crate) fn held(&self) -> impl Iterator<Item = (NodeId, &KnownNode)> {
        let held = self.nodes.iter().filter(|(_, node)| node.lookups > 0);
        held.map(|(id, node)| (*id, node))
    }

    /// Whether the kernel may name the node in its next request.
    pub(crate) fn is_held(&self, id: NodeId) -> bool {
        id == NodeId::ROOT || self.node(id).is_some_and(|node| node.lookups > 0)
    }

    /// The symbolic links among them that are real ones.
    pub(crate) fn held_links(&self) -> Vec<NodeId> {
        let is_link = |place: &Place| place.kind == FileKind::Symlink;
        let links = self
            .held()
            .filter(|(_, node)| node.place.as_deref().is_some_and(is_link));
        links.map(|(id, _)| id).collect()
    }

    /// The unadopted node of a real inode.
    pub(crate) fn by_key(&self, key: InodeKey) -> Option<NodeId> {
        self.by_key.get(&key).copied()
    }

    /// Notes where an unadopted node is. The last place in which it was seen is the surest.
    pub(crate) fn place(&mut self, id: NodeId, place: Place) {
        self.by_key.insert(place.key, id);
        self.node_mut(id).place = Some(Box::new(place));
    }

    /// Notes one more real name of an inode with several links.
    pub(crate) fn add_alias(&mut self, id: NodeId, parent: NodeId, name: &OsStr) {
        let aliases = self.aliases.entry(id).or_default();
        let is_new = aliases
            .iter()
            .all(|alias| (alias.0, &*alias.1) != (parent, name));
        if is_new && aliases.len() < ALIASES_MAX {
            aliases.push((parent, name.into()));
        }
    }

    pub(crate) fn take_aliases(&mut self, id: NodeId) -> Option<(NodeId, Aliases)> {
        self.aliases.remove(&id).map(|aliases| (id, aliases))
    }

    /// Further real names of an inode.
    pub(crate) fn aliases(&self, id: NodeId) -> impl Iterator<Item = (NodeId, &OsStr)> {
        let aliases = self.aliases.get(&id).into_iter().flatten();
        aliases.map(|(parent, name)| (*parent, &**name))
    }

    /// The state in which the domain first used an unadopted real file.
    pub(crate) fn first_use(&self, id: NodeId) -> Option<Identity> {
        let place = self.node(id)?.place.as_ref()?;
        Some(self.uses.get(&id)?.first.of(place.key, place.kind))
    }

    /// Notes that a real file is used, in this state unless it was before.
    pub(crate) fn note_use(&mut self, id: NodeId, state: &Identity) {
        let first = Use {
            first: state.version(),
            cached: Cached::Nothing,
        };
        self.uses.entry(id).or_insert(first);
    }

    /// Whether a real file was in this state at its last open.
    pub(crate) fn is_as_at_last_open(&self, id: NodeId, state: &Identity) -> bool {
        self.uses.contains_key(&id) && !self.was_other(id, state)
    }

    /// Notes that a real file whose use is noted is opened in this state, and tells whether it was in
    /// the same at the last open.
    pub(crate) fn note_open(&mut self, id: NodeId, state: &Identity) -> bool {
        let Some(used) = self.uses.get_mut(&id) else {
            return false;
        };
        let state = state.version();
        let now = match used.first == state {
            true => Cached::First,
            false => Cached::Later(Box::new(state)),
        };
        std::mem::replace(&mut used.cached, now) == used.cached
    }

    /// Whether an inode is not as it was at first use, if that is remembered.
    pub(crate) fn is_not_as_at_first(&self, id: NodeId, now: &Attributes) -> bool {
        let first = self.uses.get(&id).map(|used| used.first);
        first.is_some_and(|first| first != now.identity.version())
    }

    /// Whether a real file was in another state than this when it was last looked at, if ever.
    pub(crate) fn was_other(&self, id: NodeId, now: &Identity) -> bool {
        let now = now.version();
        self.uses.get(&id).is_some_and(|used| match &used.cached {
            Cached::Nothing => true,
            Cached::First => used.first != now,
            Cached::Later(last) => **last != now,
        })
    }

    /// The domain has data of its own by now.
    pub(crate) fn forget_use(&mut self, id: NodeId) {
        self.uses.remove(&id);
    }

    pub(crate) fn open(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        node.opens += 1;
        node.was_opened = true;
    }

    pub(crate) fn close(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.opens = node.opens.saturating_sub(1);
        }
    }

    /// Whether the kernel may have data of the node.
    pub(crate) fn was_opened(&self, id: NodeId) -> bool {
        self.node(id).is_some_and(|node| node.was_opened)
    }

    /// Whether there are open files of the node.
    pub(crate) fn is_open(&self, id: NodeId) -> bool {
        self.node(id).is_some_and(|node| node.opens > 0)
    }

    /// The nodes of which there are open files.
    pub(crate) fn open_nodes(&self) -> impl Iterator<Item = NodeId> {
        let open = self.nodes.iter().filter(|(_, node)| node.opens > 0);
        open.map(|(id, _)| *id)
    }

    /// Drops all that is remembered of opens, and tells of which nodes it was.
    pub(crate) fn forget_uses(&mut self) -> impl Iterator<Item = NodeId> + use<> {
        std::mem::take(&mut self.uses).into_keys()
    }

    /// The map took the node over.
    pub(crate) fn adopted(&mut self, id: NodeId) {
        let place = self.nodes.get_mut(&id).and_then(|node| node.place.take());
        if let Some(place) = place {
            self.drop_key(id, place.key);
        }
    }

    /// The domain removed a name of a node that is not in the map.
    pub(crate) fn lose_name(&mut self, id: NodeId) {
        self.node_mut(id).lost_names += 1;
    }

    /// A removed name is there again. The kernel may not name the node any more.
    pub(crate) fn regain_name(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.lost_names = node.lost_names.saturating_sub(1);
        }
    }

    /// The real inode of the node is gone.
    pub(crate) fn outlived(&mut self, id: NodeId, inode: Outlived) {
        self.adopted(id);
        self.node_mut(id).lost_names = 0;
        self.uses.remove(&id);
        self.aliases.remove(&id);
        self.outlived.insert(id, inode);
    }

    /// The number to show of a node whose real inode is gone.
    pub(crate) fn number(&self, id: NodeId) -> Option<u64> {
        self.outlived.get(&id).map(|inode| inode.number)
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
        self.uses.remove(&id);
        self.aliases.remove(&id);
        self.outlived.remove(&id);
        if let Some(key) = key {
            self.drop_key(id, key);
        }
        true
    }

    /// The inode's number may have been given to another by now.
    fn drop_key(&mut self, id: NodeId, key: InodeKey) {
        if self.by_key.get(&key) == Some(&id) {
            self.by_key.remove(&key);
        }
    }
}
