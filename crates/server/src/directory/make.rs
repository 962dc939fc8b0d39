//! Operations made in the directory, exactly as the tree has foreseen.

use std::os::fd::AsFd;

use rustix::fs::{Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use surmise_lower::Timestamp;
use surmise_remote::operation::{Change, Operation};

use super::attributes::set_times;
use super::collisions::is_failure;
use super::{Directory, Stuck};

/// How many names of a path are shown.
const SHOWN_MAX: usize = 100;

/// Whether an operation may have been begun, or done, before a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begun {
    No,
    /// It is on names, and they are looked at first.
    Maybe,
}

/// The operations of a group, of which the first may be made.
#[derive(Debug)]
pub(crate) struct Batch {
    operations: Vec<Operation>,
    next: usize,
    begun: Begun,
}

impl Batch {
    pub(crate) fn new(operations: Vec<Operation>) -> Self {
        Self {
            operations,
            next: 0,
            begun: Begun::No,
        }
    }

    /// The next operation to be made.
    pub(crate) fn next(&self) -> Option<&Operation> {
        self.operations.get(self.next)
    }
}

impl Directory {
    /// Makes the operations of a group that are left. Times of changes follow with [`Directory::settle`].
    ///
    /// # Errors
    /// The file system fails. They were promised, so the server cannot go on, unless the failure passes. Then this can be
    /// called again.
    pub(crate) fn make_all(&mut self, batch: &mut Batch) -> Result<(), Stuck> {
        while let Some(operation) = batch.operations.get(batch.next) {
            let number = self.made + 1;
            if let Err(errno) = self.make_next(operation, batch.begun) {
                batch.begun = Begun::Maybe;
                return Err(Stuck::at(number, operation, errno));
            }
            batch.begun = Begun::No;
            batch.next += 1;
        }
        Ok(())
    }

    /// How many operations have been made since the directory was first served.
    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    /// Makes an operation, or does without it where others are in the way.
    pub(super) fn make_next(&mut self, operation: &Operation, begun: Begun) -> Result<(), Errno> {
        match self.try_make_next(operation, begun) {
            Err(errno) if !is_failure(errno) => {
                self.do_without(operation, errno)?;
                self.progress.set(self.made + 1)?;
                self.made += 1;
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn try_make_next(&mut self, operation: &Operation, begun: Begun) -> Result<(), Errno> {
        match &operation.change {
            Change::Create { .. }
            | Change::Link { .. }
            | Change::Remove { .. }
            | Change::Rename { .. } => {
                self.change_names(operation, begun)?;
                self.stamp_parents(operation);
                self.progress.set(self.made + 1)?;
                self.made += 1;
                Ok(())
            }
            Change::SetAttributes { .. }
            | Change::Resize { .. }
            | Change::Write { .. }
            | Change::SetExtended { .. } => {
                self.change_inode(operation)?;
                self.made += 1;
                Ok(())
            }
        }
    }

    /// Which file an operation is about, as far as that is known, for messages.
    pub(crate) fn shown(&self, operation: Option<&Operation>) -> String {
        let Some(change) = operation.map(|operation| &operation.change) else {
            return "the times of files".into();
        };
        let name = change.places().next().map(|place| place.name.as_bytes());
        let object = change.touches().into_iter().next();
        let mut parts = self.path_shown(object.and_then(|object| self.ids.inode(object)));
        parts.extend(name.map(|name| String::from_utf8_lossy(name).into_owned()));
        parts.join("/")
    }

    /// The names on the way to an inode, as far as they are known.
    pub(super) fn path_shown(&self, inode: Option<u64>) -> Vec<String> {
        let mut parts = Vec::new();
        let mut at = inode;
        while let Some(inode) = at.filter(|inode| *inode != self.root_inode)
            && let Some(place) = self.places.last(inode)
            && parts.len() < SHOWN_MAX
        {
            parts.push(String::from_utf8_lossy(place.name.as_bytes()).into_owned());
            at = Some(place.parent);
        }
        parts.reverse();
        parts
    }

    /// Tells the file system the times of what has changed, and notes how far the making has come.
    pub(crate) fn settle(&mut self) -> Result<(), Errno> {
        let mut stamps = std::mem::take(&mut self.stamps).into_iter();
        while let Some((inode, at)) = stamps.next() {
            let times = Timestamps {
                last_access: Timespec {
                    tv_sec: 0,
                    tv_nsec: UTIME_OMIT,
                },
                last_modification: timespec(at),
            };
            let outcome = match self.files.get(&inode) {
                Some(file) => rustix::fs::futimens(&**file, &times),
                None => match self.open_inode(inode) {
                    Ok(open) => set_times(open.as_fd(), &times),
                    Err(errno) => Err(errno),
                },
            };
            match outcome {
                Err(errno) if is_failure(errno) => {
                    self.stamps.insert(inode, at);
                    self.stamps.extend(stamps);
                    return Err(errno);
                }
                // An ordinary user may change what others own, and not its times. What went has none.
                Ok(()) | Err(_) => {}
            }
        }
        self.progress.settled(self.made)
    }

    /// The directories in which names change are changed themselves.
    pub(super) fn stamp_parents(&mut self, operation: &Operation) {
        if let Change::Rename {
            object, replaced, ..
        } = &operation.change
            && replaced.as_ref() == Some(object)
        {
            return;
        }
        for place in operation.change.places() {
            if let Some(inode) = self.ids.inode(place.parent) {
                self.stamp(inode, operation.at);
            }
        }
    }

    pub(super) fn stamp(&mut self, inode: u64, at: Timestamp) {
        self.stamps.insert(inode, at);
    }
}

pub(super) fn timespec(time: Timestamp) -> Timespec {
    Timespec {
        tv_sec: time.seconds,
        tv_nsec: time.nanoseconds.into(),
    }
}
