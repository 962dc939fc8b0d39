//! The order in which a program comes to objects that goes through directories by their names.

use std::collections::{HashMap, HashSet};
use std::ops::Bound;

use super::super::Client;
use crate::object::ObjectId;
use crate::tree::Tree;

/// What comes behind an object, as far as names are known; they may be out of date.
pub(super) struct Behind<'c> {
    tree: &'c Tree,
    places: &'c HashMap<ObjectId, ObjectId>,
    /// All before it has been passed, and what is in its directory is in `left`.
    at: ObjectId,
    /// The next one is the last.
    left: Vec<ObjectId>,
    /// Directories that moved meanwhile could lead in a circle.
    passed: HashSet<ObjectId>,
}

impl Client {
    /// What else is in the directory of an object: first what comes behind it, then what comes before it.
    pub(super) fn siblings_of(&self, object: ObjectId) -> impl Iterator<Item = ObjectId> + '_ {
        let directory = self.ahead.places.get(&object);
        let names = directory.and_then(|directory| self.tree.names(*directory).ok());
        let name = names.and_then(|names| {
            let (name, _) = names.iter().find(|(_, one)| **one == object)?;
            Some(name)
        });
        let parts = names.zip(name).map(|(names, name)| {
            let behind = names.range((Bound::Excluded(name), Bound::Unbounded));
            let before = names.range((Bound::Unbounded, Bound::Excluded(name)));
            behind.chain(before).map(|(_, one)| *one)
        });
        parts.into_iter().flatten()
    }

    pub(super) fn order_behind(&self, object: ObjectId) -> Behind<'_> {
        Behind {
            tree: &self.tree,
            places: &self.ahead.places,
            at: object,
            left: Vec::new(),
            passed: HashSet::new(),
        }
    }
}

impl Iterator for Behind<'_> {
    type Item = ObjectId;

    fn next(&mut self) -> Option<ObjectId> {
        loop {
            if let Some(next) = self.left.pop() {
                if !self.passed.insert(next) {
                    continue;
                }
                let below = self.tree.names(next).into_iter();
                let below = below.flat_map(|names| names.values().rev());
                self.left.extend(below);
                return Some(next);
            }
            let directory = *self.places.get(&self.at)?;
            let at = std::mem::replace(&mut self.at, directory);
            if !self.passed.insert(directory) {
                return None;
            }
            let names = self.tree.names(directory).ok()?;
            let (name, _) = names.iter().find(|(_, one)| **one == at)?;
            let behind = names.range((Bound::Excluded(name), Bound::Unbounded));
            self.left.extend(behind.rev().map(|(_, one)| *one));
        }
    }
}
