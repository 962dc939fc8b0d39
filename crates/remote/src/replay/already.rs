//! What the server had made of lost changes before the replay.
//!
//! The server makes a client's changes in their order, and gives what it changes the time of the change, to the nanosecond. So
//! the last change whose time is found tells that all before it are made, too. Only times that the client has stamped count,
//! and not those that programs have set.

use std::collections::{HashMap, HashSet};

use surmise_lower::Timestamp;

use super::{Replay, Target};
use crate::errno::Errno;
use crate::object::{Name, ObjectId};
use crate::operation::Change;

impl Replay<'_> {
    /// How many of the changes the target has already, if it is the directory that they were made in. The caller notes that
    /// before anything else ([`Progress::Already`](super::Progress::Already)).
    ///
    /// # Errors
    /// Of the target.
    pub fn already(&self, target: &mut impl Target) -> Result<usize, Errno> {
        let mut names = self.names.clone();
        let mut times: HashMap<Vec<Name>, Option<Timestamp>> = HashMap::new();
        // Changes of one object at one time cannot be told from each other: the first of them counts.
        let mut seen: HashSet<(ObjectId, Timestamp)> = HashSet::new();
        let mut already = 0;
        for (index, undecided) in self.lost.changes.iter().enumerate() {
            let at = undecided.operation.at;
            names.change(undecided, None);
            for object in stamps(&undecided.operation.change) {
                if !seen.insert((object, at)) {
                    continue;
                }
                let Some(path) = names.path(object) else {
                    continue;
                };
                let found = match times.get(&path) {
                    Some(found) => *found,
                    None => {
                        let found = target.look(&path)?.map(|found| found.modified);
                        times.insert(path, found);
                        found
                    }
                };
                if found == Some(at) {
                    already = index + 1;
                }
            }
        }
        Ok(already)
    }

    pub(super) fn were_made(&mut self, count: usize) {
        for undecided in self.lost.changes.iter().take(count) {
            self.names.change(undecided, None);
        }
        self.next = count;
    }
}

/// What gets the time of a change as that of its last modification.
fn stamps(change: &Change) -> Vec<ObjectId> {
    match change {
        Change::Create { place, object, .. } => vec![place.parent, *object],
        Change::Link { place, .. } | Change::Remove { place, .. } => vec![place.parent],
        Change::Rename { from, to, .. } => vec![from.parent, to.parent],
        Change::Write { object, .. } | Change::Resize { object, .. } => vec![*object],
        Change::SetAttributes { .. } | Change::SetExtended { .. } => Vec::new(),
    }
}
