//! Whether what a commit applied is still as it left it, so that taking it back loses nothing.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Dir, Mode, OFlags};
use surmise_changes::real::is_absent;
use surmise_view::InodeKey;

use super::{Revert, data, identity, item_key, temporary};
use crate::error::{CommitError, Conflict, ConflictKind};
use crate::plan::{Content, Item, Place};

/// Looks for everything that somebody outside changed of what the commit applied. Reads only.
///
/// # Errors
/// [`CommitError::Changed`] with all of it.
pub(crate) fn changed_since(revert: &Revert<'_, '_>) -> Result<(), CommitError> {
    let mut look = Look {
        revert,
        conflicts: Vec::new(),
    };
    look.directories()?;
    if look.conflicts.is_empty() {
        look.edits()?;
        look.moved()?;
        look.asides()?;
        look.stagings()?;
        look.newcomers()?;
    }
    let mut conflicts = look.conflicts;
    if conflicts.is_empty() {
        return Ok(());
    }
    conflicts.sort_by(|a, b| a.path.cmp(&b.path));
    conflicts.dedup();
    Err(CommitError::Changed(conflicts))
}

struct Look<'l, 's, 'p> {
    revert: &'l Revert<'s, 'p>,
    conflicts: Vec<Conflict>,
}

impl Look<'_, '_, '_> {
    fn directories(&mut self) -> Result<(), CommitError> {
        let site = self.revert.site;
        for (index, directory) in site.plan().directories.iter().enumerate() {
            match site.open(index) {
                Err(error) if is_absent(&error) => {
                    if let Some(place) = directory.places.first() {
                        self.conflict(place, ConflictKind::DirectoryMoved);
                    }
                }
                Err(error) => return Err(CommitError::undo(site.root_path().to_owned(), error)),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    fn edits(&mut self) -> Result<(), CommitError> {
        let revert = self.revert;
        let kept = revert.preimages.iter();
        let kept: HashMap<_, _> = kept.map(|preimage| (preimage.edit, preimage)).collect();
        for (index, edit) in revert.site.plan().edits.iter().enumerate() {
            let failed = |error| CommitError::undo(revert.site.path(&edit.places[0]), error);
            let Some(preimage) = kept.get(&index) else {
                self.conflict(&edit.places[0], ConflictKind::NotKept);
                continue;
            };
            let Some((inode, place)) = data::find(revert.site, edit).map_err(failed)? else {
                self.conflict(&edit.places[0], ConflictKind::Removed);
                continue;
            };
            if !data::is_ours(revert, inode.as_fd(), edit, preimage).map_err(failed)? {
                self.conflict(place, ConflictKind::Changed);
            }
        }
        Ok(())
    }

    /// Real inodes that have new names, and names that are to lead to what they led to.
    fn moved(&mut self) -> Result<(), CommitError> {
        let plan = self.revert.site.plan();
        for placement in &plan.placements {
            let (from, to) = (&placement.from, &placement.to);
            let key = item_key(self.revert.site, placement.item);
            let (waits, placed) = (self.at(from)?, self.at(to)?);
            // A further name of an inode need not have been made yet; one that moved is somewhere.
            if let Some(name) = &placement.home {
                let home = Place {
                    directory: from.directory,
                    name: name.clone(),
                };
                if waits != key && placed != key && self.at(&home)? != key {
                    self.conflict(to, ConflictKind::Removed);
                }
            }
            let Some(displaced) = &placement.displaces else {
                continue;
            };
            // On a file system that cannot exchange names, a third one may hold what was displaced.
            let is_kept = [waits, placed].contains(&Some(displaced.key()));
            let is_there = is_kept || self.is_spare(placement, displaced.key())?;
            let is_ours =
                placed.is_none_or(|placed| Some(placed) == key || placed == displaced.key());
            if !is_there || !is_ours {
                self.conflict(to, ConflictKind::Replaced);
            }
        }
        Ok(())
    }

    fn is_spare(
        &self,
        placement: &crate::plan::Placement,
        displaced: InodeKey,
    ) -> Result<bool, CommitError> {
        let spare = Place {
            directory: placement.from.directory,
            name: crate::rename::spare(&placement.from.name),
        };
        Ok(self.at(&spare)? == Some(displaced))
    }

    /// A name that its inode is to take again must be free by then.
    fn asides(&mut self) -> Result<(), CommitError> {
        let site = self.revert.site;
        let mut ours: HashMap<&Place, Option<InodeKey>> = HashMap::new();
        let mut moved: HashMap<InodeKey, Vec<&Place>> = HashMap::new();
        for placement in &site.plan().placements {
            ours.insert(&placement.to, item_key(site, placement.item));
            if let Item::Real(key) = placement.item {
                moved.entry(key).or_default().push(&placement.to);
            }
        }
        for aside in &site.plan().asides {
            let key = aside.expected.key();
            let occupant = self.at(&aside.place)?;
            let mut is_away = self.at(&temporary(aside))?.is_some();
            for place in moved.get(&key).into_iter().flatten() {
                is_away = is_away || self.at(place)? == Some(key);
            }
            let is_free = occupant.is_none()
                || occupant == Some(key)
                || ours.get(&aside.place).is_some_and(|ours| *ours == occupant);
            match (is_away, occupant) {
                (true, _) if !is_free => self.conflict(&aside.place, ConflictKind::Created),
                (false, None) => self.conflict(&aside.place, ConflictKind::Removed),
                _ => {}
            }
        }
        Ok(())
    }

    /// New files must be as they were made, and where they were put.
    fn stagings(&mut self) -> Result<(), CommitError> {
        let revert = self.revert;
        let site = revert.site;
        let placements = site.plan().placements.iter();
        let placed: HashMap<usize, &Place> = placements
            .filter_map(|placement| match placement.item {
                Item::Staged(staging) => Some((staging, &placement.to)),
                Item::Real(_) => None,
            })
            .collect();
        let made: HashMap<_, _> = revert
            .made
            .iter()
            .map(|made| (made.staging, made))
            .collect();
        let mut names: HashMap<InodeKey, u32> = HashMap::new();
        for (index, staging) in site.plan().stagings.iter().enumerate() {
            let Some(key) = site.staged(index) else {
                continue;
            };
            let places = [Some(&staging.place), placed.get(&index).copied()];
            for place in places.into_iter().flatten() {
                let found = site
                    .look(place)
                    .map_err(|error| CommitError::undo(site.path(place), error))?;
                let Some(found) = found.map(|found| found.identity) else {
                    continue;
                };
                if found.key() != key {
                    // What it was exchanged for waits there, or it stands in nobody's way.
                    if !placed.contains_key(&index) {
                        self.conflict(place, ConflictKind::Replaced);
                    }
                    continue;
                }
                *names.entry(key).or_default() += 1;
                let is_same = made
                    .get(&index)
                    .is_none_or(|made| (found.size, found.modified) == (made.size, made.modified));
                if !is_same {
                    self.conflict(place, ConflictKind::Changed);
                }
            }
        }
        self.further_names(&names, &placed)
    }

    /// The domain's own data must not keep a name outside: they would be one file with somebody's.
    fn further_names(
        &mut self,
        names: &HashMap<InodeKey, u32>,
        placed: &HashMap<usize, &Place>,
    ) -> Result<(), CommitError> {
        let site = self.revert.site;
        for (index, staging) in site.plan().stagings.iter().enumerate() {
            let Content::Regular { object: Some(id) } = staging.content else {
                continue;
            };
            let path = || self.revert.objects.path(id);
            let found = self.revert.objects.stat(id);
            let found = found.map_err(|error| CommitError::undo(path(), error))?;
            let own = surmise_view::Attributes::of_statx(&found);
            let own = own.map(|own| own.identity.key());
            let known = own.and_then(|own| names.get(&own)).copied().unwrap_or(0);
            if own == site.staged(index) && found.stx_nlink > known + 1 {
                let place = placed.get(&index).copied();
                self.conflict(place.unwrap_or(&staging.place), ConflictKind::Linked);
            }
        }
        Ok(())
    }

    /// Directories that the commit made are removed, so nobody else's file may be in them.
    fn newcomers(&mut self) -> Result<(), CommitError> {
        let site = self.revert.site;
        let plan = site.plan();
        let mut own: HashMap<usize, HashSet<&OsStr>> = HashMap::new();
        let stagings = plan.stagings.iter().map(|staging| &staging.place);
        let placements = plan.placements.iter();
        let placements = placements.flat_map(|placement| [&placement.from, &placement.to]);
        let links = plan.links.iter().map(|link| &link.place);
        for place in stagings.chain(placements).chain(links) {
            own.entry(place.directory).or_default().insert(&place.name);
        }
        for (index, directory) in plan.directories.iter().enumerate() {
            let Some(place) = directory.places.first() else {
                continue;
            };
            if directory.staging.is_none() {
                continue;
            }
            let names = names_in(
                &*site
                    .open(index)
                    .map_err(|error| CommitError::undo(site.path(place), error))?,
            );
            for name in names.map_err(|error| CommitError::undo(site.path(place), error))? {
                let is_own = own.get(&index).is_some_and(|own| own.contains(&*name));
                if !is_own {
                    self.conflict(
                        &Place {
                            directory: index,
                            name,
                        },
                        ConflictKind::CreatedInMade,
                    );
                }
            }
        }
        Ok(())
    }

    fn at(&self, place: &Place) -> Result<Option<InodeKey>, CommitError> {
        let site = self.revert.site;
        identity(site, place).map_err(|error| CommitError::undo(site.path(place), error))
    }

    fn conflict(&mut self, place: &Place, what: ConflictKind) {
        let path = self.revert.site.path(place);
        self.conflicts.push(Conflict { path, what });
    }
}

fn names_in(directory: &std::os::fd::OwnedFd) -> io::Result<Vec<std::ffi::OsString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(directory, ".", flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}
