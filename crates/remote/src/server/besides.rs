//! What a client is given that it has not asked for by name: objects that a program is likely to look at next, and
//! whose leases cost nobody anything.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::lease::{ClientId, Leases, Mode};
use crate::object::ObjectId;
use crate::tree::Tree;

/// How many objects a client is given at once at most.
const MOST: u32 = 10_000;

/// How many objects are looked at for an answer that a program waits for, and for one that none waits for.
const LOOKS_NEAR: usize = 4096;
const LOOKS_ALL: usize = 1 << 15;

/// Where they are looked for, and how many.
#[derive(Debug)]
pub(super) struct Besides {
    directories: Vec<ObjectId>,
    most: usize,
    /// Whether to go on behind the directories when all below them is there.
    goes_on: bool,
}

impl Besides {
    /// A few objects below these directories.
    pub(super) fn near(directories: Vec<ObjectId>, most: u32) -> Self {
        Self {
            directories,
            most: most.min(MOST) as usize,
            goes_on: false,
        }
    }

    /// All that is below a directory, and then what comes behind it where the names are in order, and then what is before it: a
    /// program that walks the tree gets there next.
    pub(super) fn all(directory: ObjectId, most: u32) -> Self {
        Self {
            goes_on: true,
            ..Self::near(vec![directory], most)
        }
    }

    pub(super) fn is_all(&self) -> bool {
        self.goes_on
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// The objects that the client lacks, those of small directories first, as far as the tree knows them. What is behind an object that is not
    /// loaded is found when that has been loaded.
    pub(super) fn find(&self, tree: &Tree, leases: &Leases, client: ClientId) -> Vec<ObjectId> {
        let mut search = Search {
            tree,
            found: Vec::new(),
            lacks: |object| leases.mode(client, object) < Some(Mode::Read),
            most: self.most,
            looks: if self.goes_on { LOOKS_ALL } else { LOOKS_NEAR },
        };
        search.below(&self.directories);
        if let ([directory], true) = (&self.directories[..], self.goes_on) {
            search.around(*directory);
        }
        search.found
    }
}

struct Search<'t, L> {
    tree: &'t Tree,
    found: Vec<ObjectId>,
    lacks: L,
    most: usize,
    looks: usize,
}

impl<L: Fn(ObjectId) -> bool> Search<'_, L> {
    fn is_over(&self) -> bool {
        self.found.len() >= self.most || self.looks == 0
    }

    /// Looks at an object.
    fn look(&mut self, object: ObjectId) {
        self.looks = self.looks.saturating_sub(1);
        if (self.lacks)(object) {
            self.found.push(object);
        }
    }

    /// Small directories before large ones: so it comes to most of them.
    fn below(&mut self, directories: &[ObjectId]) {
        let mut left = BinaryHeap::new();
        for &directory in directories {
            self.list_later(directory, &mut left);
        }
        while let Some(Reverse((_, _, directory))) = left.pop() {
            let tree = self.tree;
            let names = tree.names(directory).into_iter();
            for &object in names.flat_map(BTreeMap::values) {
                if self.is_over() {
                    return;
                }
                self.look(object);
                self.list_later(object, &mut left);
            }
        }
    }

    /// Has the names of an object listed in its turn, if it is a directory: by how many there are, then by when it was found.
    fn list_later(
        &self,
        object: ObjectId,
        left: &mut BinaryHeap<Reverse<(usize, usize, ObjectId)>>,
    ) {
        if let Ok(names) = self.tree.names(object) {
            let not_looked = usize::MAX - self.looks;
            left.push(Reverse((names.len(), not_looked, object)));
        }
    }

    /// What follows a directory where it is and what is before it, and then the same of the directory above.
    fn around(&mut self, directory: ObjectId) {
        let mut at = directory;
        while let Some(parent) = self.tree.parent(at).filter(|_| !self.is_over()) {
            let names = self.tree.names(parent).into_iter();
            let mut before: Vec<_> = names.flat_map(BTreeMap::values).copied().collect();
            let place = before.iter().position(|one| *one == at);
            let behind = before.split_off(place.unwrap_or(0));
            for sibling in behind.into_iter().skip(1).chain(before) {
                if self.is_over() {
                    return;
                }
                self.look(sibling);
                self.below(&[sibling]);
            }
            // Each step is one look, so a circle comes to an end.
            self.looks = self.looks.saturating_sub(1);
            at = parent;
        }
    }
}
