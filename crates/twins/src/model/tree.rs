//! A tree of files and directories, and what somebody does to it.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;

use surmise_view::{FileKind, Identity, Timestamp};

/// The root's inode number.
pub const ROOT: u64 = 1;

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
pub struct Tree {
    inodes: BTreeMap<u64, Inode>,
    next: u64,
}

/// Every path with what it leads to.
pub type Shape = BTreeMap<String, Shown>;

/// Kind, permissions, and the number of a real inode, or the first path of one that somebody made.
pub type Shown = (FileKind, u16, String);

/// What somebody does to a tree. Paths are relative to the root.
#[derive(Debug, Clone)]
pub enum Act {
    /// Makes a file or directory.
    Create(String, FileKind),
    /// Removes a file, or a directory that is empty.
    Remove(String),
    /// Moves the first to the second, which may be a file.
    Rename(String, String),
    /// Gives the first a second name.
    Link(String, String),
    /// Sets permission bits.
    Chmod(String, u16),
}

/// A name in a directory, by the directory's inode.
pub type Spot = (u64, OsString);

impl Tree {
    /// Files, directories, and one file with two names.
    pub fn planted() -> Self {
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
    fn outside(&self) -> Self {
        let mut outside = self.clone();
        outside.next = FOREIGN;
        outside
    }

    /// What is outside after somebody did all of `acts` that they could.
    pub fn changed_by(&self, acts: &[Act]) -> Self {
        let mut outside = self.outside();
        for act in acts {
            outside.act(act);
        }
        outside
    }

    /// The tree as a domain, or its commit, finds it.
    pub fn inside(&self) -> Self {
        let mut inside = self.clone();
        inside.next = MADE;
        inside
    }

    /// Does it, where a kernel would; whether it did.
    pub fn act(&mut self, act: &Act) -> bool {
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
    pub fn make(&mut self, kind: FileKind) -> u64 {
        let made = self.next;
        self.next += 1;
        self.inodes.insert(made, Inode::new(kind));
        made
    }

    /// What a name leads to.
    pub fn at(&self, (directory, name): &Spot) -> Option<u64> {
        self.inodes.get(directory)?.names.get(name).copied()
    }

    /// Lets a name lead to an inode.
    ///
    /// # Panics
    /// When the directory is none.
    pub fn bind(&mut self, (directory, name): &Spot, inode: u64) {
        let directory = self.inodes.get_mut(directory).expect("a directory");
        directory.names.insert(name.clone(), inode);
    }

    /// Lets a name lead nowhere; what it led to.
    pub fn unbind(&mut self, (directory, name): &Spot) -> Option<u64> {
        self.inodes.get_mut(directory)?.names.remove(name)
    }

    /// The names in a directory.
    pub fn names(&self, directory: u64) -> impl Iterator<Item = (&OsString, u64)> {
        let names = self.inodes[&directory].names.iter();
        names.map(|(name, inode)| (name, *inode))
    }

    /// Sets permission bits.
    ///
    /// # Panics
    /// When there is no such inode.
    pub fn set_permissions(&mut self, inode: u64, permissions: u16) {
        self.change(inode).permissions = permissions;
    }

    /// Moves an inode's change time on, as every change of its names does, too.
    fn change(&mut self, inode: u64) -> &mut Inode {
        let inode = self.inodes.get_mut(&inode).expect("an inode");
        inode.version += 1;
        inode
    }

    /// Permission bits.
    pub fn permissions(&self, inode: u64) -> u16 {
        self.inodes[&inode].permissions
    }

    /// Which inode it is, and in which state.
    pub fn identity(&self, inode: u64) -> Identity {
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

    /// All of it.
    pub fn shape(&self) -> Shape {
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

    pub(crate) fn links(&self, inode: u64) -> u32 {
        let names = self.inodes.values().flat_map(|found| found.names.values());
        u32::try_from(names.filter(|found| **found == inode).count()).unwrap()
    }

    pub(crate) fn spot(&self, path: &str) -> Option<Spot> {
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

    pub(crate) fn taken(&self, path: &str) -> Option<(Spot, u64)> {
        let spot = self.spot(path)?;
        let inode = self.at(&spot)?;
        Some((spot, inode))
    }

    /// Whether a directory is `above`, or below it.
    pub fn is_below(&self, directory: u64, above: u64) -> bool {
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
