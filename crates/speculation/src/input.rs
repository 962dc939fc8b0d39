//! Input for tasks that depend on something undecided: it is looked at, and taken when that is affirmed.
//!
//! What a task reads from a pipe or a stream is gone for everybody else, and cannot be put back in front of
//! what is there by then. So nothing is taken for a guess: the task is given a copy of the bytes, behind
//! those that it was given before, and they stay where they are. A rollback forgets that; and whoever is
//! killed, no byte is lost.
//!
//! Meanwhile the bytes are there for others, too. So there is one reader at a time whose guesses are
//! undecided, and they are decided before anybody else takes or looks at what it was given, or the reader
//! itself by a call that would find it unread ([`Speculator::make_way`]).

mod calls;
mod readers;
mod source;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::io;

use rustix::fs::Stat;
use rustix::process::Pid;
use surmise_checkpoint::Gate;
use surmise_engine::{Access, Answer, ObjectId, UndoId};
use surmise_sys::memory;
use surmise_sys::seccomp::Notification;

use crate::deciding::Occasion;
use crate::door::pending;
use crate::records::Record;
use crate::speculator::{Speculator, SpeculatorError, fail, refused};
use crate::task;
use calls::Reach;
pub(crate) use readers::Readers;
use source::{LENGTH_MAX, Peeked, Source};

/// Inputs have numbers above this as the engine's objects; others have smaller ones.
const OBJECTS_BEFORE: u64 = 1 << 32;

/// A pipe or a socket: the numbers of its device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place(u64, u64);

impl Place {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self(stat.st_dev, stat.st_ino)
    }
}

/// What a read asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) descriptor: u64,
    /// Where in the process' memory there is room for how many bytes, to be filled in this order.
    pub(crate) room: Vec<(u64, u64)>,
}

impl Wanted {
    /// How much room there is altogether; `None` where it is more than is ever given. The lengths are the
    /// program's, and may be any numbers: what the kernel says to them it says itself.
    fn length(&self) -> Option<usize> {
        let mut lengths = self.room.iter().map(|&(_, length)| length);
        let length = lengths.try_fold(0, u64::checked_add)?;
        let length = usize::try_from(length).ok()?;
        (length <= LENGTH_MAX).then_some(length)
    }
}

/// All of which something was given that is not yet taken.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    open: HashMap<Place, Input>,
    /// How many there have been.
    opened: u64,
    /// Objects that the engine may forget.
    idle: Vec<ObjectId>,
}

#[derive(Debug)]
struct Input {
    source: Source,
    object: ObjectId,
    /// The process that was given it.
    reader: Pid,
    /// What was given and is not yet taken, in order: records, and how many bytes each.
    given: VecDeque<(UndoId, usize)>,
}

/// What a read would give: no bytes at the end.
struct Found {
    place: Place,
    source: Source,
    bytes: Vec<u8>,
}

impl Input {
    fn length(&self) -> usize {
        self.given.iter().map(|(_, length)| length).sum()
    }
}

impl Inputs {
    /// Notes that a process is given something. Returns the object that it is from.
    fn give(&mut self, found: Found, reader: Pid, record: UndoId) -> ObjectId {
        let opened = &mut self.opened;
        let input = self.open.entry(found.place).or_insert_with(|| {
            *opened += 1;
            Input {
                source: found.source,
                object: ObjectId(OBJECTS_BEFORE + *opened),
                reader,
                given: VecDeque::new(),
            }
        });
        input.given.push_back((record, found.bytes.len()));
        input.object
    }

    /// What was given by a record is not any more.
    pub(crate) fn undo(&mut self, place: Place, record: UndoId) -> io::Result<()> {
        let input = self.open.get_mut(&place);
        let newest = input.and_then(|input| input.given.pop_back());
        self.close_if_idle(place);
        match newest {
            Some((newest, _)) if newest == record => Ok(()),
            _ => Err(io::Error::other("input that was not given last")),
        }
    }

    /// Takes what was given by a record.
    pub(crate) fn take(&mut self, place: Place, record: UndoId) -> io::Result<()> {
        let input = self.open.get_mut(&place);
        let taken = match input.map(|input| (input.given.pop_front(), &input.source)) {
            Some((Some((oldest, length)), source)) if oldest == record => source.take(length),
            _ => Err(io::Error::other("input that was not given first")),
        };
        self.close_if_idle(place);
        taken
    }

    fn close_if_idle(&mut self, place: Place) {
        if let Entry::Occupied(input) = self.open.entry(place)
            && input.get().given.is_empty()
        {
            self.idle.push(input.remove().object);
        }
    }

    /// The objects that nothing depends on any more.
    pub(crate) fn take_idle(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.idle)
    }
}

impl Speculator {
    /// Has decided what was given to others, or to the caller itself, and would be seen or taken by a call.
    pub(crate) fn make_way(
        &mut self,
        call: &Notification,
        name: &str,
        occasion: &mut Occasion,
    ) -> Result<(), SpeculatorError> {
        if self.inputs.open.is_empty() {
            return Ok(());
        }
        let reach = calls::looking(name, &call.arguments);
        if reach == Reach::Nothing {
            return Ok(());
        }
        let caller = task::process_of(call.thread).map_err(fail("find a process"))?;
        let place = match (reach, caller) {
            (Reach::Descriptor(number), Some(process)) => match task::file(process, number) {
                Ok(Some((_, stat))) => Some(Place::of(&stat)),
                Ok(None) => return Ok(()),
                // It may be anything.
                Err(_) => None,
            },
            _ => None,
        };
        // What the reader itself reads comes after what it was given.
        let is_read = calls::may_be_given(name);
        let concerned = self.inputs.open.iter().filter(|(at, input)| {
            place.is_none_or(|place| place == **at) && !(is_read && caller == Some(input.reader))
        });
        let readers: Vec<_> = concerned.map(|(_, input)| input.reader).collect();
        for reader in readers {
            self.decide_all(reader, occasion)?;
        }
        Ok(())
    }

    /// Gives a task input that is not yet taken. False if it has to wait.
    pub(crate) fn give(
        &mut self,
        process: Pid,
        call: &Notification,
        wanted: &Wanted,
    ) -> Result<bool, SpeculatorError> {
        // Whatever stands in the way of a look, the call itself will meet it.
        let Ok(Some(found)) = self.look_for_input(process, call.thread, wanted) else {
            return Ok(false);
        };
        let length = found.bytes.len();
        let is_put = write_into(process, &wanted.room, &found.bytes).is_ok();
        // That there is nothing any more is so whoever sees it.
        if !is_put || length > 0 && !self.note_given(process, found)? {
            return Ok(false);
        }
        self.readers.answered(call.thread);
        // Whoever is killed before it knows of its input depends on its guesses like all that it did.
        let answered = self.door.answer(pending(call), length.cast_signed() as i64);
        answered.map(|_| true).map_err(fail("answer a call"))
    }

    /// What a read would give, if that is known.
    fn look_for_input(
        &mut self,
        process: Pid,
        thread: Pid,
        wanted: &Wanted,
    ) -> io::Result<Option<Found>> {
        let (Some(length), Some((file, stat))) =
            (wanted.length(), task::file(process, wanted.descriptor)?)
        else {
            return Ok(None);
        };
        let place = Place::of(&stat);
        let channels = self.channels.as_ref();
        if channels.is_none_or(|channels| channels.is_kept(place)) || self.seen.has_odd_sockets() {
            return Ok(None);
        }
        let Some(source) = Source::of(file, &stat)? else {
            return Ok(None);
        };
        let skipped = match self.inputs.open.get(&place) {
            Some(input) if input.reader != process => return Ok(None),
            Some(input) => input.length(),
            // From now on whoever begins to take input is heard first; whoever has begun was not.
            None if self.readers.may_take(place, thread) => return Ok(None),
            None => 0,
        };
        let bytes = match source.peek(skipped, length)? {
            Peeked::Bytes(bytes) => bytes,
            Peeked::End if length > 0 => Vec::new(),
            Peeked::End | Peeked::Unknown => return Ok(None),
        };
        Ok(Some(Found {
            place,
            source,
            bytes,
        }))
    }

    /// Tells the engine of what a process is about to be given. False if it must not be.
    fn note_given(&mut self, process: Pid, found: Found) -> Result<bool, SpeculatorError> {
        let Some(member) = self.members.get(&process) else {
            return Ok(false);
        };
        let (place, task) = (found.place, member.task);
        let record = self.records.add(Record::Input(place));
        let object = self.inputs.give(found, process, record);
        let mut effects = Vec::new();
        let access = Access::Both(Some(record));
        let answer = self.engine.access(task, object, access, &mut effects);
        let answer = answer.map_err(refused("note input"))?;
        if answer != Answer::Go {
            let forgotten = self.records.take(record);
            let forgotten = forgotten.and_then(|_| self.inputs.undo(place, record));
            forgotten.map_err(fail("take back input"))?;
        }
        self.perform(effects, &mut Occasion::default())?;
        Ok(answer == Answer::Go)
    }
}

fn write_into(process: Pid, room: &[(u64, u64)], bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    for &(address, length) in room {
        let (piece, others) = rest.split_at(rest.len().min(length as usize));
        memory::write(process, address, piece)?;
        rest = others;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_counted_as_far_as_anything_is_given() {
        let length = |room: &[(u64, u64)]| {
            let room = room.to_vec();
            Wanted {
                descriptor: 0,
                room,
            }
            .length()
        };
        const MOST: u64 = LENGTH_MAX as u64;
        assert_eq!(length(&[]), Some(0));
        assert_eq!(length(&[(1, 3), (9, 0), (5, 4)]), Some(7));
        assert_eq!(length(&[(1, MOST - 1), (9, 1)]), Some(LENGTH_MAX));
        assert_eq!(length(&[(1, MOST), (9, 1)]), None);
        assert_eq!(length(&[(1, u64::MAX)]), None);
        assert_eq!(length(&[(1, u64::MAX), (9, 1)]), None);
        assert_eq!(length(&[(1, 1 << 63), (2, 1 << 63), (3, 5)]), None);
    }
}
