//! The point of no return and what follows, up to the last step.
//!
//! Every step looks first whether it is done, by the inode that it finds, so taking all of them
//! again from the start is how a commit is resumed.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::fs::AtFlags;
use surmise_changes::real::is_absent;
use surmise_view::{Identity, InodeKey};

use crate::error::CommitError;
use crate::flush::Flush;
use crate::journal::{Journal, Left};
use crate::locate::Site;
use crate::objects::Objects;
use crate::opening::open_up;
use crate::plan::{Aside, Content, Item, Link, Place, Placement};
use crate::rename::{exchange, move_to_free, settle};
use crate::report::{Kept, Leftover, Reason, Report};
use crate::steps::Steps;

pub(crate) struct Apply<'s, 'p, 'a, 'b> {
    pub(crate) site: &'s Site<'p>,
    pub(crate) objects: &'s Objects,
    pub(crate) steps: Steps<'a, 'b>,
    pub(crate) left: Vec<Left>,
    pub(crate) flush: Flush,
    /// Which inode each name is to lead to.
    destinations: HashMap<&'p Place, InodeKey>,
}

impl<'s, 'p, 'a, 'b> Apply<'s, 'p, 'a, 'b> {
    pub(crate) fn new(site: &'s Site<'p>, objects: &'s Objects, steps: Steps<'a, 'b>) -> Self {
        let placements = site.plan().placements.iter();
        let destinations = placements
            .filter_map(|placement| Some((&placement.to, key_of(site, placement.item)?)))
            .collect();
        Self {
            site,
            objects,
            steps,
            left: Vec::new(),
            flush: Flush::default(),
            destinations,
        }
    }

    /// Takes every step that is not taken yet. `written` is what an earlier run had left when names
    /// and files were durable.
    pub(crate) fn run(
        mut self,
        journal: &mut Journal,
        written: Option<Vec<Left>>,
    ) -> Result<Report, CommitError> {
        let plan = self.site.plan();
        match written {
            Some(left) => self.left = left,
            None => {
                // After a power loss the stage's own opening may be lost.
                open_up(self.site)
                    .map_err(|error| CommitError::apply(self.site.root_path().to_owned(), error))?;
                self.each(&plan.links, |link| &link.to, Self::link)?;
                self.each(&plan.asides, |aside| &aside.place, Self::set_aside)?;
                self.each(&plan.placements, |placement| &placement.to, Self::place)?;
                self.each(&plan.edits, |edit| &edit.places[0], Self::edit)?;
                self.steps.pause()?;
                self.flush()?;
                journal.written(&self.left).map_err(CommitError::journal)?;
            }
        }
        // A removal may take the last known name of a file that was edited, so edits must be over.
        self.each(&plan.removals, |removal| &removal.place, Self::remove)?;
        self.finish()?;
        self.steps.pause()?;
        self.flush()?;
        self.steps.pause()?;
        self.release_objects()?;
        self.steps.pause()?;
        journal.end(&self.left).map_err(CommitError::journal)?;
        Ok(report(self.site, &self.left))
    }

    fn each<T>(
        &mut self,
        steps: &'p [T],
        place: fn(&T) -> &Place,
        take: fn(&mut Self, &'p T) -> Result<(), Failure>,
    ) -> Result<(), CommitError> {
        for step in steps {
            self.steps.step()?;
            take(self, step).map_err(|failure| match failure {
                Failure::Io(error) => CommitError::apply(self.site.path(place(step)), error),
                Failure::Commit(error) => error,
            })?;
        }
        Ok(())
    }

    /// Gives a real inode one more name.
    fn link(&mut self, link: &'p Link) -> Result<(), Failure> {
        for place in [&link.place, &link.to] {
            if self.identity(place)?.map(|found| found.key()) == Some(link.key) {
                return Ok(());
            }
        }
        for source in &link.sources {
            if self.site.inode(source, link.key)?.is_none() {
                continue;
            }
            let (old, new) = (
                self.site.open(source.directory)?,
                self.site.open(link.place.directory)?,
            );
            let flags = AtFlags::empty();
            rustix::fs::linkat(&old, &source.name, &new, &link.place.name, flags)?;
            if self.identity(&link.place)?.map(|found| found.key()) == Some(link.key) {
                return Ok(());
            }
            // Someone replaced the source in between: another file got the name.
            rustix::fs::unlinkat(&new, &link.place.name, flags)?;
        }
        self.leave(&link.to, Reason::Gone);
        Ok(())
    }

    fn set_aside(&mut self, aside: &'p Aside) -> Result<(), Failure> {
        let directory = match self.site.open(aside.place.directory) {
            Err(error) if is_absent(&error) => {
                self.leave(&aside.place, Reason::Gone);
                return Ok(());
            }
            directory => directory?,
        };
        let temporary = Place {
            directory: aside.place.directory,
            name: aside.temporary.clone(),
        };
        let expected = |found: &Identity| aside.expected.matches(found);
        if self.identity(&temporary)?.is_some() {
            return Ok(());
        }
        match self.identity(&aside.place)? {
            Some(found) if expected(&found) => {}
            // Gone, or taken by what this commit put there.
            None => return Ok(()),
            Some(found) if self.destinations.get(&aside.place) == Some(&found.key()) => {
                return Ok(());
            }
            Some(_) => {
                self.leave(&aside.place, Reason::Changed);
                return Ok(());
            }
        }
        let (name, temporary_name) = (&aside.place.name, &aside.temporary);
        move_to_free(directory.as_fd(), name, directory.as_fd(), temporary_name)?;
        // Between the look and the rename someone may have put another file there.
        if !self
            .identity(&temporary)?
            .is_some_and(|found| expected(&found))
        {
            move_to_free(directory.as_fd(), temporary_name, directory.as_fd(), name)?;
            self.leave(&aside.place, Reason::Changed);
        }
        Ok(())
    }

    fn place(&mut self, placement: &'p Placement) -> Result<(), Failure> {
        let (from, to) = (&placement.from, &placement.to);
        let key = key_of(self.site, placement.item);
        let mut occupant = self.identity(to)?;
        let is_resumed = occupant.is_none_or(|found| Some(found.key()) == key);
        if placement.displaces.is_some() && is_resumed {
            self.settle(placement)?;
            occupant = self.identity(to)?;
        }
        if occupant.is_some_and(|found| Some(found.key()) == key) {
            return Ok(());
        }
        if key.is_none() || self.identity(from)?.map(|found| found.key()) != key {
            self.leave(to, Reason::Gone);
            return Ok(());
        }
        let (old, new) = (
            self.site.open(from.directory)?,
            self.site.open(to.directory)?,
        );
        let (old, new) = (old.as_fd(), new.as_fd());
        let expected = |found: &Identity| {
            placement
                .displaces
                .is_some_and(|displaced| displaced.matches(found))
        };
        let moved = match occupant {
            None => move_to_free(old, &from.name, new, &to.name),
            Some(found) if expected(&found) => {
                exchange(old, &from.name, new, &to.name)?;
                let displaced = self.identity(from)?;
                if displaced.is_some_and(|found| !expected(&found)) {
                    exchange(old, &from.name, new, &to.name)?;
                    self.occupied(placement)?;
                }
                return Ok(());
            }
            Some(_) => return self.occupied(placement),
        };
        match moved {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.occupied(placement),
            moved => Ok(moved?),
        }
    }

    /// Completes an exchange in which an earlier run was cut short.
    fn settle(&self, placement: &Placement) -> io::Result<()> {
        let (from, to) = (&placement.from, &placement.to);
        let directories = (self.site.open(from.directory), self.site.open(to.directory));
        match directories {
            (Err(error), _) | (_, Err(error)) if is_absent(&error) => Ok(()),
            (old, new) => settle(old?.as_fd(), &from.name, new?.as_fd(), &to.name),
        }
    }

    /// Someone else's file is where this was to go: theirs stays, and ours stays findable.
    fn occupied(&mut self, placement: &Placement) -> Result<(), Failure> {
        self.leave(&placement.to, Reason::Occupied);
        if let Some(home) = &placement.home {
            let directory = self.site.open(placement.from.directory)?;
            let from = &placement.from.name;
            if move_to_free(directory.as_fd(), from, directory.as_fd(), home).is_ok() {
                return Ok(());
            }
        }
        self.leave(&placement.from, Reason::Own);
        Ok(())
    }

    /// Everything that was touched becomes durable.
    fn flush(&mut self) -> Result<(), CommitError> {
        let plan = self.site.plan();
        let placed = plan
            .placements
            .iter()
            .flat_map(|placement| [&placement.from, &placement.to]);
        let removed = plan.removals.iter().map(|removal| &removal.place);
        let asides = plan.asides.iter().map(|aside| &aside.place);
        let links = plan.links.iter().map(|link| &link.place);
        let mut touched: Vec<usize> = placed
            .chain(removed)
            .chain(asides)
            .chain(links)
            .map(|place| place.directory)
            .chain(plan.finishes.iter().map(|finish| finish.directory))
            .collect();
        touched.sort_unstable();
        touched.dedup();
        let mut flush = std::mem::take(&mut self.flush);
        let flushed = touched
            .into_iter()
            .try_for_each(
                |directory| match flush.add_directory(self.site, directory) {
                    Err(error) if is_absent(&error) => Ok(()),
                    added => added,
                },
            )
            .and_then(|()| flush.run());
        flushed.map_err(|error| CommitError::apply(self.site.root_path().to_owned(), error))
    }

    /// Files that are an object's own inode must not keep a name in the store.
    fn release_objects(&mut self) -> Result<(), CommitError> {
        for (index, staging) in self.site.plan().stagings.iter().enumerate() {
            let Content::Regular { object: Some(id) } = staging.content else {
                continue;
            };
            let own = self.objects.stat(id).ok();
            let own = own.as_ref().and_then(surmise_view::Attributes::of_statx);
            if own.map(|own| own.identity.key()) == self.site.staged(index) && own.is_some() {
                let path = self.objects.path(id);
                std::fs::remove_file(&path).map_err(|error| CommitError::apply(path, error))?;
            }
        }
        Ok(())
    }

    pub(crate) fn identity(&self, place: &Place) -> io::Result<Option<Identity>> {
        Ok(self.site.look(place)?.map(|found| found.identity))
    }

    pub(crate) fn leave(&mut self, place: &Place, reason: Reason) {
        let path = self.site.path(place).into_os_string();
        self.left.push(Left { path, reason });
    }
}

/// What a finished commit left and kept.
pub(crate) fn report(site: &Site<'_>, left: &[Left]) -> Report {
    let kept = site.plan().removals.iter();
    let kept = kept.filter(|removal| removal.is_kept);
    // A link that could not be made is left once more when it is to be placed.
    let mut told = HashSet::new();
    Report {
        left: left
            .iter()
            .filter(|left| told.insert((&left.path, left.reason)))
            .map(|left| Leftover {
                path: PathBuf::from(&left.path),
                reason: left.reason,
            })
            .collect(),
        kept: kept
            .map(|removal| Kept {
                path: site.path(&removal.place),
                key: removal.expected.key(),
            })
            .collect(),
        read_changed: Vec::new(),
    }
}

/// A failure that does not know its path yet, or one that needs none.
pub(crate) enum Failure {
    Io(io::Error),
    Commit(CommitError),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rustix::io::Errno> for Failure {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}

impl From<CommitError> for Failure {
    fn from(error: CommitError) -> Self {
        Self::Commit(error)
    }
}

fn key_of(site: &Site<'_>, item: Item) -> Option<InodeKey> {
    match item {
        Item::Real(key) => Some(key),
        Item::Staged(staging) => site.staged(staging),
    }
}
