//! A tree in memory in which the steps of a plan are taken.

use surmise_twins::model::{self, Spot, Tree};
use surmise_view::FileKind;

use crate::outside::{Newcomer, Outside};
use crate::plan::{Checks, Content, Item, Place, Plan, ROOT};

/// A tree in which the steps of a plan are taken.
pub(crate) struct Site<'p> {
    pub(crate) plan: &'p Plan,
    pub(crate) tree: Tree,
    /// The inode of each staging that was made.
    pub(crate) staged: Vec<u64>,
}

impl Site<'_> {
    pub(crate) fn new(plan: &Plan, tree: Tree) -> Site<'_> {
        Site {
            plan,
            tree,
            staged: Vec::new(),
        }
    }

    /// The inode of a directory of the plan, if one of its places leads there.
    pub(crate) fn find(&self, directory: usize, seeking: &mut Vec<usize>) -> Option<u64> {
        if directory == ROOT {
            return Some(model::ROOT);
        }
        let wanted = &self.plan.directories[directory];
        let inode = match wanted.staging {
            Some(staging) => *self.staged.get(staging)?,
            None => wanted.key?.inode,
        };
        if seeking.contains(&directory) {
            return None;
        }
        seeking.push(directory);
        let is_there = wanted.places.iter().any(|place| {
            let parent = self.find(place.directory, seeking);
            parent.and_then(|parent| self.tree.at(&(parent, place.name.clone()))) == Some(inode)
        });
        seeking.pop();
        is_there.then_some(inode)
    }

    fn spot(&self, place: &Place) -> Spot {
        let directory = self.find(place.directory, &mut Vec::new());
        let directory = directory.expect("the directory of a step is in one of its places");
        (directory, place.name.clone())
    }

    /// What is seen of it before the first step.
    pub(crate) fn outside(&self, checks: &Checks<'_>) -> Outside {
        let find = |directory| self.find(directory, &mut Vec::new());
        let look = |directory: usize, place: &Place| {
            let parent = find(directory)?;
            Some(self.tree.at(&(parent, place.name.clone())))
        };
        let identity = |inode: u64| self.tree.identity(inode);
        let names = checks.names.iter().map(|expected| {
            let found = look(expected.place.directory, &expected.place)?;
            Some(Ok(found.map(identity)))
        });
        let newcomers = checks.emptied.iter().map(|emptied| {
            let directory = look(emptied.place.directory, &emptied.place).flatten();
            let names = directory
                .into_iter()
                .flat_map(|found| self.tree.names(found));
            let new = names.filter(|(name, _)| !emptied.accounts_for(name));
            Ok(new
                .map(|(name, inode)| Newcomer {
                    name: name.clone(),
                    found: Some(identity(inode)),
                })
                .collect())
        });
        Outside {
            directories: (0..self.plan.directories.len())
                .map(|directory| Ok(find(directory).is_some()))
                .collect(),
            names: names.collect(),
            newcomers: newcomers.collect(),
        }
    }

    /// Whether every file that is to get another name is in one of its places.
    pub(crate) fn has_all_sources(&self) -> bool {
        self.plan.links.iter().all(|link| {
            let is_there = |place: &Place| self.find_at(place) == Some(link.key.inode);
            link.sources.iter().any(is_there)
        })
    }

    /// Takes every step, each of which must find what it expects.
    pub(crate) fn take_all(mut self) -> Tree {
        self.stage();
        self.apply();
        self.remove();
        self.tree
    }

    /// Makes what is new.
    pub(crate) fn stage(&mut self) {
        let plan = self.plan;
        for staging in &plan.stagings {
            let made = match &staging.content {
                Content::Staged { staging } => self.staged[*staging],
                Content::Directory => self.tree.make(FileKind::Directory),
                _ => self.tree.make(FileKind::Regular),
            };
            if let Some(permissions) = staging.metadata.as_ref().and_then(|set| set.permissions) {
                self.tree.set_permissions(made, permissions);
            }
            self.staged.push(made);
            self.put(&staging.place, made);
        }
    }

    /// Moves names, and edits files: all that can be taken back.
    pub(crate) fn apply(&mut self) {
        let plan = self.plan;
        for link in &plan.links {
            let inode = link.key.inode;
            let is_source = |place: &Place| self.find_at(place) == Some(inode);
            assert!(link.sources.iter().any(is_source), "{link:?}");
            self.put(&link.place, inode);
        }
        for aside in &plan.asides {
            let inode = self.take(&aside.place);
            let found = self.tree.identity(inode);
            assert!(aside.expected.matches(&found), "{aside:?}: {found:?}");
            let place = Place {
                directory: aside.place.directory,
                name: aside.temporary.clone(),
            };
            self.put(&place, inode);
        }
        for placement in &plan.placements {
            let inode = self.take(&placement.from);
            assert_eq!(Some(inode), self.inode_of(placement.item), "{placement:?}");
            if let Some(displaced) = placement.displaces {
                let there = self.take(&placement.to);
                let found = self.tree.identity(there);
                assert!(displaced.matches(&found), "{placement:?}: {found:?}");
                self.put(&placement.from, there);
            }
            self.put(&placement.to, inode);
        }
        for edit in &plan.edits {
            let inode = edit.key.inode;
            let is_there = |place: &Place| self.find_at(place) == Some(inode);
            assert!(edit.places.iter().any(is_there), "{edit:?}");
            if let Some(permissions) = edit.metadata.permissions {
                self.tree.set_permissions(inode, permissions);
            }
        }
    }

    /// Removes what was replaced, and finishes directories.
    fn remove(&mut self) {
        let plan = self.plan;
        for removal in &plan.removals {
            let inode = self.take(&removal.place);
            let found = self.tree.identity(inode);
            assert!(removal.expected.matches(&found), "{removal:?}: {found:?}");
            assert_eq!(self.tree.names(inode).count(), 0, "{removal:?}");
        }
        for finish in &plan.finishes {
            let inode = self.find(finish.directory, &mut Vec::new());
            if let Some(permissions) = finish.metadata.permissions {
                let inode = inode.expect("a finished directory is in one of its places");
                self.tree.set_permissions(inode, permissions);
            }
        }
    }

    /// Takes back what [`Self::apply`] and [`Self::stage`] did, the last step first, as far as a step finds
    /// its inode. Nothing is put where something is. Files get the permissions again that they have in
    /// `before`.
    pub(crate) fn take_back(&mut self, before: &Tree) {
        let plan = self.plan;
        for edit in &plan.edits {
            let inode = edit.key.inode;
            self.tree.set_permissions(inode, before.permissions(inode));
        }
        for placement in plan.placements.iter().rev() {
            let (from, to) = (&placement.from, &placement.to);
            let key = self.inode_of(placement.item);
            let (waits, placed) = (self.find_at(from), self.find_at(to));
            let is_placed = placed.is_some() && placed == key;
            match waits {
                // What was displaced waits there.
                Some(other) if waits != key && (is_placed || placed.is_none()) => {
                    self.take(from);
                    if is_placed {
                        let placed = self.take(to);
                        self.put(from, placed);
                    }
                    self.put(to, other);
                }
                None if is_placed => {
                    let placed = self.take(to);
                    self.put(from, placed);
                }
                _ => {}
            }
        }
        for aside in plan.asides.iter().rev() {
            let temporary = Place {
                directory: aside.place.directory,
                name: aside.temporary.clone(),
            };
            let inode = aside.expected.key().inode;
            if self.find_at(&temporary) == Some(inode) {
                self.take(&temporary);
                if self.find_at(&aside.place) != Some(inode) {
                    self.put(&aside.place, inode);
                }
            }
        }
        for link in plan.links.iter().rev() {
            if self.find_at(&link.place) == Some(link.key.inode) {
                self.take(&link.place);
            }
        }
        for (staging, made) in plan.stagings.iter().zip(self.staged.clone()).rev() {
            if self.find_at(&staging.place) == Some(made) {
                self.take(&staging.place);
                assert_eq!(self.tree.names(made).count(), 0, "{staging:?}");
            }
        }
    }

    fn inode_of(&self, item: Item) -> Option<u64> {
        match item {
            Item::Real(key) => Some(key.inode),
            Item::Staged(staging) => self.staged.get(staging).copied(),
        }
    }

    /// As [`Self::at`], of a place whose directory may be elsewhere by now.
    pub(crate) fn find_at(&self, place: &Place) -> Option<u64> {
        let directory = self.find(place.directory, &mut Vec::new())?;
        self.tree.at(&(directory, place.name.clone()))
    }

    fn take(&mut self, place: &Place) -> u64 {
        let spot = self.spot(place);
        let taken = self.tree.unbind(&spot);
        taken.unwrap_or_else(|| panic!("nothing is at {place:?}"))
    }

    fn put(&mut self, place: &Place, inode: u64) {
        let spot = self.spot(place);
        assert_eq!(self.tree.at(&spot), None, "{place:?}");
        assert!(
            !self.tree.is_below(spot.0, inode),
            "{place:?} is below itself"
        );
        self.tree.bind(&spot, inode);
    }
}
