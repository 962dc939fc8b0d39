//! A tree in memory, and a domain that changes what it sees of it: for tests of decisions, which need no disk.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};

use proptest::prelude::*;
use surmise_view::{FileKind, Identity, Map, NodeId, Operation, Record, Timestamp};

/// The root's inode number.
pub(crate) const ROOT: u64 = 1;

/// Inodes that the domain makes have numbers from here on, in what it sees.
const MADE: u64 = 1000;

/// And those that somebody makes outside, from here on.
const FOREIGN: u64 = 500;

/// One inode.
#[derive(Debug, Clone, PartialEq)]
struct Inode {
    kind: FileKind,
    permissions: u16,
    version: i64,
    /// What it holds, for directories.
    names: BTreeMap<OsString, u64>,
}

/// A tree of files and directories.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tree {
    inodes: BTreeMap<u64, Inode>,
    next: u64,
}

/// Every path with what it leads to.
pub(crate) type Shape = BTreeMap<String, Shown>;

/// Kind, permissions, and the number of a real inode, or the first path of one that somebody made.
pub(crate) type Shown = (FileKind, u16, String);

/// What somebody does to a tree. Paths are relative to the root.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Create(String, FileKind),
    Remove(String),
    Rename(String, String),
    Link(String, String),
    Chmod(String, u16),
}

/// A name in a directory, by the directory's inode.
pub(crate) type Spot = (u64, OsString);

impl Tree {
    /// Files, directories, and one file with two names.
    pub(crate) fn planted() -> Self {
        let mut tree = Self {
            inodes: BTreeMap::from([(ROOT, Inode::new(FileKind::Directory))]),
            next: ROOT + 1,
        };
        for path in ["c", "d", "c/c", "c/d"] {
            assert!(tree.act(&Act::Create(path.into(), FileKind::Directory)));
        }
        for path in ["a", "b", "c/a", "c/b", "c/c/a", "d/a"] {
            assert!(tree.act(&Act::Create(path.into(), FileKind::Regular)));
        }
        assert!(tree.act(&Act::Link("a".into(), "d/b".into())));
        tree
    }

    /// The tree as somebody outside finds it who makes things there.
    pub(crate) fn outside(&self) -> Self {
        let mut outside = self.clone();
        outside.next = FOREIGN;
        outside
    }

    /// The tree as a domain, or its commit, finds it.
    pub(crate) fn inside(&self) -> Self {
        let mut inside = self.clone();
        inside.next = MADE;
        inside
    }

    /// Does it, where a kernel would; whether it did.
    pub(crate) fn act(&mut self, act: &Act) -> bool {
        match act {
            Act::Create(path, kind) => {
                let Some(spot) = self.free(path) else {
                    return false;
                };
                let made = self.make(*kind);
                self.bind(&spot, made);
            }
            Act::Remove(path) => {
                let Some((spot, inode)) = self.taken(path) else {
                    return false;
                };
                if !self.inodes[&inode].names.is_empty() {
                    return false;
                }
                self.unbind(&spot);
                self.change(inode);
            }
            Act::Rename(from, to) => return self.rename(from, to),
            Act::Link(from, to) => {
                let (Some((_, inode)), Some(spot)) = (self.taken(from), self.free(to)) else {
                    return false;
                };
                if self.kind(inode) == FileKind::Directory {
                    return false;
                }
                self.bind(&spot, inode);
                self.change(inode);
            }
            Act::Chmod(path, permissions) => {
                let Some((_, inode)) = self.taken(path) else {
                    return false;
                };
                self.set_permissions(inode, *permissions);
            }
        }
        true
    }

    fn rename(&mut self, from: &str, to: &str) -> bool {
        let (Some((old, inode)), Some(new)) = (self.taken(from), self.spot(to)) else {
            return false;
        };
        let is_directory = self.kind(inode) == FileKind::Directory;
        let fits = match self.at(&new) {
            None => true,
            Some(there) => {
                !is_directory && there != inode && self.kind(there) != FileKind::Directory
            }
        };
        if !fits || is_directory && self.is_below(new.0, inode) {
            return false;
        }
        self.unbind(&old);
        if let Some(replaced) = self.at(&new) {
            self.change(replaced);
        }
        self.bind(&new, inode);
        self.change(inode);
        true
    }

    /// A new inode without a name.
    pub(crate) fn make(&mut self, kind: FileKind) -> u64 {
        let made = self.next;
        self.next += 1;
        self.inodes.insert(made, Inode::new(kind));
        made
    }

    pub(crate) fn at(&self, (directory, name): &Spot) -> Option<u64> {
        self.inodes.get(directory)?.names.get(name).copied()
    }

    pub(crate) fn bind(&mut self, (directory, name): &Spot, inode: u64) {
        let directory = self.inodes.get_mut(directory).expect("a directory");
        directory.names.insert(name.clone(), inode);
    }

    pub(crate) fn unbind(&mut self, (directory, name): &Spot) -> Option<u64> {
        self.inodes.get_mut(directory)?.names.remove(name)
    }

    /// The names in a directory.
    pub(crate) fn names(&self, directory: u64) -> impl Iterator<Item = (&OsString, u64)> {
        let names = self.inodes[&directory].names.iter();
        names.map(|(name, inode)| (name, *inode))
    }

    pub(crate) fn set_permissions(&mut self, inode: u64, permissions: u16) {
        self.change(inode).permissions = permissions;
    }

    /// Moves an inode's change time on, as every change of its names does, too.
    fn change(&mut self, inode: u64) -> &mut Inode {
        let inode = self.inodes.get_mut(&inode).expect("an inode");
        inode.version += 1;
        inode
    }

    pub(crate) fn identity(&self, inode: u64) -> Identity {
        let found = &self.inodes[&inode];
        let changed = Timestamp {
            seconds: found.version,
            nanoseconds: 0,
        };
        Identity {
            device: 1,
            inode,
            kind: found.kind,
            size: 0,
            modified: Timestamp::default(),
            changed,
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        let mut first = HashMap::new();
        let mut shape = BTreeMap::new();
        self.add_shape(ROOT, "", &mut first, &mut shape);
        shape
    }

    fn add_shape(
        &self,
        directory: u64,
        path: &str,
        first: &mut HashMap<u64, String>,
        shape: &mut Shape,
    ) {
        for (name, inode) in self.names(directory) {
            let path = format!("{path}/{}", name.display());
            let found = &self.inodes[&inode];
            let which = match inode < MADE {
                true => inode.to_string(),
                false => first.entry(inode).or_insert_with(|| path.clone()).clone(),
            };
            shape.insert(path.clone(), (found.kind, found.permissions, which));
            self.add_shape(inode, &path, first, shape);
        }
    }

    fn kind(&self, inode: u64) -> FileKind {
        self.inodes[&inode].kind
    }

    fn links(&self, inode: u64) -> u32 {
        let names = self.inodes.values().flat_map(|found| found.names.values());
        u32::try_from(names.filter(|found| **found == inode).count()).unwrap()
    }

    fn spot(&self, path: &str) -> Option<Spot> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parts = parent.split('/').filter(|part| !part.is_empty());
        let directory = parts
            .into_iter()
            .try_fold(ROOT, |directory, part| self.at(&(directory, part.into())))?;
        (self.kind(directory) == FileKind::Directory).then(|| (directory, name.into()))
    }

    fn free(&self, path: &str) -> Option<Spot> {
        self.spot(path).filter(|spot| self.at(spot).is_none())
    }

    fn taken(&self, path: &str) -> Option<(Spot, u64)> {
        let spot = self.spot(path)?;
        let inode = self.at(&spot)?;
        Some((spot, inode))
    }

    /// Whether a directory is `above`, or below it.
    pub(crate) fn is_below(&self, directory: u64, above: u64) -> bool {
        directory == above
            || self
                .names(above)
                .any(|(_, inode)| self.is_below(directory, inode))
    }
}

impl Inode {
    fn new(kind: FileKind) -> Self {
        Self {
            kind,
            permissions: 0o644,
            version: 0,
            names: BTreeMap::new(),
        }
    }
}

/// A domain over a tree: what it sees, and the map that its view would have.
pub(crate) struct Domain {
    real: Tree,
    pub(crate) seen: Tree,
    pub(crate) map: Map,
    nodes: HashMap<u64, NodeId>,
}

impl Domain {
    /// One that did all of `acts` that it could.
    pub(crate) fn after(real: &Tree, acts: &[Act]) -> Self {
        let mut domain = Self {
            real: real.clone(),
            seen: real.inside(),
            map: Map::default(),
            nodes: HashMap::new(),
        };
        let root = domain.adopt(ROOT, ROOT, OsStr::new(""));
        domain.note(vec![root]);
        acts.iter().for_each(|act| domain.act(act));
        domain
    }

    fn act(&mut self, act: &Act) {
        let before = self.seen.clone();
        if !self.seen.act(act) {
            return;
        }
        let mut records = Vec::new();
        match act {
            Act::Create(path, kind) => {
                let spot = before.spot(path).expect("it was found");
                let made = self.seen.at(&spot).expect("it was made");
                let directory = self.node(&before, path, false, &mut records);
                records.push(self.create(made, *kind));
                records.push(self.bound(directory, &spot, self.nodes[&made]));
            }
            Act::Remove(path) => self.unbind(&before, path, &mut records),
            Act::Rename(from, to) => {
                let (_, inode) = before.taken(from).expect("it was found");
                self.unbind(&before, from, &mut records);
                let spot = before.spot(to).expect("it was found");
                if before.at(&spot).is_some() {
                    self.node(&before, to, true, &mut records);
                }
                let directory = self.node(&before, to, false, &mut records);
                records.push(self.bound(directory, &spot, self.nodes[&inode]));
            }
            Act::Link(from, to) => {
                let target = self.node(&before, from, true, &mut records);
                let directory = self.node(&before, to, false, &mut records);
                let spot = before.spot(to).expect("it was found");
                records.push(self.bound(directory, &spot, target));
            }
            Act::Chmod(path, permissions) => {
                let node = self.node(&before, path, true, &mut records);
                records.push(Record::Permissions {
                    node,
                    permissions: *permissions,
                });
            }
        }
        self.note(records);
    }

    fn note(&mut self, records: Vec<Record>) {
        let operation = Operation {
            time: Timestamp::default(),
            records,
        };
        self.map.apply(&operation).expect("a view's records");
        self.map.prune();
    }

    /// The node behind a path, or behind its directory; what is on the way takes part from now on.
    fn node(
        &mut self,
        tree: &Tree,
        path: &str,
        is_whole: bool,
        records: &mut Vec<Record>,
    ) -> NodeId {
        let parts: Vec<&str> = path.split('/').collect();
        let parts = &parts[..parts.len() - usize::from(!is_whole)];
        let mut at = ROOT;
        for part in parts {
            let next = tree.at(&(at, part.into())).expect("it was found");
            if !self.nodes.contains_key(&next) {
                // Nothing is changed of what takes no part yet, so this is its real place.
                records.push(self.adopt(next, at, part.as_ref()));
            }
            at = next;
        }
        self.nodes[&at]
    }

    fn adopt(&mut self, inode: u64, parent: u64, name: &OsStr) -> Record {
        let node = self.number(inode);
        Record::Adopt {
            node,
            parent: self.nodes[&parent],
            name: name.to_owned(),
            identity: self.real.identity(inode),
            links: self.real.links(inode),
            permissions: self.real.inodes[&inode].permissions,
            uid: 0,
            gid: 0,
            special: 0,
        }
    }

    fn create(&mut self, inode: u64, kind: FileKind) -> Record {
        Record::Create {
            node: self.number(inode),
            device: 1,
            kind,
            permissions: 0o644,
            uid: 0,
            gid: 0,
            special: 0,
            object: None,
            target: OsString::new(),
        }
    }

    fn number(&mut self, inode: u64) -> NodeId {
        let next = NodeId(NodeId::ROOT.0 + self.nodes.len() as u64);
        *self.nodes.entry(inode).or_insert(next)
    }

    fn unbind(&mut self, before: &Tree, path: &str, records: &mut Vec<Record>) {
        let spot = before.spot(path).expect("it was found");
        self.node(before, path, true, records);
        let directory = self.node(before, path, false, records);
        records.push(Record::Unbind {
            directory,
            name: spot.1.clone(),
            lower: self.lower(&spot),
        });
    }

    fn bound(&self, directory: NodeId, spot: &Spot, node: NodeId) -> Record {
        Record::Bind {
            directory,
            name: spot.1.clone(),
            node,
            lower: self.lower(spot),
        }
    }

    fn lower(&self, spot: &Spot) -> Option<Identity> {
        let inode = self.real.at(spot)?;
        Some(self.real.identity(inode))
    }
}

fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(&["a", "b", "c", "d"][..]);
    prop::collection::vec(name, 1..4).prop_map(|parts| parts.join("/"))
}

/// Any act, which may be one that cannot be done.
pub(crate) fn act() -> impl Strategy<Value = Act> {
    let kind = prop::sample::select(vec![FileKind::Regular, FileKind::Directory]);
    prop_oneof![
        2 => (path(), kind).prop_map(|(path, kind)| Act::Create(path, kind)),
        2 => path().prop_map(Act::Remove),
        4 => (path(), path()).prop_map(|(from, to)| Act::Rename(from, to)),
        1 => (path(), path()).prop_map(|(from, to)| Act::Link(from, to)),
        1 => (path(), 0..0o777u16).prop_map(|(path, permissions)| Act::Chmod(path, permissions)),
    ]
}
