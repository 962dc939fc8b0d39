//! Exits of processes that depended on something undecided: the child does not end yet, and its parent is told.
//!
//! An exit is an object. The child modifies it and then stands still; its image is there to go back to. The parent that
//! collects the exit modifies it as well, so it depends on all that the child depends on. The child really ends once its
//! own part is certain and the parent's is: until then the parent might come not to have collected it.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use rustix::process::Pid;
use surmise_checkpoint::Account;
use surmise_engine::{ObjectId, UndoId};
use surmise_syscalls::Syscall;

use super::numbers;
use crate::call::Call;
use crate::error::bug;
use crate::kind::Kind;
use crate::map::Map;
use crate::meeting::Ending;
use crate::object::{ObjectKind, Obstacle};
use crate::world::World;

/// An exit that is held.
#[derive(Debug)]
pub(crate) struct Exit {
    pub(crate) child: Pid,
    pub(crate) ending: Ending,
    pub(crate) account: Account,
    /// The parent's record, if it has collected the exit, and when it has.
    collected: Option<(UndoId, Instant)>,
    /// Whether the child's part, and the parent's, can no more be undone.
    has_ended: bool,
    is_reaped: bool,
}

impl Exit {
    pub(crate) fn new(child: Pid, ending: Ending, account: Account) -> Self {
        Self {
            child,
            ending,
            account,
            collected: None,
            has_ended: false,
            is_reaped: false,
        }
    }

    fn is_record_of_parent(&self, record: UndoId) -> bool {
        self.collected
            .is_some_and(|(collected, _)| collected == record)
    }

    /// Whether the parent was told.
    pub(crate) fn is_collected(&self) -> bool {
        self.collected.is_some()
    }

    /// Whether all about it is certain.
    fn is_due(&self) -> bool {
        self.has_ended && (self.collected.is_none() || self.is_reaped)
    }
}

/// All exits that are held.
#[derive(Debug, Default)]
pub(crate) struct Exits {
    held: BTreeMap<ObjectId, Exit>,
    /// Which one a record is about.
    records: Map<UndoId, ObjectId>,
    /// Parents that have not collected these children, though they were told.
    retracted: Vec<(Pid, u64)>,
    /// How many there have been.
    made: u64,
    /// Objects that the engine may forget.
    idle: Vec<ObjectId>,
}

impl Exits {
    /// A child stands still at its exit.
    pub(crate) fn hold(&mut self, exit: Exit, record: UndoId) -> ObjectId {
        self.made += 1;
        let object = ObjectId(numbers::EXITS + self.made);
        self.held.insert(object, exit);
        self.records.insert(record, object);
        object
    }

    /// The exits that a parent has not collected, the first one first.
    pub(crate) fn collectable(&self, parent: Pid) -> impl Iterator<Item = (ObjectId, &Exit)> {
        let held = self.held.iter();
        let of_parent =
            held.filter(move |(_, exit)| exit.ending.parent == parent && !exit.is_collected());
        of_parent.map(|(object, exit)| (*object, exit))
    }

    pub(crate) fn get(&self, object: ObjectId) -> Option<&Exit> {
        self.held.get(&object)
    }

    /// The parent collects an exit.
    pub(crate) fn collect(&mut self, object: ObjectId, record: UndoId, now: Instant) {
        if let Some(exit) = self.held.get_mut(&object) {
            exit.collected = Some((record, now));
            self.records.insert(record, object);
        }
    }

    /// Whether a process stands still at its exit, or will have to collect one really.
    pub(crate) fn need(&self, process: Pid) -> bool {
        let mut held = self.held.values();
        held.any(|exit| {
            exit.child == process || exit.is_collected() && exit.ending.parent == process
        })
    }

    /// The processes that stand still at their exits.
    pub(crate) fn standing(&self) -> impl Iterator<Item = (Pid, ObjectId)> {
        self.held.iter().map(|(&object, exit)| (exit.child, object))
    }

    /// Whether a process stands still at its exit.
    pub(crate) fn hold_back(&self, process: Pid) -> bool {
        self.held.values().any(|exit| exit.child == process)
    }

    /// The children of a process that have ended as far as it knows.
    pub(crate) fn collected_by(&self, parent: Pid) -> Vec<Pid> {
        let held = self.held.values();
        let collected = held.filter(|exit| exit.is_collected() && exit.ending.parent == parent);
        collected.map(|exit| exit.child).collect()
    }

    /// When a parent was told of a child that has not really ended, by its number.
    pub(crate) fn told_at(&self, parent: Pid, number: u64) -> Option<Instant> {
        let mut held = self.held.values();
        held.find_map(|exit| {
            let is_meant = exit.ending.parent == parent && exit.ending.number == number;
            exit.collected.filter(|_| is_meant).map(|(_, told)| told)
        })
    }

    /// Takes the numbers of the children that a parent was told of and has not collected.
    pub(crate) fn take_retracted(&mut self, of: Pid) -> Vec<u64> {
        let retracted = std::mem::take(&mut self.retracted).into_iter();
        let (taken, others): (Vec<_>, _) = retracted.partition(|(parent, _)| *parent == of);
        self.retracted = others;
        taken.into_iter().map(|(_, number)| number).collect()
    }

    /// Those that are left have been killed.
    pub(crate) fn forget_retracted(&mut self) {
        self.retracted.clear();
    }

    /// Takes an exit that is to happen now: the first of those that can.
    pub(crate) fn take_due(&mut self, can_happen: impl Fn(&Exit) -> bool) -> Option<Exit> {
        let mut held = self.held.iter();
        let (&object, _) = held.find(|(_, exit)| exit.is_due() && can_happen(exit))?;
        self.idle.push(object);
        self.held.remove(&object)
    }

    fn object(&mut self, record: UndoId) -> io::Result<ObjectId> {
        let object = self.records.remove(&record);
        object.ok_or_else(|| bug("no exit has this record"))
    }
}

impl Exits {
    /// The child has not exited, or the parent has not collected it.
    fn undo_one(&mut self, record: UndoId) -> io::Result<()> {
        let object = self.object(record)?;
        let Some(exit) = self.held.get_mut(&object) else {
            return Err(bug("an exit is undone that has happened"));
        };
        if exit.is_record_of_parent(record) {
            exit.collected = None;
            self.retracted
                .push((exit.ending.parent, exit.ending.number));
            return Ok(());
        }
        if exit.is_collected() || exit.has_ended {
            return Err(bug("an exit is undone that others know of"));
        }
        self.held.remove(&object);
        self.idle.push(object);
        Ok(())
    }

    fn release_one(&mut self, record: UndoId) -> io::Result<()> {
        let object = self.object(record)?;
        // The child may have been killed meanwhile.
        if let Some(exit) = self.held.get_mut(&object) {
            match exit.is_record_of_parent(record) {
                true => exit.is_reaped = true,
                false => exit.has_ended = true,
            }
        }
        Ok(())
    }
}

impl<W: World> ObjectKind<W> for Exits {
    fn kind(&self) -> Kind {
        Kind::Exit
    }

    fn undo(&mut self, _: &mut W, records: &[UndoId]) -> io::Result<()> {
        records.iter().try_for_each(|&record| self.undo_one(record))
    }

    fn release(&mut self, _: &mut W, records: &[UndoId]) -> io::Result<()> {
        records
            .iter()
            .try_for_each(|&record| self.release_one(record))
    }

    fn is_quiet(&self) -> bool {
        self.held.is_empty()
    }

    /// Who has collected a child must not find the child again by its number.
    fn obstacles(&mut self, _: &W, caller: Option<Pid>, call: &Call) -> Vec<Obstacle> {
        let number = match call.name() {
            Syscall::Getpgid | Syscall::Getsid | Syscall::PidfdOpen => call.arguments()[0],
            _ => return Vec::new(),
        };
        // The kernel looks at the lower half of the register alone.
        let is_found = |exit: &Exit| {
            exit.is_collected()
                && Some(exit.ending.parent) == caller
                && exit.ending.number as u32 == number as u32
        };
        let held = self.held.iter().filter(|(_, exit)| is_found(exit));
        let found = held.map(|(&object, _)| Obstacle {
            object,
            may_depend: false,
        });
        found.collect()
    }

    fn take_idle(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.idle)
    }
}
