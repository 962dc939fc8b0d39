//! Exits of processes that depended on something undecided: the child does not end yet, and its parent is told.
//!
//! An exit is an object. The child modifies it and then stands still; its image is there to go back to. The parent that
//! collects the exit modifies it as well, so it depends on all that the child depends on. The child really ends once its
//! own part is certain and the parent's is: until then the parent might come not to have collected it.
//!
//! A parent that sleeps until a signal comes is told before it asks: the exit is announced to it, which is one more part of
//! the parent's, with a record of its own.

use std::collections::BTreeMap;
use std::io;

use rustix::process::Pid;
use surmise_checkpoint::Account;
use surmise_engine::{CkptId, ObjectId, UndoId};
use surmise_syscalls::Syscall;

use super::numbers;
use super::wait::Ended;
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
    /// Whether the child's part can no more be undone.
    has_ended: bool,
    /// Whether the child has closed all that it had open.
    has_closed: bool,
    announced: Option<Part>,
    collected: Option<Part>,
}

/// What the parent has learnt of an exit.
#[derive(Debug)]
struct Part {
    record: UndoId,
    /// The newest image then, of whatever process. A rollback of the parent to that one or an older one undoes the part.
    since: CkptId,
    /// Whether it can no more be undone.
    is_certain: bool,
}

impl Exit {
    pub(crate) fn new(child: Pid, ending: Ending, account: Account) -> Self {
        Self {
            child,
            ending,
            account,
            has_ended: false,
            has_closed: false,
            announced: None,
            collected: None,
        }
    }

    /// What a parent is told that collects it.
    pub(crate) fn ended(&self) -> Ended {
        let (ending, account) = (&self.ending, &self.account);
        Ended::by_exit(ending.number, account.user, ending.status, account.usage)
    }

    /// Whether the parent has collected it.
    pub(crate) fn is_collected(&self) -> bool {
        self.collected.is_some()
    }

    /// Whether the signal that tells of it has come to the parent before the parent asked.
    pub(crate) fn is_announced(&self) -> bool {
        self.announced.is_some()
    }

    /// Whether the parent knows of it.
    pub(crate) fn is_known(&self) -> bool {
        self.is_announced() || self.is_collected()
    }

    /// The parent's part that has this record.
    fn part(&mut self, record: UndoId) -> Option<&mut Option<Part>> {
        let mut parts = [&mut self.announced, &mut self.collected].into_iter();
        parts.find(|part| part.as_ref().is_some_and(|part| part.record == record))
    }

    /// Whether all about it is certain.
    fn is_due(&self) -> bool {
        let mut parts = [&self.announced, &self.collected].into_iter().flatten();
        self.has_ended && parts.all(|part| part.is_certain)
    }
}

/// Whether a call would find a child by its number, be it one that has ended.
pub(super) fn finds_child(call: &Call, child: u64) -> bool {
    let is_meant = matches!(
        call.name(),
        Syscall::Getpgid | Syscall::Getsid | Syscall::PidfdOpen
    );
    // The kernel looks at the lower half of the register alone.
    is_meant && call.arguments()[0] as u32 == child as u32
}

/// All exits that are held.
#[derive(Debug, Default)]
pub(crate) struct Exits {
    held: BTreeMap<ObjectId, Exit>,
    /// Which one a record is about.
    records: Map<UndoId, ObjectId>,
    /// Parents that have not heard of the ends of these children, though the signal came that tells so.
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

    /// The parent learns of an exit: it collects the child, or hears before of the end by a signal.
    pub(crate) fn tell(&mut self, object: ObjectId, collects: bool, record: UndoId, since: CkptId) {
        if let Some(exit) = self.held.get_mut(&object) {
            let part = match collects {
                true => &mut exit.collected,
                false => &mut exit.announced,
            };
            *part = Some(Part {
                record,
                since,
                is_certain: false,
            });
            self.records.insert(record, object);
        }
    }

    /// The exits that a parent has not heard of, the first one first.
    pub(crate) fn unknown_to(&self, parent: Pid) -> impl Iterator<Item = ObjectId> {
        let uncollected = self.collectable(parent);
        let unknown = uncollected.filter(|(_, exit)| !exit.is_announced());
        unknown.map(|(object, _)| object)
    }

    /// Whether a parent was told of an exit before it asked, and has not asked.
    pub(crate) fn are_announced(&self, parent: Pid) -> bool {
        let mut uncollected = self.collectable(parent);
        uncollected.any(|(_, exit)| exit.is_announced())
    }

    /// Whether a process stands still at its exit, or knows of one that has not really happened.
    pub(crate) fn need(&self, process: Pid) -> bool {
        let mut held = self.held.values();
        held.any(|exit| exit.child == process || exit.is_known() && exit.ending.parent == process)
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

    /// The newest image when a parent was told first of a child that has not really ended, by its number.
    pub(crate) fn told_at(&self, parent: Pid, number: u64) -> Option<CkptId> {
        let mut held = self.held.values();
        held.find_map(|exit| {
            let is_meant = exit.ending.parent == parent && exit.ending.number == number;
            let mut parts = [&exit.announced, &exit.collected].into_iter().flatten();
            let first = parts.next().filter(|_| is_meant);
            first.map(|part| part.since)
        })
    }

    /// Takes the numbers of the children of whose ends a parent has not heard, though the signal came.
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

    /// Takes the children that are to end now and have not closed their files: their parents cannot be stopped to reap them.
    pub(crate) fn take_stuck(&mut self) -> Vec<Pid> {
        let held = self.held.values_mut();
        let stuck = held.filter(|exit| exit.is_due() && !exit.has_closed);
        let stuck = stuck.map(|exit| {
            exit.has_closed = true;
            exit.child
        });
        stuck.collect()
    }

    /// Whether a child that stands still at its exit is about to close its files.
    pub(crate) fn closes(&self, object: ObjectId) -> bool {
        let exit = self.held.get(&object);
        exit.is_some_and(|exit| exit.is_due() && !exit.has_closed)
    }

    fn object(&mut self, record: UndoId) -> io::Result<ObjectId> {
        let object = self.records.remove(&record);
        object.ok_or_else(|| bug("no exit has this record"))
    }
}

impl Exits {
    /// The child has not exited, or the parent has not heard of that, or has not collected it.
    fn undo_one(&mut self, record: UndoId) -> io::Result<()> {
        let object = self.object(record)?;
        let Some(exit) = self.held.get_mut(&object) else {
            return Err(bug("an exit is undone that has happened"));
        };
        if exit.part(record).and_then(Option::take).is_some() {
            // The signal came with the first part.
            if !exit.is_known() {
                let retracted = (exit.ending.parent, exit.ending.number);
                self.retracted.push(retracted);
            }
            return Ok(());
        }
        if exit.is_known() || exit.has_ended {
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
            match exit.part(record).and_then(Option::as_mut) {
                Some(part) => part.is_certain = true,
                None => exit.has_ended = true,
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
        let is_found = |exit: &Exit| {
            exit.is_collected()
                && Some(exit.ending.parent) == caller
                && finds_child(call, exit.ending.number)
        };
        let held = self.held.iter().filter(|(_, exit)| is_found(exit));
        let found = held.map(|(&object, _)| Obstacle {
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
