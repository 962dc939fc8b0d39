//! What a client is given that it has not asked for by name: objects that a program is likely to look at next, and
//! whose leases cost nobody anything.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};

use crate::lease::{ClientId, Leases, Mode};
use crate::object::ObjectId;
use crate::tree::Tree;

/// How many objects a client is given at once at most.
const MOST: u32 = 10_000;

/// How many objects are looked at for an answer that a program waits for, and for one that none waits for.
const LOOKS_NEAR: usize = 4096;
const LOOKS_ALL: usize = 1 << 15;

/// How many directories are noted as had by one client.
const HAD_MAX: usize = 1 << 18;

/// Directories that need not be looked through for a client again: it has leases on them and on all that is below.
#[derive(Debug, Default)]
pub(super) struct Had(HashMap<ClientId, HashSet<ObjectId>>);

impl Had {
    /// The client has given leases back, or is not known any more.
    pub(super) fn forget(&mut self, client: ClientId) {
        self.0.remove(&client);
    }

    fn of(&mut self, client: ClientId) -> &mut HashSet<ObjectId> {
        let had = self.0.entry(client).or_default();
        if had.len() > HAD_MAX {
            had.clear();
        }
        had
    }
}

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

    /// All that is below a directory, and then what comes behind it where the names are in order, and then what is before it, the
    /// nearest first: a program that walks the tree gets there next.
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
    pub(super) fn find(
        &self,
        tree: &Tree,
        (leases, had): (&Leases, &mut Had),
        client: ClientId,
    ) -> Vec<ObjectId> {
        let mut search = Search {
            tree,
            found: Vec::new(),
            had: had.of(client),
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
    had: &'t mut HashSet<ObjectId>,
    lacks: L,
    most: usize,
    looks: usize,
}

impl<L: Fn(ObjectId) -> bool> Search<'_, L> {
    fn is_over(&self) -> bool {
        self.found.len() >= self.most || self.looks == 0
    }

    /// Looks at an object. Whether the client has it.
    fn look(&mut self, object: ObjectId) -> bool {
        self.looks = self.looks.saturating_sub(1);
        let has = !(self.lacks)(object);
        if !has {
            self.found.push(object);
        }
        has
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
            let mut has_all = true;
            for &object in names.flat_map(BTreeMap::values) {
                if self.is_over() {
                    return;
                }
                let has = self.look(object);
                has_all &= !self.list_later(object, &mut left) && has;
            }
            // Of one with directories below, that shows when it is looked at after these. Without a lease on the directory itself, others may
            // make more in it, and nobody would say so.
            if has_all && !(self.lacks)(directory) {
                self.had.insert(directory);
            }
        }
    }

    /// Has the names of an object listed in its turn, if it is a directory and the client does not have all below it: by how many there
    /// are, then by when it was found. Whether it is.
    fn list_later(
        &self,
        object: ObjectId,
        left: &mut BinaryHeap<Reverse<(usize, usize, ObjectId)>>,
    ) -> bool {
        let Ok(names) = self.tree.names(object) else {
            return false;
        };
        let lacks_any = !self.had.contains(&object);
        if lacks_any {
            let not_looked = usize::MAX - self.looks;
            left.push(Reverse((names.len(), not_looked, object)));
        }
        lacks_any
    }

    /// What follows a directory where it is and what is before it, and then the same of the directory above.
    fn around(&mut self, directory: ObjectId) {
        let mut at = directory;
        while let Some(parent) = self.tree.parent(at).filter(|_| !self.is_over()) {
            let names = self.tree.names(parent).into_iter();
            let mut before: Vec<_> = names.flat_map(BTreeMap::values).copied().collect();
            let place = before.iter().position(|one| *one == at);
            let behind = before.split_off(place.unwrap_or(0));
            for sibling in behind.into_iter().skip(1).chain(before.into_iter().rev()) {
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
