//! How far a call gets with what the client has: to its answer, or to what has to come first.

use surmise_lower::FileKind;

use super::{Client, Effect, Intent, Parked, Request, Response, Step, Token, UNDECIDED_BYTES_MAX};
use crate::errno::Errno;
use crate::frame::{DATA_BYTES_MAX, Want};
use crate::lease::Mode;
use crate::lost::Undecided;
use crate::object::{Body, Name, Names, Object, ObjectId};
use crate::operation::{Change, Operation, Place};
use crate::tree::Refusal;

/// All leases that a call needs, and whether the client lacks any of them. Then it asks for all, those that it holds
/// included: it could lose these while it waits for the others, for ever.
#[derive(Default)]
struct Needs {
    wants: Vec<Want>,
    lacks_any: bool,
}

impl Client {
    /// Answers a call, or says what is in the way. A change is made when this answers [`Step::Done`].
    pub(super) fn step(
        &mut self,
        token: Token,
        parked: &Parked,
        effects: &mut Vec<Effect>,
    ) -> Step {
        // What its own programs hold a client knows, whatever it may rely on.
        let lifts = matches!(&parked.request, Request::Lock(_, attempt) if attempt.lifts());
        if parked.until.is_some() || !(self.may_rely() || lifts) {
            return Step::Wait;
        }
        match self.try_step(token, parked, effects) {
            Ok(step) => step,
            Err(Stop::Needs(wants)) => Step::Wants(wants),
            Err(Stop::Errno(errno)) => Step::Done(Err(errno)),
        }
    }

    fn try_step(
        &mut self,
        token: Token,
        parked: &Parked,
        effects: &mut Vec<Effect>,
    ) -> Result<Step, Stop> {
        let response = match &parked.request {
            Request::Lookup(parent, name) => {
                let mut needs = Needs::default();
                self.need_names(*parent, Mode::Read, &mut needs);
                let led = self.leads(*parent, name, &needs);
                if let Some(object) = led {
                    self.found(*parent, name, object);
                    self.need(object, Mode::Read, &mut needs);
                }
                needs.met()?;
                self.names_of(*parent)?;
                let known = |object| Some((object, self.tree.get(object)?.attributes));
                Response::Entry(led.and_then(known))
            }
            // A directory of which nothing is known is the root: what is in it is asked for next.
            Request::Attributes(object) if self.tree.get(*object).is_none() => {
                let mut needs = Needs::default();
                self.need_names(*object, Mode::Read, &mut needs);
                return Err(Stop::Needs(needs.wants));
            }
            Request::Attributes(object) => {
                let known = self.known(*object, Mode::Read)?;
                Response::Object(*object, known.attributes)
            }
            Request::Names(directory) => {
                let mut needs = Needs::default();
                self.need_names(*directory, Mode::Read, &mut needs);
                needs.met()?;
                Response::Names(self.names_of(*directory)?.clone())
            }
            Request::Target(object) => match &self.known(*object, Mode::Read)?.body {
                Body::Target(target) => Response::Target(target.clone()),
                _ => return Err(Errno::INVAL.into()),
            },
            Request::Extended(object) => {
                Response::Extended(self.known(*object, Mode::Read)?.extended.clone())
            }
            Request::Read {
                object,
                offset,
                length,
            } => return self.read(*object, (*offset, *length)),
            Request::Space => return Ok(Step::Space),
            Request::Change(intent) => return self.change(intent, parked, effects),
            Request::Lock(object, attempt) => {
                return self.lock(token, *object, attempt, effects);
            }
            Request::Sync(losses) => {
                if self.losses > *losses {
                    return Err(Errno::IO.into());
                }
                let last = self.groups.last();
                if last > self.groups.decided() {
                    return Ok(Step::Until(last));
                }
                Response::Done
            }
        };
        done(response)
    }

    fn read(&mut self, object: ObjectId, (offset, length): (u64, u32)) -> Result<Step, Stop> {
        let attributes = self.known(object, Mode::Read)?.attributes;
        if attributes.kind != FileKind::Regular {
            return Err(Errno::INVAL.into());
        }
        let size = attributes.size;
        let end = offset.saturating_add(length.into()).min(size);
        if let Some(missing) = self.first_missing(object, offset..end) {
            let most = (end - missing).min(DATA_BYTES_MAX as u64);
            let most = u32::try_from(most).unwrap_or(u32::MAX);
            return Ok(Step::Fetch(object, missing, most));
        }
        self.has_read(object, offset..end);
        let length = u32::try_from(end.saturating_sub(offset)).unwrap_or(u32::MAX);
        done(Response::Stored(length))
    }

    fn change(
        &mut self,
        intent: &Intent,
        parked: &Parked,
        effects: &mut Vec<Effect>,
    ) -> Result<Step, Stop> {
        // What the server performs comes first in the server's order.
        if self.groups.is_performing() || self.groups.bytes() > UNDECIDED_BYTES_MAX {
            return Ok(Step::Wait);
        }
        let change = self.resolve(intent)?;
        let operation = Operation {
            at: parked.at,
            change,
        };
        if self.only_the_server_can_tell(&operation.change) {
            return Ok(Step::Perform(operation));
        }
        let changed = operation.change.touches();
        let size = changed.first().map_or(0, |object| self.size(*object));
        let before = self.before(&operation.change);
        if let Err(refusal) = self.tree.apply(&operation) {
            return match refusal {
                Refusal::Errno(errno) => Err(errno.into()),
                // All that it changes was looked at above.
                Refusal::Unknown(_) | Refusal::Mistaken(_) => Err(Errno::IO.into()),
            };
        }
        self.keep_data(&operation.change, size, effects);
        let object = match &operation.change {
            Change::Create { place, object, .. } => {
                self.leases.insert(*object, Mode::Write);
                self.made.add(place.parent, *object);
                Some(*object)
            }
            Change::Link { object, .. }
            | Change::SetAttributes { object, .. }
            | Change::Resize { object, .. }
            | Change::Write { object, .. } => Some(*object),
            Change::Remove { .. } | Change::Rename { .. } | Change::SetExtended { .. } => None,
        };
        let nameless = |object: &ObjectId| {
            let known = self.tree.get(*object);
            known.is_some_and(|known| known.attributes.links == 0)
        };
        let touched = operation.change.touches().into_iter();
        self.candidates.extend(touched.filter(nameless));
        self.changed(Undecided { operation, before }, effects);
        let known = object.and_then(|object| Some((object, self.tree.get(object)?.attributes)));
        done(match known {
            Some((object, attributes)) => Response::Object(object, attributes),
            None => Response::Done,
        })
    }

    /// Finds out what the names of a change lead to, holding the leases that it takes.
    fn resolve(&mut self, intent: &Intent) -> Result<Change, Stop> {
        Ok(match intent {
            Intent::Create { place, new } => {
                let mut needs = Needs::default();
                self.need_names(place.parent, Mode::Write, &mut needs);
                needs.met()?;
                let object = self.new_object()?;
                let (place, new) = (place.clone(), new.clone());
                Change::Create { place, object, new }
            }
            Intent::Link { object, place } => {
                let mut needs = Needs::default();
                self.need_names(place.parent, Mode::Write, &mut needs);
                self.need(*object, Mode::Write, &mut needs);
                needs.met()?;
                let (object, place) = (*object, place.clone());
                Change::Link { object, place }
            }
            Intent::Remove { place, directory } => self.resolve_remove(place, *directory)?,
            Intent::Rename {
                from,
                to,
                no_replace,
                exchange,
            } => self.resolve_rename(from, to, *no_replace, *exchange)?,
            Intent::SetAttributes { object, set } => {
                self.known(*object, Mode::Write)?;
                let (object, set) = (*object, *set);
                Change::SetAttributes { object, set }
            }
            Intent::Resize {
                object,
                size,
                strip,
            } => {
                self.known(*object, Mode::Write)?;
                Change::Resize {
                    object: *object,
                    size: *size,
                    strip: *strip,
                }
            }
            Intent::Write {
                object,
                offset,
                data,
                strip,
            } => {
                let size = self.known(*object, Mode::Write)?.attributes.size;
                if data.len() > DATA_BYTES_MAX {
                    return Err(Errno::INVAL.into());
                }
                Change::Write {
                    object: *object,
                    offset: offset.unwrap_or(size),
                    data: data.clone(),
                    strip: *strip,
                }
            }
            Intent::SetExtended {
                object,
                name,
                value,
                create,
                replace,
            } => self.resolve_extended(*object, name, value.as_ref(), (*create, *replace))?,
        })
    }

    /// Whether a directory that moves to another one would come below itself is known only where all moves are.
    fn only_the_server_can_tell(&self, change: &Change) -> bool {
        let Change::Rename {
            from,
            object,
            to,
            replaced,
            ..
        } = change
        else {
            return false;
        };
        let moved = [Some(*object), *replaced].into_iter().flatten();
        let mut moved = moved.filter_map(|object| self.tree.get(object));
        from.parent != to.parent && moved.any(Object::is_directory)
    }

    /// Has the store follow a change of the data of a file that had this size. What lies between that and where the file
    /// goes on are zeros, also in the store.
    fn keep_data(&mut self, change: &Change, size_before: u64, effects: &mut Vec<Effect>) {
        match change {
            Change::Write {
                object,
                offset,
                data,
                ..
            } => {
                if data.is_empty() {
                    return;
                }
                self.stored
                    .entry(*object)
                    .or_default()
                    .add(size_before.min(*offset), offset + data.len() as u64);
                effects.push(Effect::Store {
                    object: *object,
                    offset: *offset,
                    data: data.clone(),
                });
            }
            Change::Resize { object, size, .. } => {
                let stored = self.stored.entry(*object).or_default();
                stored.cut(*size);
                stored.add(size_before, *size);
                effects.push(Effect::Resize(*object, *size));
            }
            _ => {}
        }
    }

    fn new_object(&mut self) -> Result<ObjectId, Stop> {
        let prefix = self.welcome.as_ref().map(|welcome| welcome.prefix);
        let id = prefix.and_then(|prefix| ObjectId::made(prefix, self.next_object));
        self.next_object = self.next_object.checked_add(1).ok_or(Errno::NOSPC)?;
        id.ok_or(Stop::Errno(Errno::NOSPC))
    }

    fn resolve_extended(
        &self,
        object: ObjectId,
        name: &Name,
        value: Option<&Vec<u8>>,
        (create, replace): (bool, bool),
    ) -> Result<Change, Stop> {
        let has_it = self.known(object, Mode::Write)?.extended.contains_key(name);
        if create && has_it {
            return Err(Errno::EXIST.into());
        }
        if replace && !has_it {
            return Err(Errno::NODATA.into());
        }
        Ok(Change::SetExtended {
            object,
            name: name.clone(),
            value: value.cloned(),
        })
    }

    fn resolve_remove(&self, place: &Place, directory: bool) -> Result<Change, Stop> {
        let mut needs = Needs::default();
        self.need_names(place.parent, Mode::Write, &mut needs);
        let led = self.leads(place.parent, &place.name, &needs);
        if let Some(object) = led {
            self.need_whole(object, &mut needs);
        }
        needs.met()?;
        self.names_of(place.parent)?;
        Ok(Change::Remove {
            place: place.clone(),
            object: led.ok_or(Errno::NOENT)?,
            directory,
        })
    }

    fn resolve_rename(
        &self,
        from: &Place,
        to: &Place,
        no_replace: bool,
        exchange: bool,
    ) -> Result<Change, Stop> {
        if no_replace && exchange {
            return Err(Errno::INVAL.into());
        }
        let mut needs = Needs::default();
        self.need_names(from.parent, Mode::Write, &mut needs);
        if from.parent != to.parent {
            self.need_names(to.parent, Mode::Write, &mut needs);
        }
        let led = self.leads(from.parent, &from.name, &needs);
        let replaced = self.leads(to.parent, &to.name, &needs);
        if let Some(object) = led {
            self.need(object, Mode::Write, &mut needs);
        }
        if let Some(replaced) = replaced.filter(|replaced| Some(*replaced) != led) {
            self.need_whole(replaced, &mut needs);
        }
        needs.met()?;
        self.names_of(from.parent)?;
        self.names_of(to.parent)?;
        let object = led.ok_or(Errno::NOENT)?;
        if no_replace && replaced.is_some() {
            return Err(Errno::EXIST.into());
        }
        if exchange && replaced.is_none() {
            return Err(Errno::NOENT.into());
        }
        Ok(Change::Rename {
            from: from.clone(),
            object,
            to: to.clone(),
            replaced,
            exchange,
        })
    }

    /// What a name leads to, if the client has the directory's names for sure.
    fn leads(&self, directory: ObjectId, name: &Name, needs: &Needs) -> Option<ObjectId> {
        if needs.lacks_any {
            return None;
        }
        self.tree.names(directory).ok()?.get(name).copied()
    }

    /// The names in a directory that the client has a lease on.
    fn names_of(&self, directory: ObjectId) -> Result<&Names, Stop> {
        self.tree.names(directory).map_err(|refusal| match refusal {
            Refusal::Errno(errno) => errno.into(),
            Refusal::Unknown(_) | Refusal::Mistaken(_) => Errno::IO.into(),
        })
    }

    pub(super) fn known(&self, object: ObjectId, mode: Mode) -> Result<&Object, Stop> {
        let mut needs = Needs::default();
        self.need(object, mode, &mut needs);
        needs.met()?;
        self.tree.get(object).ok_or(Stop::Errno(Errno::IO))
    }

    /// The write lease on an object that loses its name, and the names if it is a directory.
    fn need_whole(&self, object: ObjectId, needs: &mut Needs) {
        if self.tree.get(object).is_some_and(Object::is_directory) {
            self.need_names(object, Mode::Write, needs);
        } else {
            self.need(object, Mode::Write, needs);
        }
    }

    fn need(&self, object: ObjectId, mode: Mode, needs: &mut Needs) {
        let is_known = self.tree.get(object).is_some();
        needs.lacks_any |= !is_known || self.leases.get(&object) < Some(&mode);
        needs.wants.push(self.want(object, mode, false));
    }

    fn need_names(&self, directory: ObjectId, mode: Mode, needs: &mut Needs) {
        let has_names = !matches!(self.tree.names(directory), Err(Refusal::Unknown(_)));
        needs.lacks_any |= !has_names || self.leases.get(&directory) < Some(&mode);
        needs.wants.push(self.want(directory, mode, true));
    }

    pub(super) fn want(&self, object: ObjectId, mode: Mode, names: bool) -> Want {
        // What was told of a directory without its names would not be told again with them.
        let kept = self
            .tree
            .get(object)
            .filter(|known| !matches!(known.body, Body::Names(None)) || !names)
            .map(|known| known.versions);
        Want {
            object,
            mode,
            names,
            kept,
        }
    }
}

impl Needs {
    fn met(self) -> Result<(), Stop> {
        if self.lacks_any {
            Err(Stop::Needs(self.wants))
        } else {
            Ok(())
        }
    }
}

/// Why a call gets no further.
pub(super) enum Stop {
    Needs(Vec<Want>),
    Errno(Errno),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

fn done(response: Response) -> Result<Step, Stop> {
    Ok(Step::Done(Ok(response)))
}
