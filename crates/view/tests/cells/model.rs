//! A tree in memory, the changes of many marks, and what of them depends on what.
//!
//! What remains is always the tree that the remaining changes make, one after the other. So the model knows nothing of
//! layers.

use std::collections::{BTreeMap, BTreeSet};

/// An inode by the number of the change that made it; below [`FIRST`] those that were there.
pub type Ino = usize;

/// The root.
pub const ROOT: Ino = 0;

/// The number of the first change.
pub const FIRST: usize = 10;

/// A change, on inodes, so that it can be made again whatever their names are.
#[derive(Debug, Clone)]
pub enum Change {
    /// A file or a directory.
    Make(Ino, String, bool),
    Write(Ino, Vec<u8>),
    Chmod(Ino, u16),
    /// Of anything; a directory is empty.
    Remove(Ino, String),
    Rename((Ino, String), (Ino, String)),
    Link(Ino, (Ino, String)),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inode {
    pub is_directory: bool,
    pub mode: u16,
    pub data: Vec<u8>,
    pub entries: BTreeMap<String, Ino>,
    /// The change that last gave or took a name in it.
    pub modified: Option<usize>,
}

pub type Tree = BTreeMap<Ino, Inode>;

/// What a change reads and writes.
#[derive(Debug, Clone, Default)]
pub struct Cells {
    pub reads: BTreeSet<(Ino, String)>,
    /// All names in it.
    pub listing: Option<Ino>,
    pub names: BTreeSet<(Ino, String)>,
    pub alone: BTreeSet<Ino>,
    pub together: BTreeSet<Ino>,
}

impl Cells {
    /// Whether this writes what a later change, with these cells, has seen, or must not be made below.
    pub fn is_seen_by(&self, later: &Self) -> bool {
        let reads = later.reads.iter().any(|name| self.names.contains(name));
        let lists = self.names.iter().any(|name| later.listing == Some(name.0));
        reads || lists || self.is_below(later)
    }

    /// Whether a later write lies on one of this.
    pub fn is_below(&self, later: &Self) -> bool {
        let mut alone = later.alone.iter();
        let mut together = later.together.iter();
        !self.names.is_disjoint(&later.names)
            || alone.any(|ino| self.alone.contains(ino) || self.together.contains(ino))
            || together.any(|ino| self.alone.contains(ino))
    }
}

/// Directories `x` and `y`, a file `a`, and another, `b`, that is `x/b`, too.
pub fn planted() -> Tree {
    let inode = |is_directory, data: &str, entries: &[(&str, Ino)]| Inode {
        is_directory,
        mode: if is_directory { 0o755 } else { 0o644 },
        data: data.into(),
        entries: entries
            .iter()
            .map(|(name, ino)| ((*name).to_owned(), *ino))
            .collect(),
        modified: None,
    };
    BTreeMap::from([
        (
            ROOT,
            inode(true, "", &[("x", 1), ("y", 2), ("a", 3), ("b", 4)]),
        ),
        (1, inode(true, "", &[("b", 4)])),
        (2, inode(true, "", &[])),
        (3, inode(false, "first", &[])),
        (4, inode(false, "second", &[])),
    ])
}

/// The cells of a change; `None` where it cannot be made.
pub fn cells(tree: &Tree, number: usize, change: &Change) -> Option<Cells> {
    let mut cells = Cells::default();
    let at = |directory: Ino, name: &str| tree[&directory].entries.get(name).copied();
    let named = |cells: &mut Cells, directory: Ino, name: &str| {
        cells.names.insert((directory, name.to_owned()));
        cells.together.insert(directory);
    };
    match change {
        Change::Make(directory, name, _) => {
            named(&mut cells, *directory, name);
            cells.alone.insert(number);
            at(*directory, name).is_none()
        }
        Change::Write(ino, _) => {
            cells.alone.insert(*ino);
            !tree[ino].is_directory
        }
        Change::Chmod(ino, _) => {
            cells.alone.insert(*ino);
            true
        }
        Change::Remove(directory, name) => {
            let there = at(*directory, name)?;
            named(&mut cells, *directory, name);
            cells.together.insert(there);
            cells.listing = Some(there);
            tree[&there].entries.is_empty()
        }
        Change::Link(ino, (directory, name)) => {
            named(&mut cells, *directory, name);
            cells.together.insert(*ino);
            at(*directory, name).is_none() && !tree[ino].is_directory
        }
        Change::Rename(from, to) => {
            let there = at(from.0, &from.1)?;
            let replaced = at(to.0, &to.1);
            named(&mut cells, from.0, &from.1);
            named(&mut cells, to.0, &to.1);
            cells.together.insert(there);
            cells.together.extend(replaced);
            cells.listing = replaced;
            let fits = replaced.is_none_or(|replaced| {
                replaced != there
                    && tree[&replaced].is_directory == tree[&there].is_directory
                    && tree[&replaced].entries.is_empty()
            });
            fits && !is_below(tree, there, to.0)
        }
    }
    .then_some(cells)
}

/// Whether a directory is another, or somewhere in it.
fn is_below(tree: &Tree, above: Ino, below: Ino) -> bool {
    let mut entries = tree[&above].entries.values();
    above == below || entries.any(|&ino| is_below(tree, ino, below))
}

pub fn apply(tree: &mut Tree, number: usize, change: &Change) {
    let name = |tree: &mut Tree, directory: Ino, name: &str, ino: Option<Ino>| {
        let directory = tree.get_mut(&directory).unwrap();
        directory.modified = Some(number);
        match ino {
            Some(ino) => directory.entries.insert(name.to_owned(), ino),
            None => directory.entries.remove(name),
        }
    };
    match change {
        Change::Make(directory, new, is_directory) => {
            name(tree, *directory, new, Some(number));
            tree.insert(
                number,
                Inode {
                    is_directory: *is_directory,
                    mode: 0o700,
                    data: Vec::new(),
                    entries: BTreeMap::new(),
                    modified: Some(number),
                },
            );
        }
        Change::Write(ino, bytes) => {
            let data = &mut tree.get_mut(ino).unwrap().data;
            data.resize(data.len().max(bytes.len()), 0);
            data[..bytes.len()].copy_from_slice(bytes);
        }
        Change::Chmod(ino, mode) => tree.get_mut(ino).unwrap().mode = *mode,
        Change::Remove(directory, old) => _ = name(tree, *directory, old, None),
        Change::Link(ino, (directory, new)) => _ = name(tree, *directory, new, Some(*ino)),
        Change::Rename(from, to) => {
            let ino = name(tree, from.0, &from.1, None);
            name(tree, to.0, &to.1, ino);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// By this mark.
    Undecided(usize),
    Decided,
    Undone,
}

#[derive(Debug, Clone)]
pub struct Made {
    pub change: Change,
    pub cells: Cells,
    pub fate: Fate,
}

/// All changes so far.
#[derive(Debug, Default)]
pub struct History(pub Vec<Made>);

impl History {
    /// The tree that those changes make that are told.
    pub fn tree(&self, stays: impl Fn(Fate) -> bool) -> Tree {
        let mut tree = planted();
        for (number, made) in self.0.iter().enumerate() {
            if stays(made.fate) {
                apply(&mut tree, FIRST + number, &made.change);
            }
        }
        tree
    }

    /// The marks that have seen what a mark did, and so on; or, turned, those whose changes a mark has seen.
    /// `process` says whose a mark is: its later ones rest on its earlier ones.
    pub fn closure(
        &self,
        mark: usize,
        marks: &[usize],
        process: impl Fn(usize) -> usize,
        is_turned: bool,
    ) -> BTreeSet<usize> {
        let rests = |on: usize, later: usize| {
            if process(on) == process(later) && on < later {
                return true;
            }
            let of = |mark| {
                let made = self.0.iter().enumerate();
                made.filter(move |(_, made)| made.fate == Fate::Undecided(mark))
            };
            of(on).any(|(first, one)| {
                of(later)
                    .any(|(second, other)| first < second && one.cells.is_seen_by(&other.cells))
            })
        };
        let mut found = BTreeSet::from([mark]);
        loop {
            let more = marks.iter().copied().filter(|&other| {
                let mut found = found.iter();
                found.any(|&one| match is_turned {
                    true => rests(other, one),
                    false => rests(one, other),
                })
            });
            let more: BTreeSet<usize> = more.filter(|other| !found.contains(other)).collect();
            if more.is_empty() {
                return found;
            }
            found.extend(more);
        }
    }
}
