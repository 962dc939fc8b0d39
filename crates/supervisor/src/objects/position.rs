//! Positions in open files that several processes have: what one reads or writes meanwhile moves them for all.
//!
//! An open file that a process shares with others has one position (open file descriptions of open(2)). Each call that moves the
//! position while something is undecided is a modification that also observes the position, as an act on a pipe is
//! ([`super::pipe`]): the process that moves it depends on all moves of others before. A rollback gives back the position of before the
//! oldest move that is undone.
//!
//! The kernel moves it when the call happens, which is after the call was let go. So before a process' first move since its newest
//! image, and after a move of another process, no other thread may still be in a call that moves the position.

use std::collections::VecDeque;
use std::io;

use rustix::process::Pid;
use surmise_engine::{CkptId, ObjectId, UndoId};
use surmise_sys::seccomp::Answer;

use super::numbers;
use crate::call::Call;
use crate::error::bug;
use crate::kind::Kind;
use crate::map::Map;
use crate::member::Member;
use crate::object::{Did, ObjectKind, Obstacle};
use crate::world::World;

/// All open files of which a move is undecided.
#[derive(Debug)]
pub(crate) struct Positions<W: World> {
    moved: Vec<Moved<W>>,
    /// By thread: by which descriptors its last call may move positions.
    under_way: Map<Pid, [Option<u64>; 2]>,
    /// How many there have been.
    opened: u64,
    /// Objects that the engine may forget.
    idle: Vec<ObjectId>,
}

/// An open file whose position was moved.
#[derive(Debug)]
struct Moved<W: World> {
    description: W::Description,
    object: ObjectId,
    /// The moves that are undecided, in order.
    moves: VecDeque<Move>,
}

/// All moves of a process since its newest image, if no other process came between.
#[derive(Debug)]
struct Move {
    record: UndoId,
    /// The position before the first of them.
    before: u64,
    process: Pid,
    image: Option<CkptId>,
}

/// Which open file a descriptor leads to, of those that were moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    At(usize),
    Nothing,
    Unknown,
}

impl<W: World> Default for Positions<W> {
    fn default() -> Self {
        Self {
            moved: Vec::new(),
            under_way: Map::default(),
            opened: 0,
            idle: Vec::new(),
        }
    }
}

impl<W: World> Positions<W> {
    /// Whether a move is undecided of what a descriptor leads to. True in doubt.
    pub(crate) fn has(&self, world: &W, process: Pid, descriptor: u64) -> bool {
        self.find(world, process, descriptor) != Found::Nothing
    }

    fn find(&self, world: &W, process: Pid, descriptor: u64) -> Found {
        for (index, one) in self.moved.iter().enumerate() {
            match world.leads_to(process, descriptor, &one.description) {
                Some(true) => return Found::At(index),
                Some(false) => {}
                None => return Found::Unknown,
            }
        }
        Found::Nothing
    }

    /// A member is about to move the position of what a descriptor leads to. `waiting`: the threads whose calls wait for their
    /// answers.
    pub(crate) fn moves(
        &mut self,
        world: &mut W,
        (member, call): (&Member<W>, &Call),
        (descriptor, record): (u64, UndoId),
        waiting: &[Pid],
    ) -> io::Result<Did> {
        let (process, image) = (member.pid(), member.newest_image());
        let known = self.find(world, process, descriptor);
        if let Found::At(index) = known
            && let Some(newest) = self.moved[index].moves.back()
            && (newest.process, newest.image) == (process, image)
        {
            // No other process has moved it since. What the process has gained since with the same image the
            // object has taken, too; and once another process had met the move, it could gain nothing without a newer image.
            return Ok(Did::Known(Answer::Continue));
        }
        let index = match known {
            Found::At(index) => index,
            Found::Unknown => return Ok(Did::Wait),
            Found::Nothing => match self.open(world, process, descriptor)? {
                Some(index) => index,
                None => return Ok(Did::Wait),
            },
        };
        let moved = &self.moved[index];
        let others = self.others_under_way(world, call.thread(), &moved.description);
        if !others.is_empty() && !world.come_past(&others, waiting)? {
            self.close_if_idle(index);
            return Ok(Did::Wait);
        }
        for other in others {
            self.past(other);
        }
        let moved = &mut self.moved[index];
        let before = world.position(&moved.description)?;
        moved.moves.push_back(Move {
            record,
            before,
            process,
            image,
        });
        Ok(Did::Accesses {
            object: moved.object,
            observes: None,
            answer: Answer::Continue,
        })
    }

    fn open(&mut self, world: &W, process: Pid, descriptor: u64) -> io::Result<Option<usize>> {
        let Some(description) = world.description(process, descriptor)? else {
            return Ok(None);
        };
        self.opened += 1;
        self.moved.push(Moved {
            description,
            object: ObjectId(numbers::POSITIONS + self.opened),
            moves: VecDeque::new(),
        });
        Ok(Some(self.moved.len() - 1))
    }

    /// The threads but one whose calls may be moving this position now.
    fn others_under_way(&self, world: &W, but: Pid, description: &W::Description) -> Vec<Pid> {
        let others = self.under_way.iter().filter(|(thread, descriptors)| {
            let mut descriptors = descriptors.iter().flatten();
            let may_lead = |&number| world.leads_to(**thread, number, description) != Some(false);
            **thread != but && descriptors.any(may_lead)
        });
        others.map(|(thread, _)| *thread).collect()
    }

    /// A call of a thread is let go.
    pub(crate) fn let_go(&mut self, thread: Pid, descriptors: [Option<u64>; 2]) {
        if descriptors != [None; 2] {
            self.under_way.insert(thread, descriptors);
        }
    }

    /// A thread has come past its call.
    pub(crate) fn past(&mut self, thread: Pid) {
        // Hardly ever is any to be forgotten.
        if !self.under_way.is_empty() {
            self.under_way.remove(&thread);
        }
    }

    /// The open files that are kept here for writing: the object of each, and the number of its inode in the view.
    pub(crate) fn written(&self, world: &W) -> io::Result<Vec<(ObjectId, u64)>> {
        let mut found = Vec::new();
        for one in &self.moved {
            let inode = world.written(&one.description)?;
            found.extend(inode.map(|inode| (one.object, inode)));
        }
        Ok(found)
    }

    /// Takes out the move of a record, which is at this end of those of its open file. Returns the position before.
    fn end(
        &mut self,
        record: UndoId,
        take: fn(&mut VecDeque<Move>) -> Option<Move>,
    ) -> io::Result<(usize, u64)> {
        let mut moved = self.moved.iter();
        let is_its = |one: &Moved<W>| one.moves.iter().any(|one| one.record == record);
        let index = moved.position(is_its);
        let index = index.ok_or_else(|| bug("nothing was moved by this record"))?;
        match take(&mut self.moved[index].moves) {
            Some(taken) if taken.record == record => Ok((index, taken.before)),
            _ => Err(bug("others have moved a position in between")),
        }
    }

    fn close_if_idle(&mut self, index: usize) {
        if self.moved[index].moves.is_empty() {
            self.idle.push(self.moved.remove(index).object);
        }
    }
}

impl<W: World> ObjectKind<W> for Positions<W> {
    fn kind(&self) -> Kind {
        Kind::Position
    }

    fn undo(&mut self, world: &mut W, records: &[UndoId]) -> io::Result<()> {
        for &record in records {
            let (index, before) = self.end(record, VecDeque::pop_back)?;
            world.set_position(&self.moved[index].description, before)?;
            self.close_if_idle(index);
        }
        Ok(())
    }

    fn release(&mut self, _: &mut W, records: &[UndoId]) -> io::Result<()> {
        for &record in records {
            let (index, _) = self.end(record, VecDeque::pop_front)?;
            self.close_if_idle(index);
        }
        Ok(())
    }

    fn is_quiet(&self) -> bool {
        self.moved.is_empty()
    }

    /// A call of another task moves the position from where it is, so its process depends on that.
    fn obstacles(&mut self, world: &W, caller: Option<Pid>, call: &Call) -> Vec<Obstacle> {
        let Some(caller) = caller else {
            return Vec::new();
        };
        let descriptors = world.moves(call);
        let concerned = self.moved.iter().filter(|one| {
            let mut descriptors = descriptors.iter().flatten();
            descriptors.any(|&number| {
                let leads = world.leads_to(caller, number, &one.description);
                leads != Some(false)
            })
        });
        let concerned = concerned.map(|one| Obstacle {
            object: one.object,
            may_depend: true,
            spares_members: false,
        });
        concerned.collect()
    }

    fn take_idle(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.idle)
    }
}
