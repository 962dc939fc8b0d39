//! Where nodes are: in the view, and really.
//!
//! A [`Map`] says of each directory which names changed. This index turns that around: which names
//! lead to a node, which real names an inode loses, and which gained name each lost one pairs with.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use surmise_view::{Binding, FileKind, Identity, InodeKey, Map, Node, NodeId};

use crate::settled::Settled;

/// One changed name of one directory.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'m> {
    /// The directory.
    pub directory: NodeId,
    /// The name.
    pub name: &'m OsStr,
    /// What the domain made of it.
    pub binding: &'m Binding,
    /// What it really leads to.
    pub lower: Option<Identity>,
}

/// A name in a directory, as a key.
pub type Name<'m> = (NodeId, &'m OsStr);

/// The names that lead to the nodes of a map, and those that led to them.
pub struct Names<'m> {
    map: &'m Map,
    settled: Option<&'m Settled>,
    /// The bindings that lead to a node, whether or not the real name leads to it as well.
    bound: HashMap<NodeId, Vec<Entry<'m>>>,
    /// Real names that no longer lead to the inode that they really lead to.
    lost: HashMap<InodeKey, Vec<Entry<'m>>>,
    moved_from: HashMap<Name<'m>, Entry<'m>>,
    moved_to: HashMap<Name<'m>, Entry<'m>>,
    live: RefCell<HashMap<NodeId, bool>>,
    paths: RefCell<HashMap<NodeId, Option<PathBuf>>>,
}

impl<'m> Names<'m> {
    /// Those of a map.
    pub fn of(map: &'m Map) -> Self {
        Self::settled(map, None)
    }

    /// The same without what was settled to be left out.
    pub fn settled(map: &'m Map, settled: Option<&'m Settled>) -> Self {
        let mut names = Self {
            map,
            settled,
            bound: HashMap::new(),
            lost: HashMap::new(),
            moved_from: HashMap::new(),
            moved_to: HashMap::new(),
            live: RefCell::default(),
            paths: RefCell::default(),
        };
        for (directory, node) in map.nodes() {
            for entry in names.entries(directory, node).collect::<Vec<_>>() {
                names.add(entry);
            }
        }
        names.pair();
        names
    }

    /// Every name that leads elsewhere than it really does, oldest change first.
    pub fn changed(&self) -> Vec<Entry<'m>> {
        let directories = self.map.nodes();
        let directories = directories.filter(|(_, node)| node.kind == FileKind::Directory);
        let mut changed: Vec<_> = directories
            .flat_map(|(directory, node)| self.entries(directory, node))
            .filter(|entry| self.is_changed(entry))
            .collect();
        changed.sort_by_key(|entry| (entry.binding.since, entry.directory, entry.name));
        changed
    }

    /// A name that leads elsewhere than it really does.
    pub fn changed_entry(&self, directory: NodeId, name: &OsStr) -> Option<Entry<'m>> {
        let node = self.map.node(directory)?;
        let mut entries = self.entries(directory, node);
        entries.find(|entry| entry.name == name && self.is_changed(entry))
    }

    fn entries(&self, directory: NodeId, node: &'m Node) -> impl Iterator<Item = Entry<'m>> {
        let settled = self.settled;
        node.entries.iter().filter_map(move |(name, binding)| {
            let first = binding.lower();
            let lower = match settled {
                Some(settled) if settled.leaves_out(directory, name) => return None,
                Some(settled) => settled.lower(directory, name, first),
                None => first,
            };
            Some(Entry {
                directory,
                name,
                binding,
                lower,
            })
        })
    }

    /// Where the inode behind this gained name comes from, when it lost a name for it.
    pub fn moved_from(&self, gained: &Entry<'m>) -> Option<Entry<'m>> {
        self.moved_from
            .get(&(gained.directory, gained.name))
            .copied()
    }

    /// Where the inode behind this lost name goes, when it gained a name for it.
    pub fn moved_to(&self, lost: &Entry<'m>) -> Option<Entry<'m>> {
        self.moved_to.get(&(lost.directory, lost.name)).copied()
    }

    /// The bindings that lead to a node.
    pub fn bound(&self, node: NodeId) -> &[Entry<'m>] {
        self.bound.get(&node).map_or(&[], Vec::as_slice)
    }

    /// The names that an inode loses.
    pub fn lost(&self, key: InodeKey) -> &[Entry<'m>] {
        self.lost.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Whether the name under which an adopted node was found still leads to it.
    pub fn keeps_origin(&self, id: NodeId) -> bool {
        let Some((parent, name)) = self.origin(id) else {
            return false;
        };
        let is_left_out = |settled: &Settled| settled.leaves_out(parent, name);
        if self.settled.is_some_and(is_left_out) {
            return true;
        }
        let binding = self
            .map
            .node(parent)
            .and_then(|parent| parent.entries.get(name));
        binding.is_none_or(|binding| binding.target == Some(id))
    }

    /// The place in which an adopted node was found.
    pub fn origin(&self, id: NodeId) -> Option<Name<'m>> {
        let origin = self.map.node(id)?.origin.as_ref()?;
        Some((origin.parent, &*origin.name))
    }

    /// The name that leads to a directory in the view; `None` for the root and for removed ones.
    pub fn place(&self, directory: NodeId) -> Option<Name<'m>> {
        if directory == NodeId::ROOT {
            return None;
        }
        if let Some(entry) = self.bound(directory).last() {
            return Some((entry.directory, entry.name));
        }
        if self.keeps_origin(directory) {
            return self.origin(directory);
        }
        None
    }

    /// Whether a directory is still in the view.
    pub fn is_live(&self, directory: NodeId) -> bool {
        let mut walked = Vec::new();
        let mut at = directory;
        let live = loop {
            if at == NodeId::ROOT {
                break true;
            }
            if let Some(known) = self.live.borrow().get(&at) {
                break *known;
            }
            walked.push(at);
            match self.place(at) {
                // A log that closes a loop of directories is not one that a view wrote.
                Some((parent, _)) if !walked.contains(&parent) => at = parent,
                _ => break false,
            }
        };
        let mut known = self.live.borrow_mut();
        known.extend(walked.into_iter().map(|id| (id, live)));
        live
    }

    /// Whether an adopted inode still has a name, known or not.
    pub fn is_reachable(&self, id: NodeId, node: &Node) -> bool {
        match node.kind {
            FileKind::Directory => self.is_live(id),
            _ => node
                .origin
                .as_ref()
                .is_some_and(|origin| i64::from(origin.links) + node.names > 0),
        }
    }

    /// The path of a directory: in the view, or for a removed one where it was. `None` for removed
    /// directories that never were outside.
    pub fn path(&self, directory: NodeId) -> Option<PathBuf> {
        let mut walked: Vec<(NodeId, &OsStr)> = Vec::new();
        let mut at = directory;
        let mut path = loop {
            if at == NodeId::ROOT {
                break Some(PathBuf::from("/"));
            }
            if let Some(known) = self.paths.borrow().get(&at) {
                break known.clone();
            }
            match self.place(at).or_else(|| self.origin(at)) {
                Some((parent, name)) if walked.iter().all(|(id, _)| *id != parent) => {
                    walked.push((at, name));
                    at = parent;
                }
                _ => break None,
            }
        };
        let mut known = self.paths.borrow_mut();
        for (id, name) in walked.into_iter().rev() {
            path = path.map(|path| path.join(name));
            known.insert(id, path.clone());
        }
        path
    }

    /// The path of a name in a directory, by the same rule.
    pub fn path_of(&self, (directory, name): Name<'_>) -> Option<PathBuf> {
        self.path(directory).map(|path| path.join(name))
    }

    /// The real path of an adopted directory.
    pub fn real_path(&self, directory: NodeId) -> Option<PathBuf> {
        let mut names = Vec::new();
        let mut at = directory;
        while at != NodeId::ROOT {
            let (parent, name) = self.origin(at)?;
            names.push(name);
            at = parent;
        }
        let mut path = PathBuf::from("/");
        path.extend(names.into_iter().rev());
        Some(path)
    }

    /// The map of which these are the names.
    pub fn map(&self) -> &'m Map {
        self.map
    }

    fn add(&mut self, entry: Entry<'m>) {
        if let Some(target) = entry.binding.target {
            let bound = self.bound.entry(target).or_insert_with(one);
            bound.push(entry);
        }
        if let (Some(lower), true) = (entry.lower, self.is_changed(&entry)) {
            let lost = self.lost.entry(lower.key()).or_insert_with(one);
            lost.push(entry);
        }
    }

    /// Pairs lost and gained names of one inode, oldest with oldest, as moves.
    fn pair(&mut self) {
        let oldest_first =
            |entry: &Entry<'m>| (entry.binding.since, entry.directory, entry.name.to_owned());
        for entries in self.bound.values_mut().chain(self.lost.values_mut()) {
            entries.sort_by_cached_key(oldest_first);
        }
        for (key, lost) in &self.lost {
            let Some(node) = self.map.adopted(*key) else {
                continue;
            };
            let gained = self.bound.get(&node).into_iter().flatten();
            let gained = gained.filter(|entry| is_changed(self.map, entry));
            for (lost, gained) in lost.iter().zip(gained) {
                self.moved_from
                    .insert((gained.directory, gained.name), *lost);
                self.moved_to.insert((lost.directory, lost.name), *gained);
            }
        }
    }

    fn is_changed(&self, entry: &Entry<'m>) -> bool {
        is_changed(self.map, entry)
    }
}

/// Room for one: nearly every inode has one name, and a vector begins with room for four.
fn one<T>() -> Vec<T> {
    Vec::with_capacity(1)
}

/// Whether a name leads elsewhere than it really does.
fn is_changed(map: &Map, entry: &Entry<'_>) -> bool {
    match (entry.binding.target, entry.lower) {
        (None, None) => false,
        (Some(target), Some(lower)) => {
            let origin = map
                .node(target)
                .and_then(|node: &Node| node.origin.as_ref());
            origin.is_none_or(|origin| origin.identity.key() != lower.key())
        }
        _ => true,
    }
}

/// The depth of a path: 0 for the root.
pub fn depth(path: &Path) -> usize {
    path.components().count().saturating_sub(1)
}
