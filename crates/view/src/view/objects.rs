//! The objects of a view: made under new numbers, and removed when nothing needs them any more.

use std::fs::File;
use std::io;

use rustix::io::Errno;

use crate::store::ObjectStore;
use crate::types::{Attributes, ObjectId};

/// The object store, as a running view uses it.
#[derive(Debug)]
pub(super) struct Objects {
    store: ObjectStore,
    last: u64,
    /// Those that nothing needs any more.
    garbage: Vec<ObjectId>,
}

impl Objects {
    /// The objects of a store, in which this is the highest number that was used.
    pub(super) fn of(store: ObjectStore, last: ObjectId) -> Self {
        Self {
            store,
            last: last.0,
            garbage: Vec::new(),
        }
    }

    /// The store, for a caller that makes or removes objects without the view's lock.
    pub(super) fn store(&self) -> ObjectStore {
        self.store.clone()
    }

    /// A number that no object has had.
    pub(super) fn next(&mut self) -> ObjectId {
        self.last += 1;
        ObjectId(self.last)
    }

    pub(super) fn open(&self, object: ObjectId) -> io::Result<File> {
        self.store.open(object)
    }

    /// As [`ObjectStore::is_in_use`].
    pub(super) fn is_in_use(&self, object: ObjectId) -> io::Result<bool> {
        self.store.is_in_use(object)
    }

    pub(super) fn create(&self, object: ObjectId) -> io::Result<File> {
        self.store.create(object)
    }

    pub(super) fn attributes(&self, object: ObjectId) -> io::Result<Attributes> {
        let statx = self.store.stat(object)?;
        Attributes::of_statx(&statx).ok_or_else(|| Errno::IO.into())
    }

    /// Removes an object now. What cannot be removed only takes space until the next sweep.
    pub(super) fn discard(&self, object: ObjectId) {
        let _ = self.store.remove(object);
    }

    /// Has objects be removed by the next sweep.
    pub(super) fn leave(&mut self, objects: impl IntoIterator<Item = ObjectId>) {
        self.garbage.extend(objects);
    }

    /// What the next sweep has to remove.
    pub(super) fn take_left(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.garbage)
    }
}
