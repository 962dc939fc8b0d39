//! The domain's objects, and what they borrow from the real files that a commit writes them into.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::Statx;
use surmise_changes::real::look;
use surmise_view::{Borrowed, LoadError, Map, ObjectId, ObjectStore};

use crate::check::as_undone;
use crate::journal::Undone;
use crate::locate::Site;
use crate::plan::{Edit, Place};

pub(crate) struct Objects {
    store: ObjectStore,
    borrowed: HashMap<ObjectId, Borrowed>,
    /// Change times of real files that are as they were but for these.
    undone: Undone,
}

impl Objects {
    /// Those of a state directory, as far as the map knows them.
    pub(crate) fn of(directory: &Path, map: &Map) -> Self {
        let nodes = map.nodes();
        let borrowed = nodes.filter_map(|(_, node)| {
            let borrowed = node.borrowed.as_deref()?;
            Some((node.object?, borrowed.clone()))
        });
        Self {
            store: ObjectStore::at(directory),
            borrowed: borrowed.collect(),
            undone: Undone::new(),
        }
    }

    /// The same where real files have these change times, and are otherwise as they were.
    pub(crate) fn with_undone(self, undone: &Undone) -> Self {
        Self {
            undone: undone.clone(),
            ..self
        }
    }

    /// Those of a commit that is resumed. Until it is over, the log is what it was at its beginning.
    pub(crate) fn load(directory: &Path) -> Result<Self, LoadError> {
        Ok(Self::of(directory, &surmise_view::load(directory)?))
    }

    pub(crate) fn path(&self, object: ObjectId) -> PathBuf {
        self.store.path(object)
    }

    pub(crate) fn open(&self, object: ObjectId) -> io::Result<File> {
        self.store.open(object)
    }

    pub(crate) fn stat(&self, object: ObjectId) -> io::Result<Statx> {
        self.store.stat(object)
    }

    /// What an object lacks. Only a file that keeps its inode has such an object, and what it lacks is
    /// in that inode.
    pub(crate) fn borrowed(&self, object: ObjectId) -> Option<&Borrowed> {
        self.borrowed.get(&object)
    }

    /// Whether the object lacks any data.
    pub(crate) fn is_partial(&self, object: ObjectId) -> io::Result<bool> {
        let Some(borrowed) = self.borrowed(object) else {
            return Ok(false);
        };
        let size = self.stat(object)?.stx_size;
        Ok(borrowed.runs(size).any(|run| !run.is_own))
    }

    /// Where an edited file is, if it no longer has what its object lacks. To be asked before the
    /// first change: afterwards it is the commit's own.
    pub(crate) fn lost_lender<'e>(&self, site: &Site<'_>, edit: &'e Edit) -> Option<&'e Place> {
        let object = edit.object?;
        let borrowed = self.borrowed(object)?;
        if !self.is_partial(object).ok()? {
            return None;
        }
        let mut places = edit.places.iter();
        let (place, inode) = places.find_map(|place| {
            let inode = site.inode(place, edit.key).ok()??;
            Some((place, inode))
        })?;
        let found = look(inode.as_fd()).ok().map(|found| found.identity);
        let is_same = found == Some(as_undone(*borrowed.from(), found, &self.undone));
        (!is_same).then_some(place)
    }
}
