//! Takes back what apply did: everything, as long as nothing of the old tree has been removed.
//!
//! Apply only moves names, and keeps what it overwrites as pre-images, until all is in place and
//! durable. So its steps can be taken back one by one, the last first. Every step looks first whether
//! it has anything to take back, by the inode that it finds, so taking all of them again from the
//! start is how an undo is resumed.
//!
//! Before the first step everything that apply touched is looked at ([`changed_since`]): where somebody
//! outside changed it meanwhile, an undo would destroy their work, so it does not begin.

mod data;
mod judge;
mod seen;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::AtFlags;
use surmise_view::InodeKey;

use crate::error::{CommitError, Conflict};
use crate::flush::Flush;
use crate::journal::{Made, Undone};
use crate::locate::Site;
use crate::objects::Objects;
use crate::opening::open_up;
use crate::plan::{Aside, Item, Link, Place, Placement, Plan};
use crate::preimage::{self, Preimage};
use crate::rename::{exchange, move_to_free, settle, spare};
use crate::steps::Steps;

/// A commit that is taken back.
pub(crate) struct Revert<'s, 'p> {
    pub(crate) site: &'s Site<'p>,
    pub(crate) state: &'s Path,
    pub(crate) objects: &'s Objects,
    pub(crate) made: &'s [Made],
    pub(crate) preimages: &'s [Preimage],
}

impl Revert<'_, '_> {
    /// How many steps that takes.
    pub(crate) fn steps(&self) -> usize {
        let plan = self.site.plan();
        self.preimages.len() + plan.placements.len() + plan.asides.len() + plan.links.len()
    }

    /// Whether all that is to be put back is as it was kept.
    pub(crate) fn check_kept(&self) -> Result<(), CommitError> {
        match preimage::damaged(self.state, self.preimages) {
            Ok(None) => Ok(()),
            Ok(Some((edit, kept))) => {
                let edit = self.site.plan().edits.get(edit);
                let path = edit.map(|edit| self.site.path(&edit.places[0]));
                Err(CommitError::Preimage {
                    path: path.unwrap_or_default(),
                    kept,
                })
            }
            Err((kept, error)) => Err(CommitError::undo(kept, error)),
        }
    }

    /// Takes every step back that is not taken back yet, down to the stage, and makes that durable.
    pub(crate) fn run(self, mut steps: Steps<'_, '_>) -> Result<(), CommitError> {
        let plan = self.site.plan();
        let site = self.site;
        open_up(site).map_err(|error| CommitError::undo(site.root_path().to_owned(), error))?;
        let mut flush = Flush::default();
        for preimage in self.preimages.iter().rev() {
            steps.step()?;
            let Some(edit) = plan.edits.get(preimage.edit) else {
                continue;
            };
            data::restore(&self, edit, preimage, &mut flush)
                .map_err(|error| CommitError::undo(site.path(&edit.places[0]), error))?;
        }
        let placements = plan.placements.iter().rev().map(Step::Placement);
        let asides = plan.asides.iter().rev().map(Step::Aside);
        let links = plan.links.iter().rev().map(Step::Link);
        for step in placements.chain(asides).chain(links) {
            steps.step()?;
            let (place, taken) = step.take_back(site);
            taken.map_err(|error| CommitError::undo(site.path(place), error))?;
        }
        steps.pause()?;
        let failed = |error| CommitError::undo(site.root_path().to_owned(), error);
        for index in plan.touched() {
            flush.add_directory(site, index).map_err(failed)?;
        }
        flush.run().map_err(failed)
    }
}

/// Looks for everything that somebody outside changed of what the commit applied. Reads only.
///
/// # Errors
/// [`CommitError::Changed`] with all of it.
pub(crate) fn changed_since(revert: &Revert<'_, '_>) -> Result<(), CommitError> {
    let plan = revert.site.plan();
    let mut changed = judge::directories(plan, &seen::directories(revert)?);
    if changed.is_empty() {
        changed = judge::changed(plan, revert.made, &seen::Seen::of(revert)?);
    }
    if changed.is_empty() {
        return Ok(());
    }
    let conflicts = changed.into_iter().map(|(place, what)| Conflict {
        path: revert.site.path(&place),
        what,
    });
    let mut conflicts: Vec<_> = conflicts.collect();
    conflicts.sort_by(|a, b| a.path.cmp(&b.path));
    conflicts.dedup();
    Err(CommitError::Changed(conflicts))
}

/// The change times that the inodes have which apply, and its undo, touched.
pub(crate) fn change_times(site: &Site<'_>) -> Result<Undone, CommitError> {
    let plan = site.plan();
    let asides = plan.asides.iter();
    let asides = asides.map(|aside| (&aside.place, aside.expected.key()));
    let placements = plan.placements.iter();
    let displaced =
        placements.filter_map(|placement| Some((&placement.to, placement.displaces?.key())));
    let edits = plan.edits.iter();
    let edits = edits.flat_map(|edit| edit.places.iter().map(|place| (place, edit.key)));
    let links = plan.links.iter();
    let links = links.flat_map(|link| link.sources.iter().map(|place| (place, link.key)));
    let mut times = Undone::new();
    for (place, key) in asides.chain(displaced).chain(edits).chain(links) {
        let found = site.look(place);
        let found = found.map_err(|error| CommitError::undo(site.path(place), error))?;
        if let Some(found) = found.filter(|found| found.identity.key() == key) {
            times.insert(key, found.identity.changed);
        }
    }
    Ok(times)
}

/// One step of apply that moved names.
enum Step<'p> {
    Placement(&'p Placement),
    Aside(&'p Aside),
    Link(&'p Link),
}

impl<'p> Step<'p> {
    fn take_back(&self, site: &Site<'_>) -> (&'p Place, io::Result<()>) {
        match self {
            Self::Placement(placement) => (&placement.to, displace(site, placement)),
            Self::Aside(aside) => (&aside.place, return_home(site, aside)),
            Self::Link(link) => (&link.to, unlink(site, link)),
        }
    }
}

/// An inode that was placed goes back to where it waited, and what it displaced takes its name again.
fn displace(site: &Site<'_>, placement: &Placement) -> io::Result<()> {
    let (from, to) = (&placement.from, &placement.to);
    let (old, new) = (site.open(from.directory)?, site.open(to.directory)?);
    if placement.displaces.is_some() {
        settle(old.as_fd(), &from.name, new.as_fd(), &to.name)?;
    }
    let key = item_key(site, placement.item);
    let at = |place| identity(site, place);
    let (waits, placed) = (at(from)?, at(to)?);
    let is_placed = placed.is_some() && placed == key;
    match waits {
        // Its partner waits where it was.
        Some(other) if Some(other) != key && (is_placed || placed.is_none()) => {
            let (from_name, to_name) = (&from.name, &to.name);
            match is_placed {
                true => exchange(old.as_fd(), from_name, new.as_fd(), to_name),
                // Somebody has removed the new one.
                false => move_to_free(old.as_fd(), from_name, new.as_fd(), to_name),
            }
        }
        None if is_placed => move_to_free(new.as_fd(), &to.name, old.as_fd(), &from.name),
        _ => Ok(()),
    }
}

/// A real inode that made room takes its name again.
fn return_home(site: &Site<'_>, aside: &Aside) -> io::Result<()> {
    let temporary = temporary(aside);
    let key = Some(aside.expected.key());
    if identity(site, &temporary)? != key {
        return Ok(());
    }
    let directory = site.open(aside.place.directory)?;
    // Somebody has given the name back to it by another one that it had.
    if identity(site, &aside.place)? == key {
        let unlinked = rustix::fs::unlinkat(&directory, &aside.temporary, AtFlags::empty());
        return Ok(unlinked?);
    }
    let (from, to) = (&aside.temporary, &aside.place.name);
    move_to_free(directory.as_fd(), from, directory.as_fd(), to)
}

fn unlink(site: &Site<'_>, link: &Link) -> io::Result<()> {
    if identity(site, &link.place)? != Some(link.key) {
        return Ok(());
    }
    let directory = site.open(link.place.directory)?;
    let flags = AtFlags::empty();
    Ok(rustix::fs::unlinkat(&directory, &link.place.name, flags)?)
}

/// The name under which a moved inode was before it was set aside.
fn home(placement: &Placement) -> Option<Place> {
    Some(Place {
        directory: placement.from.directory,
        name: placement.home.clone()?,
    })
}

/// Where an exchange that was cut short may have left what it displaced.
fn third(placement: &Placement) -> Place {
    Place {
        directory: placement.from.directory,
        name: spare(&placement.from.name),
    }
}

/// All places that a step touched.
fn places(plan: &Plan) -> impl Iterator<Item = Place> {
    let placements = plan.placements.iter().flat_map(|placement| {
        let third = placement.displaces.map(|_| third(placement));
        let ends = [&placement.from, &placement.to].map(Clone::clone);
        ends.into_iter().chain(home(placement)).chain(third)
    });
    let asides = plan.asides.iter();
    let asides = asides.flat_map(|aside| [aside.place.clone(), temporary(aside)]);
    let stagings = plan.stagings.iter().map(|staging| staging.place.clone());
    placements.chain(asides).chain(stagings)
}

fn temporary(aside: &Aside) -> Place {
    Place {
        directory: aside.place.directory,
        name: aside.temporary.clone(),
    }
}

fn identity(site: &Site<'_>, place: &Place) -> io::Result<Option<InodeKey>> {
    Ok(site.look(place)?.map(|found| found.identity.key()))
}

fn item_key(site: &Site<'_>, item: Item) -> Option<InodeKey> {
    match item {
        Item::Real(key) => Some(key),
        Item::Staged(staging) => site.staged(staging),
    }
}
