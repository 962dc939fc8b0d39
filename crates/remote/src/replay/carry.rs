//! Steps are carried out.

use super::decide::is_as_good_as;
use super::{Moves, Replay, Step, Target};
use crate::errno::Errno;
use crate::lost::Undecided;
use crate::object::Name;
use crate::operation::{Change, NewKind, SetAttributes};

/// Errors by which a file system says that it does not take one change. By any other one it takes none.
const OF_ONE: [Errno; 22] = [
    Errno::PERM,
    Errno::NOENT,
    Errno::ACCES,
    Errno::EXIST,
    Errno::NOTDIR,
    Errno::ISDIR,
    Errno::INVAL,
    Errno::FBIG,
    Errno::MLINK,
    Errno::NAMETOOLONG,
    Errno::NOTEMPTY,
    Errno::NODATA,
    Errno::OPNOTSUPP,
    Errno::STALE,
    // E2BIG, EBUSY, EXDEV, ETXTBSY, ERANGE, ENOSYS, ELOOP and EOVERFLOW.
    Errno(7),
    Errno(16),
    Errno(18),
    Errno(26),
    Errno(34),
    Errno(38),
    Errno(40),
    Errno(75),
];

pub(super) fn is_of_one(errno: Errno) -> bool {
    OF_ONE.contains(&errno)
}

impl Replay<'_> {
    /// What was begun earlier and may not have been carried out, to be carried out again.
    pub fn begun(&self) -> Option<&Step> {
        self.begun.as_ref()
    }

    /// Carries a step out that was noted. `again` tells that it may have been carried out before. An error that is
    /// returned by `Ok` is to be noted, and the next step be decided anew.
    ///
    /// # Errors
    /// The target takes nothing more. The step is to be carried out again later.
    pub fn carry_out(
        &mut self,
        target: &mut impl Target,
        step: Step,
        again: bool,
    ) -> Result<Option<Errno>, Errno> {
        let outcome = match &step {
            Step::Make { beside, moves } => match self.change() {
                Some(undecided) => self.make(target, undecided, (beside.as_ref(), *moves), again),
                None => Ok(()),
            },
            Step::Anew {
                place, directory, ..
            } => self.path_at(place.parent, &place.name).and_then(|path| {
                let kind = match directory {
                    true => NewKind::Directory,
                    false => NewKind::Regular,
                };
                make(target, &path, &kind)
            }),
            Step::Copy { object, place } => {
                let from = self.names.path(*object).ok_or(Errno::NOENT);
                let to = self.path_at(place.parent, &place.name);
                from.and_then(|from| target.copy(&from, &to?, again))
            }
            Step::Leave(_) => Ok(()),
        };
        match outcome {
            Ok(()) => {
                self.begun = None;
                self.did(&step);
                Ok(None)
            }
            Err(errno) if is_of_one(errno) => {
                self.fail(errno);
                Ok(Some(errno))
            }
            Err(errno) => {
                self.begun = Some(step);
                Err(errno)
            }
        }
    }

    /// All changes are made: the objects get the permissions and times that they had at the end. It can be done again.
    ///
    /// # Errors
    /// The target takes nothing more.
    pub fn finish(&mut self, target: &mut impl Target) -> Result<(), Errno> {
        let of = |(object, set)| Some((self.names.path(object)?, set));
        let mut all: Vec<_> = self
            .last
            .iter()
            .map(|(id, set)| (*id, *set))
            .filter_map(of)
            .collect();
        // A directory may be closed to its owner afterwards.
        all.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        for (path, set) in all {
            if target.look(&path)?.is_none() {
                continue;
            }
            match target.set_attributes(&path, &set) {
                // Others have changed it meanwhile, or it cannot be this user's to give away.
                Err(errno) if is_of_one(errno) => {}
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// The paths that a name moves from and to.
    pub(super) fn move_of(
        &self,
        change: &Change,
        beside: Option<&Name>,
    ) -> Option<(Vec<Name>, Vec<Name>)> {
        let Change::Rename {
            from, to, replaced, ..
        } = change
        else {
            return None;
        };
        let (from, to) = (self.names.meant(from), self.names.goal(to, *replaced));
        let from = self.names.path_at(from.parent, &from.name)?;
        let to = self.names.path_at(to.parent, beside.unwrap_or(&to.name))?;
        Some((from, to))
    }

    fn path_at(&self, parent: crate::object::ObjectId, name: &Name) -> Result<Vec<Name>, Errno> {
        self.names.path_at(parent, name).ok_or(Errno::NOENT)
    }

    fn make(
        &self,
        target: &mut impl Target,
        undecided: &Undecided,
        (beside, moves): (Option<&Name>, Option<(Moves, u64)>),
        again: bool,
    ) -> Result<(), Errno> {
        let path_of = |object| self.names.path(object).ok_or(Errno::NOENT);
        match &undecided.operation.change {
            Change::Create { place, new, .. } => {
                let path = self.path_at(place.parent, beside.unwrap_or(&place.name))?;
                make(target, &path, &new.kind)
            }
            Change::Link { object, place } => {
                let to = self.path_at(place.parent, beside.unwrap_or(&place.name))?;
                link(target, &path_of(*object)?, &to)
            }
            Change::Remove {
                place, directory, ..
            } => {
                let place = self.names.meant(place);
                let path = self.path_at(place.parent, &place.name)?;
                match target.remove(&path, *directory) {
                    Err(Errno::NOENT) => Ok(()),
                    outcome => outcome,
                }
            }
            change @ Change::Rename { .. } => {
                let (from, to) = self.move_of(change, beside).ok_or(Errno::NOENT)?;
                rename(target, (&from, &to), moves.ok_or(Errno::INVAL)?, again)
            }
            Change::SetAttributes { object, set } => {
                // What the replay has made gets them at the end. Until then it can be written. What it has written gets its
                // times then.
                let now = match (self.made.contains(object), self.ours.contains(object)) {
                    (true, _) => SetAttributes::default(),
                    (false, true) => SetAttributes {
                        accessed: None,
                        modified: None,
                        ..*set
                    },
                    (false, false) => *set,
                };
                target.set_attributes(&path_of(*object)?, &now)
            }
            Change::Resize { object, size, .. } => target.resize(&path_of(*object)?, *size),
            Change::Write {
                object,
                offset,
                data,
                ..
            } => target.write(&path_of(*object)?, *offset, data),
            Change::SetExtended {
                object,
                name,
                value,
            } => {
                match target.set_extended(&path_of(*object)?, name, value.as_deref()) {
                    // It was removed, by this replay or others.
                    Err(Errno::NODATA) if value.is_none() => Ok(()),
                    outcome => outcome,
                }
            }
        }
    }
}

/// Makes an object, or takes what is there for it if nothing is in that.
fn make(target: &mut impl Target, path: &[Name], kind: &NewKind) -> Result<(), Errno> {
    match target.make(path, kind) {
        Err(Errno::EXIST) => match target.look(path)? {
            Some(found) if is_as_good_as(&found, kind) => Ok(()),
            _ => Err(Errno::EXIST),
        },
        outcome => outcome,
    }
}

/// Gives an object one more name, unless it has that already.
fn link(target: &mut impl Target, from: &[Name], to: &[Name]) -> Result<(), Errno> {
    match target.link(from, to) {
        Err(Errno::EXIST) => {
            let mut number = |path| Ok(target.look(path)?.map(|found| found.number));
            let (one, other) = (number(from)?, number(to)?);
            match one.is_some() && one == other {
                true => Ok(()),
                false => Err(Errno::EXIST),
            }
        }
        outcome => outcome,
    }
}

/// Moves a name that leads to the object of this number, unless it has moved already.
fn rename(
    target: &mut impl Target,
    (from, to): (&[Name], &[Name]),
    (how, number): (Moves, u64),
    again: bool,
) -> Result<(), Errno> {
    if again && has_moved(target, (from, to), number)? {
        return Ok(());
    }
    target.rename(from, to, how)
}

/// Whether what had the first of these names has the other one.
pub(super) fn has_moved(
    target: &mut impl Target,
    (from, to): (&[Name], &[Name]),
    number: u64,
) -> Result<bool, Errno> {
    let mut is_at = |path| {
        let found = target.look(path)?;
        Ok(found.is_some_and(|found| found.number == number))
    };
    Ok(is_at(to)? && !is_at(from)?)
}
