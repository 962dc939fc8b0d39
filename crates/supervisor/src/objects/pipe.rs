//! Pipes and connections inside the domain: what a task takes out or puts in while something is undecided really happens.
//!
//! So whatever others see of the pipe is true, be it that there is something to be read. A rollback puts the bytes back in front
//! that were taken, and cuts those off the end that were put in, the newest act first.
//!
//! A pipe is two objects: what was put in, and what was taken out. Each act is a modification of one of them that also observes that
//! object; who takes bytes observes both. So a reader depends on all acts of others before its own, and a writer on what others have
//! put in, but not on what was taken: that changes the front, and what is put in the end. There is room for both, or the writer
//! waits.
//!
//! A thread that is in a call on the pipe already is made to come past that call before the first act, and later calls are heard. So
//! each task that could have seen an act is rolled back with that act.
//!
//! A connection of two stream sockets is one object with two queues of bytes. A task that reads touches one of them, but a task
//! that asks whether it can write, or that shuts a socket down, touches both. And while an act on either queue is undecided the
//! world holds both sockets, so that the kernel tells nobody of the end: each task that could notice that meets the object.
//!
//! Of a FIFO the world holds both sides likewise, for nothing opens one anew without others' noticing. It is one queue.
//!
//! Pipes from outside are inputs ([`super::input`]) and streams ([`super::stream`]): nobody there is rolled back.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::io;
use std::iter;

use rustix::io::Errno;
use rustix::process::Pid;
use surmise_engine::{ObjectId, UndoId};
use surmise_sys::seccomp::Answer;

use super::files::Target;
use super::input::{Look, Place};
use super::numbers;
use crate::call::Call;
use crate::error::bug;
use crate::kind::Kind;
use crate::map::Map;
use crate::meeting::Wanted;
use crate::member::Member;
use crate::object::{Did, ObjectKind, Obstacle};
use crate::world::{Apart, Told, World};

/// On how many pipes and connections acts are undecided at once. Each takes descriptors of this program, which has not many.
const OPEN_MAX: usize = 64;

/// One queue of bytes: a pipe has the first alone. A connection has one for each of its sockets, with what that socket is to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    First,
    Second,
}

impl Queue {
    /// The other one of the same connection.
    pub(crate) fn opposite(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// What came of taking bytes out of a pipe.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// These: at least one.
    Bytes(Vec<u8>),
    /// None, for nobody is left to write any.
    End,
    /// None that is there yet.
    Nothing,
    /// None: they could not be put back.
    Unmovable,
}

/// All pipes and connections on which an act is undecided.
#[derive(Debug)]
pub(crate) struct Pipes<W: World> {
    open: Map<Place, Pipe<W>>,
    /// Which pipe an act was done to, by its record.
    places: Map<UndoId, Place>,
    /// How many there have been.
    opened: u64,
    /// Objects that the engine may forget.
    idle: Vec<ObjectId>,
}

#[derive(Debug)]
struct Pipe<W: World> {
    pipe: W::Pipe,
    /// What was put in, and what was taken out: one object of a connection.
    puts: ObjectId,
    takes: ObjectId,
    /// The acts that are undecided, each kind in order.
    put: VecDeque<(UndoId, Queue, usize)>,
    taken: VecDeque<(UndoId, Queue, Vec<u8>)>,
}

impl<W: World> Default for Pipes<W> {
    fn default() -> Self {
        Self {
            open: Map::default(),
            places: Map::default(),
            opened: 0,
            idle: Vec::new(),
        }
    }
}

impl<W: World> Pipes<W> {
    /// A task reads, if that is from a pipe inside the domain.
    pub(crate) fn take(
        &mut self,
        world: &mut W,
        member: &Member<W>,
        call: &Call,
        (wanted, record): (&Wanted, UndoId),
        apart: &Apart,
    ) -> io::Result<Option<Did>> {
        let process = member.pid();
        let found = world.pipe(process, wanted.descriptor, false, &apart.still());
        let Some(found) = unless_short(found)? else {
            return Ok(Some(Did::Wait));
        };
        let Some(found) = found else {
            return Ok(None);
        };
        let (place, queue, pipe) = (found.place, found.queue, found.pipe);
        // What cannot be taken now may be looked at: the reader depends on all acts before.
        let otherwise = || Ok((!found.may_be_input).then_some(Did::Wait));
        let Some(length) = wanted.length().filter(|length| *length > 0) else {
            return Ok(Some(Did::Wait));
        };
        if !self.is_clear(world, (place, &pipe), call, apart) {
            return otherwise();
        }
        let Some(taken) = unless_short(world.take_out((&pipe, queue), length))? else {
            return Ok(Some(Did::Wait));
        };
        let bytes = match taken {
            Taken::Bytes(bytes) => bytes,
            // That there is nothing any more is so whatever is denied. A process that is restored with an end has it from its
            // image, which has the end open until then. One without an image that has closed an end has it from its birth:
            // the image is an ancestor's that would be restored in its place. Or the pipe is younger than that image. Then
            // nobody has an end who would not be undone, this reader among them. A FIFO may be opened again: what comes then comes
            // after this read.
            Taken::End => return Ok(Some(Did::Known(Answer::Value(0)))),
            Taken::Nothing if found.waits && wanted.waits => {
                let input = unless_short(world.await_input((&pipe, queue)))?;
                return Ok(Some(input.map_or(Did::Wait, Did::Sleeps)));
            }
            // It is so now: the reader depends on all acts before.
            Taken::Nothing => return Ok(Some(Did::Known(Answer::Error(Errno::AGAIN)))),
            Taken::Unmovable => return otherwise(),
        };
        if !world.fill(process, wanted, &bytes) {
            world.put_back((&pipe, queue), &bytes, 0)?;
            return Ok(Some(Did::Wait));
        }
        let answer = Answer::Value(bytes.len().cast_signed() as i64);
        let pipe = self.opened(world, (place, pipe), record);
        pipe.taken.push_back((record, queue, bytes));
        Ok(Some(Did::Accesses {
            object: pipe.takes,
            // The descriptor may lead elsewhere than when the call was met.
            observes: Some(pipe.puts),
            answer,
        }))
    }

    /// A task writes, if that is to a pipe inside the domain.
    pub(crate) fn put(
        &mut self,
        world: &mut W,
        member: &Member<W>,
        call: &Call,
        (descriptor, bytes, record): (u64, &[(u64, u64)], UndoId),
        apart: &Apart,
    ) -> io::Result<Did> {
        let process = member.pid();
        let found = world.pipe(process, descriptor, true, &apart.still());
        let Some(found) = unless_short(found)?.flatten() else {
            return Ok(Did::Wait);
        };
        let (place, queue, pipe) = (found.place, found.queue, found.pipe);
        let pieces = bytes.iter().map(|&bytes| world.bytes(process, bytes));
        let bytes = match pieces.collect::<Option<Vec<_>>>() {
            Some(pieces) => pieces.concat(),
            None => return Ok(Did::Wait),
        };
        if bytes.is_empty() || !self.is_clear(world, (place, &pipe), call, apart) {
            return Ok(Did::Wait);
        }
        if !world.put_in((&pipe, queue), &bytes, self.taken(place, queue))? {
            return Ok(Did::Wait);
        }
        let answer = Answer::Value(bytes.len().cast_signed() as i64);
        let pipe = self.opened(world, (place, pipe), record);
        pipe.put.push_back((record, queue, bytes.len()));
        Ok(Did::Accesses {
            object: pipe.puts,
            observes: None,
            answer,
        })
    }

    /// A task asks what is ready, and depends already on what is undecided about the pipes among that, also that some are
    /// `hung_up`: shut for writing. It may not sleep in the kernel: there it would learn of acts on which it does not depend.
    pub(crate) fn ask(
        &mut self,
        world: &mut W,
        member: &Member<W>,
        call: &Call,
        apart: &Apart,
    ) -> io::Result<Did> {
        let matters = |place| self.open.contains_key(&place);
        let hung_up = &apart.hung_up;
        let told = world.ask(member.pid(), call, (&matters, apart))?;
        Ok(match told {
            Told::Other => Did::Known(Answer::Continue),
            // Then nothing that it may ask of is undecided, be it an end.
            Told::Unknown
                if self.open.is_empty() && hung_up.is_empty() && apart.standing.is_empty() =>
            {
                Did::Known(Answer::Continue)
            }
            Told::Ready(result) => Did::Known(Answer::Value(result)),
            Told::Nothing(input) => Did::Sleeps(input),
            Told::Unknown | Told::Ending => Did::Wait,
        })
    }

    /// Whether an act may be done to a pipe: no other thread is in a call on the pipe, and there is room for one pipe more. From the
    /// first act on, a thread that begins a call on the pipe is heard first.
    fn is_clear(
        &self,
        world: &mut W,
        (place, pipe): (Place, &W::Pipe),
        call: &Call,
        apart: &Apart,
    ) -> bool {
        // Whatever stands in the way of a look, the call itself will meet it.
        self.open.contains_key(&place)
            || self.open.len() < OPEN_MAX
                && world
                    .clear(pipe, call.thread(), &apart.waiting)
                    .unwrap_or(false)
    }

    /// The FIFOs on which an act is undecided.
    pub(crate) fn fifos(&self, world: &W) -> Vec<(ObjectId, Target)> {
        let mut fifos = Vec::new();
        for pipe in self.open.values() {
            if let Some(target) = world.fifo(&pipe.pipe) {
                let undecided = pipe.undecided();
                fifos.extend(undecided.map(|object| (object, target.clone())));
            }
        }
        fifos
    }

    /// How many bytes may have to be put back into a queue. No more are kept than have room there.
    fn taken(&self, place: Place, queue: Queue) -> usize {
        self.open.get(&place).map_or(0, |pipe| pipe.taken(queue))
    }

    /// The pipe at a place, to which an act with this record is done.
    fn opened(
        &mut self,
        world: &W,
        (place, pipe): (Place, W::Pipe),
        record: UndoId,
    ) -> &mut Pipe<W> {
        self.places.insert(record, place);
        let opened = &mut self.opened;
        let mut object = || {
            *opened += 1;
            ObjectId(numbers::PIPES + *opened)
        };
        self.open.entry(place).or_insert_with(|| {
            let puts = object();
            let takes = match world.is_connection(&pipe) {
                true => puts,
                false => object(),
            };
            Pipe {
                pipe,
                puts,
                takes,
                put: VecDeque::new(),
                taken: VecDeque::new(),
            }
        })
    }

    fn of(&mut self, record: UndoId) -> io::Result<(Place, &mut Pipe<W>)> {
        let place = self.places.remove(&record);
        let place = place.ok_or_else(|| bug("nothing was done to a pipe by this record"))?;
        let pipe = self.open.get_mut(&place);
        let pipe = pipe.ok_or_else(|| bug("a pipe is not open that an act is undecided on"))?;
        Ok((place, pipe))
    }

    fn close_if_idle(&mut self, place: Place) {
        if let Entry::Occupied(pipe) = self.open.entry(place)
            && pipe.get().is_idle()
        {
            self.idle.extend(pipe.remove().objects());
        }
    }
}

/// `None` if this program has no descriptor left for that, and so has done nothing: what needs one waits.
fn unless_short<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error)
            if matches!(
                Errno::from_io_error(&error),
                Some(Errno::MFILE | Errno::NFILE)
            ) =>
        {
            Ok(None)
        }
        done => done.map(Some),
    }
}

impl<W: World> Pipe<W> {
    fn taken(&self, queue: Queue) -> usize {
        let taken = self.taken.iter().filter(|(_, of, _)| *of == queue);
        taken.map(|(.., bytes)| bytes.len()).sum()
    }

    fn is_idle(&self) -> bool {
        self.put.is_empty() && self.taken.is_empty()
    }

    /// The objects that acts are undecided on.
    fn undecided(&self) -> impl Iterator<Item = ObjectId> + use<W> {
        let puts = (!self.put.is_empty()).then_some(self.puts);
        let takes = (!self.taken.is_empty()).then_some(self.takes);
        puts.into_iter()
            .chain(takes.filter(|takes| puts != Some(*takes)))
    }

    /// Both, or the one that stands for both.
    fn objects(&self) -> impl Iterator<Item = ObjectId> + use<W> {
        let takes = Some(self.takes).filter(|takes| *takes != self.puts);
        iter::once(self.puts).chain(takes)
    }
}

impl<W: World> Pipes<W> {
    fn undo_one(&mut self, world: &mut W, record: UndoId) -> io::Result<()> {
        let (place, pipe) = self.of(record)?;
        match (pipe.taken.back(), pipe.put.back()) {
            (Some((newest, queue, bytes)), _) if *newest == record => {
                world.put_back((&pipe.pipe, *queue), bytes, 0)?;
                pipe.taken.pop_back();
            }
            (_, Some((newest, queue, length))) if *newest == record => {
                world.put_back((&pipe.pipe, *queue), &[], *length)?;
                pipe.put.pop_back();
            }
            _ => return Err(bug("an act on a pipe is undone that is not the newest")),
        }
        self.close_if_idle(place);
        Ok(())
    }

    fn release_one(&mut self, record: UndoId) -> io::Result<()> {
        let (place, pipe) = self.of(record)?;
        match (pipe.taken.front(), pipe.put.front()) {
            (Some((oldest, ..)), _) if *oldest == record => drop(pipe.taken.pop_front()),
            (_, Some((oldest, ..))) if *oldest == record => drop(pipe.put.pop_front()),
            _ => return Err(bug("an act on a pipe stays that is not the oldest")),
        }
        self.close_if_idle(place);
        Ok(())
    }
}

impl<W: World> ObjectKind<W> for Pipes<W> {
    fn kind(&self) -> Kind {
        Kind::Pipe
    }

    fn undo(&mut self, world: &mut W, records: &[UndoId]) -> io::Result<()> {
        records
            .iter()
            .try_for_each(|&record| self.undo_one(world, record))
    }

    fn release(&mut self, _: &mut W, records: &[UndoId]) -> io::Result<()> {
        records
            .iter()
            .try_for_each(|&record| self.release_one(record))
    }

    fn is_quiet(&self) -> bool {
        self.open.is_empty()
    }

    /// A call of another task sees the pipe as it is, so its process depends on that.
    fn obstacles(&mut self, world: &W, caller: Option<Pid>, call: &Call) -> Vec<Obstacle> {
        let place = match world.touches_pipe(caller, call) {
            Look::Nothing => return Vec::new(),
            Look::At { place, .. } => Some(place),
            Look::Anywhere { .. } => None,
        };
        let concerned = self.open.iter();
        let concerned = concerned.filter(|(at, _)| match place {
            Some(place) => place == **at,
            None => caller.is_none_or(|caller| world.may_touch(caller, call, **at)),
        });
        let may_depend = world.is_tracked_on_pipe(call);
        let only_puts = world.only_puts(call);
        let concerned = concerned.flat_map(|(_, pipe)| {
            let puts = pipe.puts;
            pipe.undecided().map(move |object| Obstacle {
                object,
                may_depend,
                spares_members: only_puts && object != puts,
            })
        });
        concerned.collect()
    }

    fn take_idle(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.idle)
    }
}
