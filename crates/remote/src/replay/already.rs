//! What the server had made of lost changes before the replay.
//!
//! The server makes a client's changes in their order, and gives what it changes the time of the change, to the nanosecond; no two
//! changes of a client have one time. So the last change whose time is found is made, and those before it, but for groups that the
//! server has refused. Therefore all that they should have left is looked at, too: what is not as they left it, since it was refused
//! or since others have changed it, begins what is made again. That makes something twice, beside the first, and loses nothing.

use std::collections::HashMap;

use surmise_lower::{FileKind, Timestamp};

use super::carry::is_of_one;
use super::names::Names;
use super::{Replay, Target};
use crate::errno::Errno;
use crate::object::{Name, ObjectId};
use crate::operation::{Change, NewKind};

/// What is at paths, each looked at once.
struct Looks<'t, T> {
    target: &'t mut T,
    seen: HashMap<Vec<Name>, Option<(FileKind, Timestamp)>>,
}

/// An object that changes have left in some state.
struct Left {
    /// The first of these changes.
    first: usize,
    /// When its content was changed last, if it has any and these changes tell.
    modified: Option<Timestamp>,
}

impl Replay<'_> {
    /// How many of the changes the target has already, if it is the directory that they were made in. The caller notes that
    /// before anything else ([`Progress::Already`](super::Progress::Already)).
    ///
    /// # Errors
    /// Of the target.
    pub fn already(&self, target: &mut impl Target) -> Result<usize, Errno> {
        let mut looks = Looks {
            target,
            seen: HashMap::new(),
        };
        let mut count = self.last_made(&mut looks)?;
        while let Some(first) = self.first_unmade(count, &mut looks)? {
            count = first;
        }
        Ok(count)
    }

    /// Behind the last change whose time is found.
    fn last_made(&self, looks: &mut Looks<'_, impl Target>) -> Result<usize, Errno> {
        let mut names = self.names.clone();
        let mut count = 0;
        for (index, undecided) in self.lost.changes.iter().enumerate() {
            let operation = &undecided.operation;
            names.change(undecided, None);
            for (object, time) in stamps(&operation.change, operation.at) {
                let found = looks.at(&names, object)?;
                if found.is_some_and(|(_, modified)| modified == time) {
                    count = index + 1;
                }
            }
        }
        Ok(count)
    }

    /// The first of so many changes that was evidently not made.
    fn first_unmade(
        &self,
        count: usize,
        looks: &mut Looks<'_, impl Target>,
    ) -> Result<Option<usize>, Errno> {
        let mut names = self.names.clone();
        let mut left: HashMap<ObjectId, Left> = HashMap::new();
        for (index, undecided) in self.lost.changes.iter().take(count).enumerate() {
            names.change(undecided, None);
            let Some((object, modified)) =
                leaves(&undecided.operation.change, undecided.operation.at)
            else {
                continue;
            };
            let left = left.entry(object).or_insert(Left {
                first: index,
                modified,
            });
            left.modified = modified.or(left.modified);
        }
        let mut unmade = None;
        for (object, left) in left {
            // What has lost its name is not missed.
            if names.path(object).is_none() {
                continue;
            }
            let is_as_left = looks.at(&names, object)?.is_some_and(|(kind, modified)| {
                // What is made in a directory later changes its time.
                kind == FileKind::Directory || left.modified.is_none_or(|wanted| wanted == modified)
            });
            if !is_as_left && unmade.is_none_or(|first| left.first < first) {
                unmade = Some(left.first);
            }
        }
        Ok(unmade)
    }

    pub(super) fn were_made(&mut self, count: usize) {
        for undecided in self.lost.changes.iter().take(count) {
            self.names.change(undecided, None);
        }
        self.next = count;
    }
}

impl<T: Target> Looks<'_, T> {
    /// What an object is, and when it was changed last; `None` where it is not, or cannot be looked at.
    fn at(
        &mut self,
        names: &Names,
        object: ObjectId,
    ) -> Result<Option<(FileKind, Timestamp)>, Errno> {
        let Some(path) = names.path(object) else {
            return Ok(None);
        };
        if let Some(found) = self.seen.get(&path) {
            return Ok(*found);
        }
        let found = match self.target.look(&path) {
            Err(errno) if is_of_one(errno) => None,
            found => found?.map(|found| (found.kind, found.modified)),
        };
        self.seen.insert(path, found);
        Ok(found)
    }
}

/// What gets which time as that of its last modification.
fn stamps(change: &Change, at: Timestamp) -> Vec<(ObjectId, Timestamp)> {
    match change {
        Change::Create { place, object, .. } => vec![(place.parent, at), (*object, at)],
        Change::Link { place, .. } | Change::Remove { place, .. } => vec![(place.parent, at)],
        Change::Rename { from, to, .. } => vec![(from.parent, at), (to.parent, at)],
        Change::Write { object, .. } | Change::Resize { object, .. } => vec![(*object, at)],
        Change::SetAttributes { object, set } => set
            .modified
            .map(|time| (*object, time))
            .into_iter()
            .collect(),
        Change::SetExtended { .. } => Vec::new(),
    }
}

/// Which object a change leaves where it can be found, and when the content of that was changed last, if the change tells.
fn leaves(change: &Change, at: Timestamp) -> Option<(ObjectId, Option<Timestamp>)> {
    match change {
        Change::Create { object, new, .. } => {
            let is_file = new.kind == NewKind::Regular;
            Some((*object, is_file.then_some(at)))
        }
        Change::Link { object, .. } | Change::Rename { object, .. } => Some((*object, None)),
        Change::Write { object, .. } | Change::Resize { object, .. } => Some((*object, Some(at))),
        Change::SetAttributes { object, set } => Some((*object, Some(set.modified?))),
        Change::Remove { .. } | Change::SetExtended { .. } => None,
    }
}
