//! By which names programs have come to objects. Changes name objects by their ids, which mean nothing to another client, so changes
//! that are lost are kept with paths.
//!
//! An object has its place here while the kernel knows it, or while a change that is not decided may be about it.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Client;
use crate::lost::{Before, LostChanges, Undecided};
use crate::object::{Name, Object, ObjectId};
use crate::operation::{Change, Operation, Place};
use crate::tree::Tree;

/// How many objects that the kernel has forgotten are kept before it is looked which of them are needed.
const FORGOTTEN_MAX: usize = 4096;

/// Places of objects.
#[derive(Debug, Default)]
pub(super) struct Trail {
    /// One name of each object.
    places: HashMap<ObjectId, Place>,
    /// Objects that the kernel has forgotten.
    forgotten: Vec<ObjectId>,
    /// With so many of these it is looked which of them are needed.
    tidied_at: usize,
}

impl Trail {
    /// A name has led to an object. One that did so before is kept while it still does: a later one may be of a change that is
    /// not decided.
    pub(super) fn found(&mut self, parent: ObjectId, name: &Name, object: ObjectId, tree: &Tree) {
        if let Some(place) = self.places.get(&object) {
            let is_same = place.parent == parent && place.name == *name;
            if is_same || leads(tree, place) == Some(object) {
                return;
            }
        }
        let name = name.clone();
        self.places.insert(object, Place { parent, name });
    }

    /// The client has changed names.
    pub(super) fn changed(&mut self, change: &Change) {
        match change {
            Change::Create { place, object, .. } => {
                self.places.insert(*object, place.clone());
            }
            Change::Rename {
                from,
                object,
                to,
                replaced,
                exchange,
            } if *replaced != Some(*object) => {
                self.moves(*object, from, to);
                if let (true, Some(replaced)) = (exchange, replaced) {
                    self.moves(*replaced, to, from);
                }
            }
            _ => {}
        }
    }

    /// As if the change had not been made yet.
    fn undo(&mut self, change: &Change) {
        match change {
            Change::Create { object, .. } => {
                self.places.remove(object);
            }
            Change::Remove { place, object, .. } => {
                self.places.entry(*object).or_insert_with(|| place.clone());
            }
            Change::Rename {
                from,
                object,
                to,
                replaced,
                exchange,
            } if *replaced != Some(*object) => {
                self.moves(*object, to, from);
                match (exchange, replaced) {
                    (true, Some(replaced)) => self.moves(*replaced, from, to),
                    (false, Some(replaced)) => {
                        self.places.entry(*replaced).or_insert_with(|| to.clone());
                    }
                    (_, None) => {}
                }
            }
            _ => {}
        }
    }

    fn moves(&mut self, object: ObjectId, from: &Place, to: &Place) {
        let place = self.places.entry(object).or_insert_with(|| from.clone());
        if place == from {
            *place = to.clone();
        }
    }

    /// Where the objects are that changes are about, and the directories above them.
    fn of(&self, operations: &[Undecided]) -> Vec<(ObjectId, Place)> {
        let mut wanted: Vec<_> = operations
            .iter()
            .flat_map(|undecided| undecided.operation.change.touches())
            .collect();
        let mut found = BTreeMap::new();
        while let Some(object) = wanted.pop() {
            if let Some(place) = self
                .places
                .get(&object)
                .filter(|_| !found.contains_key(&object))
            {
                wanted.push(place.parent);
                found.insert(object, place.clone());
            }
        }
        found.into_iter().collect()
    }

    /// Lets go of what neither the kernel nor a change needs.
    fn tidy(&mut self, needed: &HashSet<ObjectId>) {
        let mut keep = HashSet::new();
        for object in needed {
            let mut at = *object;
            while keep.insert(at) {
                let Some(place) = self.places.get(&at) else {
                    break;
                };
                at = place.parent;
            }
        }
        let (places, forgotten) = (&mut self.places, &mut self.forgotten);
        forgotten.retain(|object| {
            let is_needed = keep.contains(object);
            if !is_needed {
                places.remove(object);
            }
            is_needed
        });
        self.tidied_at = forgotten.len();
    }
}

fn leads(tree: &Tree, place: &Place) -> Option<ObjectId> {
    tree.names(place.parent).ok()?.get(&place.name).copied()
}

impl Client {
    /// A program has found an object by a name.
    pub(super) fn found(&mut self, parent: ObjectId, name: &Name, object: ObjectId) {
        self.ahead.found(parent, object);
        self.trail.found(parent, name, object, &self.tree);
    }

    /// What a change is about to take away.
    pub(super) fn before(&self, change: &Change) -> Option<Before> {
        let object = self.tree.get(change.takes()?)?;
        (!Object::is_directory(object)).then_some(Before {
            size: object.attributes.size,
            links: object.attributes.links,
            modified: object.attributes.modified,
        })
    }

    /// The kernel does not know an object any more.
    pub(super) fn forget_place(&mut self, object: ObjectId) {
        self.trail.forgotten.push(object);
        if self.trail.forgotten.len() > 2 * self.trail.tidied_at + FORGOTTEN_MAX {
            let undecided = self.groups.undecided();
            let touched = undecided.flat_map(|operation| operation.change.touches());
            // What the kernel knows has the directories above it in the kernel, too.
            let needed = touched.chain(self.in_kernel.iter().copied()).collect();
            self.trail.tidy(&needed);
        }
    }

    /// Changes that are lost, with the places of what they are about before the first of them. `later` are those that were made
    /// after them and are not lost.
    pub(super) fn with_places(&self, changes: Vec<Undecided>, later: &[Operation]) -> LostChanges {
        if changes.is_empty() {
            return LostChanges::default();
        }
        let mut before = Trail {
            places: self.trail.places.clone(),
            ..Trail::default()
        };
        let lost = changes.iter().map(|undecided| &undecided.operation);
        for operation in lost.chain(later).rev() {
            before.undo(&operation.change);
        }
        LostChanges {
            places: before.of(&changes),
            changes,
        }
    }
}
