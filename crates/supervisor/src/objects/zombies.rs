//! Children that have ended, each of which its parent has collected though that may be undone.
//!
//! That the child has ended is certain: it was not held. The parent modifies an object, which is its alone. While that may be undone,
//! the kernel keeps the child for it, and so would tell it of the child again.

use std::collections::BTreeMap;
use std::io;

use rustix::process::Pid;
use surmise_engine::{ObjectId, UndoId};

use super::exits::finds_child;
use super::numbers;
use crate::call::Call;
use crate::error::bug;
use crate::kind::Kind;
use crate::map::Map;
use crate::object::{ObjectKind, Obstacle};
use crate::world::World;

/// A child that has ended and is not reaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Zombie {
    pub(crate) child: Pid,
    pub(crate) parent: Pid,
    /// The child's, as the parent knows it.
    pub(crate) number: u64,
}

/// All such children that their parents have collected.
#[derive(Debug, Default)]
pub(crate) struct Zombies {
    kept: BTreeMap<ObjectId, Zombie>,
    /// Which one a record is about.
    records: Map<UndoId, ObjectId>,
    /// Those that are to be reaped: their parents have collected them for good.
    due: Vec<Zombie>,
    /// How many there have been.
    made: u64,
    /// Objects that the engine may forget.
    idle: Vec<ObjectId>,
}

impl Zombies {
    /// A parent collects one.
    pub(crate) fn tell(&mut self, zombie: Zombie, record: UndoId) -> ObjectId {
        self.made += 1;
        let object = ObjectId(numbers::ZOMBIES + self.made);
        self.kept.insert(object, zombie);
        self.records.insert(record, object);
        object
    }

    /// Takes one that is to be reaped now: the first of those that can.
    pub(crate) fn take_due(&mut self, can_be: impl Fn(&Zombie) -> bool) -> Option<Zombie> {
        let place = self.due.iter().position(can_be)?;
        Some(self.due.remove(place))
    }

    fn all(&self) -> impl Iterator<Item = &Zombie> {
        self.kept.values().chain(&self.due)
    }

    /// Whether a process has collected one that it has not reaped.
    pub(crate) fn need(&self, process: Pid) -> bool {
        self.all().any(|zombie| zombie.parent == process)
    }

    /// The children that a process has collected and not reaped.
    pub(crate) fn collected_by(&self, parent: Pid) -> impl Iterator<Item = Pid> {
        let of_parent = self.all().filter(move |zombie| zombie.parent == parent);
        of_parent.map(|zombie| zombie.child)
    }

    fn end(&mut self, record: UndoId) -> io::Result<Zombie> {
        let object = self.records.remove(&record);
        let object = object.ok_or_else(|| bug("no zombie has this record"))?;
        self.idle.push(object);
        let zombie = self.kept.remove(&object);
        zombie.ok_or_else(|| bug("a zombie is collected twice"))
    }
}

impl<W: World> ObjectKind<W> for Zombies {
    fn kind(&self) -> Kind {
        Kind::Zombie
    }

    fn undo(&mut self, _: &mut W, records: &[UndoId]) -> io::Result<()> {
        records
            .iter()
            .try_for_each(|&record| self.end(record).map(drop))
    }

    fn release(&mut self, _: &mut W, records: &[UndoId]) -> io::Result<()> {
        for &record in records {
            let zombie = self.end(record)?;
            self.due.push(zombie);
        }
        Ok(())
    }

    fn is_quiet(&self) -> bool {
        self.kept.is_empty()
    }

    fn obstacles(&mut self, _: &W, caller: Option<Pid>, call: &Call) -> Vec<Obstacle> {
        let is_found =
            |zombie: &Zombie| Some(zombie.parent) == caller && finds_child(call, zombie.number);
        let found = self.kept.iter().filter(|(_, zombie)| is_found(zombie));
        let found = found.map(|(&object, _)| Obstacle {
            object,
            may_depend: false,
            spares_members: false,
        });
        found.collect()
    }

    fn take_idle(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.idle)
    }
}
