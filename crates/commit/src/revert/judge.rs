//! Whether what a commit applied is still as it left it, so that taking it back loses nothing: decided from
//! what was seen, without a look.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;

use surmise_view::InodeKey;

use super::seen::{Edited, Seen};
use super::{home, temporary, third};
use crate::error::ConflictKind;
use crate::journal::Made;
use crate::plan::{Item, Place, Plan};

/// A place at which somebody outside changed what the commit applied, and how.
pub(super) type Changed = (Place, ConflictKind);

/// The directories of a plan that are in none of their places, given which of them are there.
pub(super) fn directories(plan: &Plan, are_there: &[bool]) -> Vec<Changed> {
    let directories = plan.directories.iter().zip(are_there);
    let missing = directories.filter(|(_, is_there)| !**is_there);
    let places = missing.filter_map(|(directory, _)| directory.places.first());
    places
        .map(|place| (place.clone(), ConflictKind::DirectoryMoved))
        .collect()
}

/// Everything that somebody outside changed of what a plan did. `made` is what staged files were when they
/// were whole.
pub(super) fn changed(plan: &Plan, made: &[Made], seen: &Seen) -> Vec<Changed> {
    let mut judge = Judge {
        plan,
        seen,
        changed: Vec::new(),
    };
    judge.edits();
    judge.moved();
    judge.asides();
    judge.stagings(made);
    judge.newcomers();
    judge.changed
}

struct Judge<'j> {
    plan: &'j Plan,
    seen: &'j Seen,
    changed: Vec<Changed>,
}

impl<'j> Judge<'j> {
    fn edits(&mut self) {
        for (edit, seen) in self.plan.edits.iter().zip(&self.seen.edits) {
            match seen {
                Edited::Ours => {}
                Edited::NotKept => self.tell(&edit.places[0], ConflictKind::NotKept),
                Edited::Gone => self.tell(&edit.places[0], ConflictKind::Removed),
                Edited::Changed(place) => self.tell(place, ConflictKind::Changed),
            }
        }
    }

    /// Real inodes that have new names, and names that are to lead to what they led to.
    fn moved(&mut self) {
        for placement in &self.plan.placements {
            let (from, to) = (&placement.from, &placement.to);
            let key = self.key_of(placement.item);
            let (waits, placed) = (self.at(from), self.at(to));
            // A further name of an inode need not have been made yet; one that moved is somewhere.
            if let Some(home) = home(placement)
                && waits != key
                && placed != key
                && self.at(&home) != key
            {
                self.tell(to, ConflictKind::Removed);
            }
            let Some(displaced) = &placement.displaces else {
                continue;
            };
            let displaced = displaced.key();
            // On a file system that cannot exchange names, a third one may hold what was displaced.
            let spare = self.at(&third(placement));
            let is_there = [waits, placed, spare].contains(&Some(displaced));
            let is_ours = placed.is_none_or(|placed| Some(placed) == key || placed == displaced);
            if !is_there || !is_ours {
                self.tell(to, ConflictKind::Replaced);
            }
        }
    }

    /// A name that its inode is to take again must be free by then.
    fn asides(&mut self) {
        let mut ours: HashMap<&Place, Option<InodeKey>> = HashMap::new();
        let mut moved: HashMap<InodeKey, Vec<&Place>> = HashMap::new();
        for placement in &self.plan.placements {
            ours.insert(&placement.to, self.key_of(placement.item));
            if let Item::Real(key) = placement.item {
                moved.entry(key).or_default().push(&placement.to);
            }
        }
        for aside in &self.plan.asides {
            let key = aside.expected.key();
            let occupant = self.at(&aside.place);
            let mut moved = moved.get(&key).into_iter().flatten();
            let is_away = self.at(&temporary(aside)).is_some()
                || moved.any(|place| self.at(place) == Some(key));
            let is_free = occupant.is_none()
                || occupant == Some(key)
                || ours.get(&aside.place).is_some_and(|ours| *ours == occupant);
            match (is_away, occupant) {
                (true, _) if !is_free => self.tell(&aside.place, ConflictKind::Created),
                (false, None) => self.tell(&aside.place, ConflictKind::Removed),
                _ => {}
            }
        }
    }

    /// New files must be as they were made, and where they were put.
    fn stagings(&mut self, made: &[Made]) {
        let placements = self.plan.placements.iter();
        let placed: HashMap<usize, &Place> = placements
            .filter_map(|placement| match placement.item {
                Item::Staged(staging) => Some((staging, &placement.to)),
                Item::Real(_) => None,
            })
            .collect();
        let made: HashMap<_, _> = made.iter().map(|made| (made.staging, made)).collect();
        let mut names: HashMap<InodeKey, u32> = HashMap::new();
        let stagings = self.plan.stagings.iter().zip(&self.seen.staged);
        for (index, (staging, key)) in stagings.enumerate() {
            let Some(key) = *key else {
                continue;
            };
            let places = [Some(&staging.place), placed.get(&index).copied()];
            for place in places.into_iter().flatten() {
                let Some(found) = self.seen.found.get(place) else {
                    continue;
                };
                if found.key() != key {
                    // What it was exchanged for waits there, or it stands in nobody's way.
                    if !placed.contains_key(&index) {
                        self.tell(place, ConflictKind::Replaced);
                    }
                    continue;
                }
                *names.entry(key).or_default() += 1;
                let is_same = made
                    .get(&index)
                    .is_none_or(|made| (found.size, found.modified) == (made.size, made.modified));
                if !is_same {
                    self.tell(place, ConflictKind::Changed);
                }
            }
        }
        self.further_names(&names, &placed);
    }

    /// The domain's own data must not keep a name outside: they would be one file with somebody's.
    fn further_names(&mut self, names: &HashMap<InodeKey, u32>, placed: &HashMap<usize, &Place>) {
        for (index, own, links) in &self.seen.objects {
            let known = names.get(own).copied().unwrap_or(0);
            if Some(*own) == self.seen.staged[*index] && *links > known + 1 {
                let place = placed.get(index).copied();
                let place = place.unwrap_or(&self.plan.stagings[*index].place);
                self.tell(place, ConflictKind::Linked);
            }
        }
    }

    /// Directories that the commit made are removed, so nobody else's file may be in them.
    fn newcomers(&mut self) {
        let mut own: HashMap<usize, HashSet<&OsStr>> = HashMap::new();
        let stagings = self.plan.stagings.iter().map(|staging| &staging.place);
        let placements = self.plan.placements.iter();
        let placements = placements.flat_map(|placement| [&placement.from, &placement.to]);
        let links = self.plan.links.iter().map(|link| &link.place);
        for place in stagings.chain(placements).chain(links) {
            own.entry(place.directory).or_default().insert(&place.name);
        }
        for (directory, names) in &self.seen.made {
            let own = own.get(directory);
            let foreign = names
                .iter()
                .filter(|name| !own.is_some_and(|own| own.contains(&***name)));
            for name in foreign {
                let place = Place {
                    directory: *directory,
                    name: name.clone(),
                };
                self.tell(&place, ConflictKind::CreatedInMade);
            }
        }
    }

    fn at(&self, place: &Place) -> Option<InodeKey> {
        self.seen.found.get(place).map(|found| found.key())
    }

    fn key_of(&self, item: Item) -> Option<InodeKey> {
        match item {
            Item::Real(key) => Some(key),
            Item::Staged(staging) => self.seen.staged.get(staging).copied().flatten(),
        }
    }

    fn tell(&mut self, place: &Place, what: ConflictKind) {
        self.changed.push((place.clone(), what));
    }
}
