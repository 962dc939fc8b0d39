//! By what a replay knows the files again that it has written. Others may write them while it is interrupted.

use serde::{Deserialize, Serialize};
use surmise_lower::{FileKind, Timestamp};

use super::carry::has_moved;
use super::{Found, Progress, Replay, Step, Target};
use crate::errno::Errno;
use crate::lost::{Before, Undecided};
use crate::object::{Name, ObjectId};
use crate::operation::Change;

/// A file as the replay has left it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Its number, `st_ino`.
    pub number: u64,
    /// In bytes.
    pub size: u64,
    /// Last change of its content.
    pub modified: Timestamp,
}

impl Stamp {
    fn of(found: &Found) -> Self {
        Self {
            number: found.number,
            size: found.size,
            modified: found.modified,
        }
    }
}

impl Replay<'_> {
    /// How the file is that the last step was about, which the caller notes behind the step; `None` if there is none.
    ///
    /// # Errors
    /// Of the target.
    pub fn stamp(&mut self, target: &mut impl Target) -> Result<Option<Progress>, Errno> {
        let Some(object) = self.touched.take() else {
            return Ok(None);
        };
        let Some(path) = self.names.path(object) else {
            return Ok(None);
        };
        let found = target.look(&path)?;
        let Some(found) = found.filter(|found| found.kind == FileKind::Regular) else {
            return Ok(None);
        };
        let stamp = Stamp::of(&found);
        self.stamps.insert(object, stamp);
        Ok(Some(Progress::Has(object, stamp)))
    }

    /// What was begun before an interruption and has to be carried out again. If it is done, or if that cannot be told since others
    /// have changed its file, the progress is to be noted, and the next step be decided.
    ///
    /// # Errors
    /// Of the target.
    pub fn take_up(
        &mut self,
        target: &mut impl Target,
    ) -> Result<(Option<Step>, Option<Progress>), Errno> {
        let Some(step) = self.begun.clone() else {
            return Ok((None, None));
        };
        let is_certain = match (&step, self.change()) {
            (Step::Make { beside, moves }, Some(undecided)) => {
                let moves = moves.map(|(_, number)| (beside.as_ref(), number));
                self.is_certain(target, undecided, moves)?
            }
            _ => true,
        };
        if !is_certain {
            self.note(Progress::Unsure);
            return Ok((None, Some(Progress::Unsure)));
        }
        Ok((Some(step), None))
    }

    /// Whether a change that was begun can be carried out again: what is there is what it was decided on, or what it makes of that.
    fn is_certain(
        &self,
        target: &mut impl Target,
        undecided: &Undecided,
        moves: Option<(Option<&Name>, u64)>,
    ) -> Result<bool, Errno> {
        match (&undecided.operation.change, moves) {
            // If it is done, it is decided to do nothing.
            (Change::Remove { .. }, _) => Ok(false),
            (Change::Rename { .. }, Some((beside, number))) => {
                let Some((from, to)) = self.move_of(&undecided.operation.change, beside) else {
                    return Ok(false);
                };
                has_moved(target, (&from, &to), number)
            }
            (Change::Write { object, .. } | Change::Resize { object, .. }, _) => {
                let Some(path) = self.names.path(*object) else {
                    return Ok(true);
                };
                let before = self.known(*object, undecided.before);
                let (Some(found), Some(before)) = (target.look(&path)?, before) else {
                    return Ok(true);
                };
                if (found.size, found.modified) == (before.size, before.modified) {
                    return Ok(true);
                }
                Ok(match &undecided.operation.change {
                    Change::Write { offset, data, .. } => {
                        let same = target.same(&path, *offset, data)?;
                        let is_all = same == data.len() as u64;
                        let end = offset.saturating_add(same);
                        // One that ended in the middle has made the file longer.
                        (is_all || end > before.size) && found.size == before.size.max(end)
                    }
                    Change::Resize { size, .. } => found.size == *size,
                    _ => true,
                })
            }
            _ => Ok(true),
        }
    }

    /// How a file was when the replay left it, or else before the change.
    fn known(&self, object: ObjectId, before: Option<Before>) -> Option<Stamp> {
        let of_before = |before: Before| Stamp {
            number: 0,
            size: before.size,
            modified: before.modified,
        };
        let stamp = self.stamps.get(&object).copied();
        stamp.or_else(|| before.map(of_before))
    }

    /// Whether nobody but the replay has changed a file since the changes were lost.
    pub(super) fn is_unchanged(
        &self,
        object: ObjectId,
        found: &Found,
        before: Option<Before>,
    ) -> bool {
        let is_before =
            |before: Before| before.size == found.size && before.modified == found.modified;
        match self.stamps.get(&object) {
            Some(stamp) => *stamp == Stamp::of(found),
            None => self.ours.contains(&object) || before.is_some_and(is_before),
        }
    }

    /// Whether what has an object's name is certainly something else.
    pub(super) fn is_another(&self, object: ObjectId, found: &Found) -> bool {
        let stamp = self.stamps.get(&object);
        stamp.is_some_and(|stamp| stamp.number != found.number)
    }
}
