//! What the next step is.

use surmise_lower::FileKind;

use super::carry::is_of_one;
use super::names::conflict;
use super::{ANEW_MAX, Found, Moves, Replay, Step, TRIES, Target, Why};
use crate::errno::Errno;
use crate::lost::{Before, Undecided};
use crate::object::{Name, ObjectId};
use crate::operation::{Change, NewKind, Place};

/// What an object is called whose name is not known.
const UNNAMED: &[u8] = b"unnamed";

/// How many names for what is set beside are tried.
const NAMES_MAX: u32 = 100_000;

/// Why the next change is not made now.
enum Stop {
    /// This is to be done first.
    First(Step),
    Leave(Why),
    Errno(Errno),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// As the next change is.
const PLAIN: Step = Step::Make {
    beside: None,
    moves: None,
};

impl Replay<'_> {
    /// The next step, which the caller notes and has carried out; `None` at the end. A step that was begun comes again.
    ///
    /// # Errors
    /// Of the target.
    pub fn decide(&mut self, target: &mut impl Target) -> Result<Option<Step>, Errno> {
        let Some(undecided) = self.change() else {
            return Ok(None);
        };
        if let (TRIES.., Some(errno)) = self.failures {
            return Ok(Some(Step::Leave(Why::Refused(errno))));
        }
        if self.anew >= ANEW_MAX {
            return Ok(Some(Step::Leave(Why::Gone)));
        }
        match self.step(target, undecided) {
            Ok(step) | Err(Stop::First(step)) => Ok(Some(step)),
            Err(Stop::Leave(why)) => Ok(Some(Step::Leave(why))),
            Err(Stop::Errno(errno)) if is_of_one(errno) => {
                Ok(Some(Step::Leave(Why::Refused(errno))))
            }
            Err(Stop::Errno(errno)) => Err(errno),
        }
    }

    fn step(&mut self, target: &mut impl Target, undecided: &Undecided) -> Result<Step, Stop> {
        match &undecided.operation.change {
            Change::Create { place, new, .. } => {
                let path = self.at(target, place)?;
                let found = target.look(&path)?;
                let is_free = found.is_none_or(|found| is_as_good_as(&found, &new.kind));
                self.make_at(target, place, is_free)
            }
            Change::Link { object, place } => {
                let from = self.there(target, *object)?.1;
                let path = self.at(target, place)?;
                let found = target.look(&path)?;
                let is_free = found.is_none_or(|found| found.number == from.number);
                self.make_at(target, place, is_free)
            }
            Change::Remove {
                place,
                object,
                directory,
            } => {
                let place = self.names.meant(place);
                let Some(path) = self.names.path_at(place.parent, &place.name) else {
                    return Err(Stop::Leave(Why::Gone));
                };
                let Some(found) = target.look(&path)? else {
                    return Ok(PLAIN);
                };
                let is_directory = found.kind == FileKind::Directory;
                let is_it = match directory {
                    true => is_directory,
                    false => {
                        let before = undecided.before;
                        !is_directory && self.may_go(target, (*object, &place), &found, before)?
                    }
                };
                match is_it {
                    true => Ok(PLAIN),
                    false => Err(Stop::Leave(Why::Changed)),
                }
            }
            Change::Rename { exchange: true, .. } => self.exchange(target, undecided),
            Change::Rename { .. } => self.rename(target, undecided),
            Change::Write { object, .. } | Change::Resize { object, .. } => {
                self.file(target, *object, undecided.before)?;
                Ok(PLAIN)
            }
            Change::SetAttributes { object, .. } | Change::SetExtended { object, .. } => {
                self.there(target, *object)?;
                Ok(PLAIN)
            }
        }
    }

    /// Makes the next change with the name of its own, or one beside it.
    fn make_at(
        &mut self,
        target: &mut impl Target,
        place: &Place,
        is_free: bool,
    ) -> Result<Step, Stop> {
        let beside = match is_free {
            true => None,
            false => Some(self.free(target, place.parent, place.name.as_bytes())?),
        };
        Ok(Step::Make {
            beside,
            moves: None,
        })
    }

    fn rename(&mut self, target: &mut impl Target, undecided: &Undecided) -> Result<Step, Stop> {
        let Change::Rename {
            from,
            object,
            to,
            replaced,
            ..
        } = &undecided.operation.change
        else {
            unreachable!("the caller has looked");
        };
        if *replaced == Some(*object) {
            return Ok(Step::Leave(Why::Nameless));
        }
        let moved = self.moved(target, *object, from)?;
        let meant = self.names.goal(to, *replaced);
        let path = self.at(target, &meant)?;
        let (how, beside) = match target.look(&path)? {
            None => (Moves::ToFree, None),
            Some(found) => {
                // Only an empty directory is replaced by another one.
                let are_directories = [found.kind, moved.kind] == [FileKind::Directory; 2];
                let may_go = match replaced {
                    None => false,
                    Some(_) if are_directories => true,
                    Some(replaced) => {
                        let replaced = (*replaced, &meant);
                        self.may_go(target, replaced, &found, undecided.before)?
                    }
                };
                match may_go {
                    true => (Moves::Over, None),
                    false => {
                        let name = self.free(target, to.parent, to.name.as_bytes())?;
                        (Moves::ToFree, Some(name))
                    }
                }
            }
        };
        let moves = Some((how, moved.number));
        Ok(Step::Make { beside, moves })
    }

    fn exchange(&mut self, target: &mut impl Target, undecided: &Undecided) -> Result<Step, Stop> {
        let Change::Rename {
            from,
            object,
            to,
            replaced: Some(replaced),
            ..
        } = &undecided.operation.change
        else {
            return Err(Stop::Leave(Why::Gone));
        };
        let number = self.moved(target, *object, from)?.number;
        self.moved(target, *replaced, to)?;
        Ok(Step::Make {
            beside: None,
            moves: Some((Moves::Exchange, number)),
        })
    }

    /// What moves with this name.
    fn moved(
        &mut self,
        target: &mut impl Target,
        object: ObjectId,
        place: &Place,
    ) -> Result<Found, Stop> {
        let gone = || Stop::Leave(Why::Gone);
        let place = self.names.meant(place);
        let path = self.names.path_at(place.parent, &place.name);
        let found = target.look(&path.ok_or_else(gone)?)?.ok_or_else(gone)?;
        let is_it = self.names.has(object, &place)
            || self.names.is_unknown(object)
            || self.is_another_name(target, object, &found)?;
        match is_it && !self.is_another(object, &found) {
            true => Ok(found),
            false => Err(gone()),
        }
    }

    /// Whether what has a name that is not known to be an object's is the object.
    fn is_another_name(
        &self,
        target: &mut impl Target,
        object: ObjectId,
        found: &Found,
    ) -> Result<bool, Errno> {
        let path = self.names.path(object);
        let known = path.map(|path| target.look(&path)).transpose()?.flatten();
        Ok(known.is_some_and(|known| known.number == found.number))
    }

    /// The path of a name in a directory that is there.
    fn at(&mut self, target: &mut impl Target, place: &Place) -> Result<Vec<Name>, Stop> {
        let mut path = self.directory(target, place.parent)?;
        path.push(place.name.clone());
        Ok(path)
    }

    fn directory(
        &mut self,
        target: &mut impl Target,
        directory: ObjectId,
    ) -> Result<Vec<Name>, Stop> {
        if self.names.is_nameless(directory) {
            return Err(Stop::Leave(Why::Nameless));
        }
        let is_there = |target: &mut _, path: &[Name]| {
            let found = Target::look(target, path)?;
            Ok::<_, Errno>(found.is_some_and(|found| found.kind == FileKind::Directory))
        };
        let Some(chain) = self.names.chain(directory) else {
            return Err(self.anew(target, (directory, self.names.root, UNNAMED), true)?);
        };
        let path: Vec<_> = chain.iter().map(|(_, name)| name.clone()).collect();
        if is_there(target, &path)? {
            return Ok(path);
        }
        let mut parent = self.names.root;
        for (depth, (object, name)) in chain.iter().enumerate() {
            if !is_there(target, &path[..=depth])? {
                return Err(self.anew(target, (*object, parent, name.as_bytes()), true)?);
            }
            parent = *object;
        }
        Ok(path)
    }

    /// The path of a file that may be written.
    fn file(
        &mut self,
        target: &mut impl Target,
        object: ObjectId,
        before: Option<Before>,
    ) -> Result<Vec<Name>, Stop> {
        if self.names.is_nameless(object) {
            return Err(Stop::Leave(Why::Nameless));
        }
        let Some((_, above)) = self
            .names
            .chain(object)
            .as_deref()
            .and_then(<[_]>::split_last)
            .map(|(last, above)| (last.clone(), above.last().map(|(parent, _)| *parent)))
        else {
            return Err(self.anew(target, (object, self.names.root, UNNAMED), false)?);
        };
        let parent = above.unwrap_or(self.names.root);
        self.directory(target, parent)?;
        let path = self.names.path(object).ok_or(Errno::IO)?;
        let name = path.last().ok_or(Errno::IO)?.clone();
        match target.look(&path)? {
            Some(found) if found.kind == FileKind::Regular => {
                if self.is_unchanged(object, &found, before) {
                    return Ok(path);
                }
                let name = self.free(target, parent, name.as_bytes())?;
                let place = Place { parent, name };
                Err(Stop::First(Step::Copy { object, place }))
            }
            _ => Err(self.anew(target, (object, parent, name.as_bytes()), false)?),
        }
    }

    /// What is at the path of an object.
    fn there(
        &mut self,
        target: &mut impl Target,
        object: ObjectId,
    ) -> Result<(Vec<Name>, Found), Stop> {
        if self.names.is_nameless(object) {
            return Err(Stop::Leave(Why::Nameless));
        }
        let gone = || Stop::Leave(Why::Gone);
        let path = self.names.path(object).ok_or_else(gone)?;
        let found = target.look(&path)?.ok_or_else(gone)?;
        Ok((path, found))
    }

    /// Whether what has a name is the object of the change, and may go.
    fn may_go(
        &self,
        target: &mut impl Target,
        (object, place): (ObjectId, &Place),
        found: &Found,
        before: Option<Before>,
    ) -> Result<bool, Errno> {
        if !self.ours.contains(&object) || self.names.has(object, place) {
            return Ok(self.is_unchanged(object, found, before));
        }
        self.is_another_name(target, object, found)
    }

    fn anew(
        &mut self,
        target: &mut impl Target,
        (object, parent, name): (ObjectId, ObjectId, &[u8]),
        directory: bool,
    ) -> Result<Stop, Errno> {
        let name = self.free(target, parent, name)?;
        Ok(Stop::First(Step::Anew {
            object,
            place: Place { parent, name },
            directory,
        }))
    }

    /// A name beside this one that nothing has.
    fn free(
        &mut self,
        target: &mut impl Target,
        parent: ObjectId,
        name: &[u8],
    ) -> Result<Name, Errno> {
        let above = self.names.path(parent).ok_or(Errno::IO)?;
        let first = self.free.entry((parent, name.to_vec())).or_insert(1);
        for number in *first..=NAMES_MAX {
            *first = number;
            let name = conflict(name, number);
            let mut path = above.clone();
            path.push(name.clone());
            if target.look(&path)?.is_none() {
                return Ok(name);
            }
        }
        Err(Errno::EXIST)
    }
}

/// Whether what is found may be taken for a new object: nothing is in it that could be lost.
pub(super) fn is_as_good_as(found: &Found, kind: &NewKind) -> bool {
    found.kind == kind.kind()
        && match kind {
            NewKind::Regular => found.size == 0,
            NewKind::Symlink(target) => found.target.as_ref() == Some(target),
            _ => true,
        }
}
