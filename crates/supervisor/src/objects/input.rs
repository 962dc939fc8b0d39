//! Input for tasks that depend on something undecided: it is looked at, and taken when that is affirmed.
//!
//! What a task reads from a pipe or a stream is gone for everybody else, and cannot be put back in front of
//! what is there by then. So nothing is taken for a guess: the task is given a copy of the bytes, behind
//! those that it was given before, and they stay where they are. A rollback forgets that; and whatever process is
//! killed, no byte is lost.
//!
//! Meanwhile the bytes are there for others, too. A process that reads the next bytes comes to depend on what those
//! depend on that were given the bytes before: it would have been given these. A call by which any process would take or
//! see what was given already waits until that is decided.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::io;

use rustix::fs::Stat;
use rustix::process::Pid;
use surmise_engine::{ObjectId, UndoId};
use surmise_sys::seccomp::Answer;

use super::numbers;
use crate::call::Call;
use crate::error::bug;
use crate::kind::Kind;
use crate::map::Map;
use crate::meeting::Wanted;
use crate::member::Member;
use crate::object::{Did, ObjectKind, Obstacle};
use crate::world::World;

/// A pipe or a socket: the numbers of its device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place(pub(crate) u64, pub(crate) u64);

impl Place {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self(stat.st_dev, stat.st_ino)
    }
}

/// What a read would be given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Peeked {
    /// These bytes: at least one.
    Bytes(Vec<u8>),
    /// None, for nobody is left to write any.
    End,
    /// It is not known, or the read would have to wait.
    Unknown,
}

/// What of its caller's a call may take input from, or look for input at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Nothing,
    /// This place; `is_read` says that the call's result may be input that is not yet taken.
    At {
        place: Place,
        is_read: bool,
    },
    /// It may be any place.
    Anywhere {
        is_read: bool,
    },
}

/// All of which something was given that is not yet taken.
#[derive(Debug)]
pub(crate) struct Inputs<W: World> {
    open: Map<Place, Input<W>>,
    /// Where what was given by a record is from.
    places: Map<UndoId, Place>,
    /// How many there have been.
    opened: u64,
    /// Objects that the engine may forget.
    idle: Vec<ObjectId>,
}

#[derive(Debug)]
struct Input<W: World> {
    source: W::Input,
    object: ObjectId,
    /// What was given and is not yet taken, in order.
    given: VecDeque<Given>,
}

/// What a process was given by one record.
#[derive(Clone, Copy, Debug)]
struct Given {
    record: UndoId,
    reader: Pid,
    length: usize,
}

impl<W: World> Input<W> {
    /// Whether one process was given all of it.
    fn is_all_of(&self, reader: Pid) -> bool {
        self.given.iter().all(|given| given.reader == reader)
    }
}

/// What a read would give: no bytes at the end.
struct Found<W: World> {
    place: Place,
    source: W::Input,
    bytes: Vec<u8>,
}

impl<W: World> Default for Inputs<W> {
    fn default() -> Self {
        Self {
            open: Map::default(),
            places: Map::default(),
            opened: 0,
            idle: Vec::new(),
        }
    }
}

impl<W: World> Inputs<W> {
    /// Whether a read is from where something was given that is not yet taken.
    pub(crate) fn have_given(
        &self,
        world: &mut W,
        member: &Member<W>,
        wanted: &Wanted,
    ) -> io::Result<bool> {
        if self.open.is_empty() {
            return Ok(false);
        }
        // Whatever stands in the way of a look, the call itself will meet it.
        let found = world.input(member.pid(), wanted).unwrap_or(None);
        Ok(found.is_some_and(|(place, _)| self.open.contains_key(&place)))
    }

    /// Gives a task input that is not yet taken.
    pub(crate) fn give(
        &mut self,
        world: &mut W,
        member: &Member<W>,
        call: &Call,
        (wanted, record): (&Wanted, UndoId),
    ) -> io::Result<Did> {
        let process = member.pid();
        if wanted.header.is_some() {
            // A look tells of bytes alone.
            return Ok(Did::Wait);
        }
        // Whatever stands in the way of a look, the call itself will meet it.
        let Ok(Some(found)) = self.look(world, process, call.thread(), wanted) else {
            return Ok(Did::Wait);
        };
        let length = found.bytes.len();
        if !world.fill(process, wanted, &found.bytes) {
            return Ok(Did::Wait);
        }
        let answer = Answer::Value(length.cast_signed() as i64);
        if length == 0 {
            // That there is nothing any more is so whatever task sees it.
            return Ok(Did::Known(answer));
        }
        let object = self.note(found, process, record);
        Ok(Did::Accesses {
            object,
            observes: None,
            answer,
        })
    }

    /// What a read would give, if that is known.
    fn look(
        &mut self,
        world: &mut W,
        process: Pid,
        thread: Pid,
        wanted: &Wanted,
    ) -> io::Result<Option<Found<W>>> {
        let Some(length) = wanted.length() else {
            return Ok(None);
        };
        let Some((place, source)) = world.input(process, wanted)? else {
            return Ok(None);
        };
        let skipped = match self.open.get(&place) {
            Some(input) => input.given.iter().map(|given| given.length).sum(),
            // From now on a thread that begins to take input is heard first; one that has begun was not.
            None if world.may_take(place, thread) => return Ok(None),
            None => 0,
        };
        let bytes = match world.peek(&source, skipped, length)? {
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

    /// Notes that a process is given something. Returns the object that it is from.
    fn note(&mut self, found: Found<W>, reader: Pid, record: UndoId) -> ObjectId {
        let opened = &mut self.opened;
        let input = self.open.entry(found.place).or_insert_with(|| {
            *opened += 1;
            Input {
                source: found.source,
                object: ObjectId(numbers::INPUTS + *opened),
                given: VecDeque::new(),
            }
        });
        input.given.push_back(Given {
            record,
            reader,
            length: found.bytes.len(),
        });
        self.places.insert(record, found.place);
        input.object
    }

    fn place(&mut self, record: UndoId) -> io::Result<Place> {
        let place = self.places.remove(&record);
        place.ok_or_else(|| bug("nothing was given by this record"))
    }

    fn close_if_idle(&mut self, place: Place) {
        if let Entry::Occupied(input) = self.open.entry(place)
            && input.get().given.is_empty()
        {
            self.idle.push(input.remove().object);
        }
    }
}

impl<W: World> Inputs<W> {
    fn take_back(&mut self, record: UndoId) -> io::Result<()> {
        let place = self.place(record)?;
        let input = self.open.get_mut(&place);
        let newest = input.and_then(|input| input.given.pop_back());
        self.close_if_idle(place);
        match newest {
            Some(newest) if newest.record == record => Ok(()),
            _ => Err(bug("input is taken back that was not given last")),
        }
    }

    fn settle(&mut self, world: &mut W, record: UndoId) -> io::Result<()> {
        let place = self.place(record)?;
        let input = self.open.get_mut(&place);
        let taken = match input.map(|input| (input.given.pop_front(), &input.source)) {
            Some((Some(oldest), source)) if oldest.record == record => {
                world.take(source, oldest.length)
            }
            _ => Err(bug("input is taken that was not given first")),
        };
        self.close_if_idle(place);
        taken
    }
}

impl<W: World> ObjectKind<W> for Inputs<W> {
    fn kind(&self) -> Kind {
        Kind::Input
    }

    /// What was given is not any more.
    fn undo(&mut self, _: &mut W, records: &[UndoId]) -> io::Result<()> {
        records
            .iter()
            .try_for_each(|record| self.take_back(*record))
    }

    /// What was given is taken.
    fn release(&mut self, world: &mut W, records: &[UndoId]) -> io::Result<()> {
        let mut records = records.iter();
        records.try_for_each(|record| self.settle(world, *record))
    }

    fn obstacles(&mut self, world: &W, caller: Option<Pid>, call: &Call) -> Vec<Obstacle> {
        let (place, is_read) = match world.looks_at(caller, call) {
            Look::Nothing => return Vec::new(),
            Look::At { place, is_read } => (Some(place), is_read),
            Look::Anywhere { is_read } => (None, is_read),
        };
        let concerned = self.open.iter().filter(|(at, input)| {
            let is_own = caller.is_some_and(|caller| input.is_all_of(caller));
            place.is_none_or(|place| place == **at) && !(is_read && is_own)
        });
        let concerned = concerned.map(|(_, input)| Obstacle {
            object: input.object,
            // What is read there comes after what others were given, who may have been given it wrongly.
            may_depend: is_read && place.is_some(),
            spares_members: false,
        });
        concerned.collect()
    }

    fn is_quiet(&self) -> bool {
        self.open.is_empty()
    }

    fn take_idle(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.idle)
    }
}
