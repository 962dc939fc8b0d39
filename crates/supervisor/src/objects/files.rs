//! Files of the view that a task changes while something is undecided.
//!
//! A task's own changes go on, and the view keeps an undo log. To the engine each mark of the view is one object: what one process
//! changes since an image. Before a call is let go that touches the view, the view tells which undecided marks the call would
//! meet ([`looking`]). The process of the call comes to depend on those, and on no others. So whatever is undone is undone for all
//! that have seen it, the newest change first, and processes that touch different files go their own ways.
//!
//! No undecided change comes between the look and the call ([`under_way`]).

mod keepers;
mod look;
mod looking;
mod recollection;
mod under_way;
mod written;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::process::Pid;
use surmise_engine::{ObjectId, UndoId};
use surmise_sys::seccomp::Answer;

use crate::call::Call;
use crate::error::bug;
use crate::kind::Kind;
use crate::member::Member;
use crate::object::{Did, ObjectKind, Obstacle};
use crate::stats::Effort;
use crate::world::{Around, World};

pub use look::{End, Look, Manner, Share, Target, Touches};
pub(crate) use look::{Reach, Touch};

use looking::Met;
use recollection::Recollection;
use under_way::UnderWay;
use written::Written;

/// Keeps the undo log of a domain's files; its descriptor is readable when a call waits there until
/// nothing is undecided.
pub trait Files: AsFd + fmt::Debug {
    /// What a process changes from now on is the new mark's. The process is named by its number here; `has_borne` says
    /// that its children may share what it has open. As long as it has marks, that need not be said a second time of the same
    /// files. Returns the mark, a number above all earlier ones.
    ///
    /// # Errors
    /// There is no mark: nothing may be changed that might have to be undone.
    fn mark(&self, process: Pid, has_borne: bool) -> io::Result<u64>;

    /// From now on, what a process that has a mark writes to a file that others have open waits.
    ///
    /// # Errors
    /// The domain cannot go on.
    fn check_writes(&self, process: Pid) -> io::Result<()>;

    /// Whether a process may have the file mapped that has this inode number. `since`: an open file of after that mark does not
    /// count, if it is the only one by which the file can be read. True in doubt.
    ///
    /// # Errors
    /// The domain cannot go on.
    fn may_be_mapped(&self, inode: u64, since: Option<u64>) -> io::Result<bool>;

    /// What these marks have changed stays: nothing else that is undecided lies below it. Returns how many requests to the view
    /// have waited for decisions so far, and how long altogether.
    ///
    /// # Errors
    /// The domain cannot go on.
    fn settle(&self, marks: &[u64]) -> io::Result<Effort>;

    /// Calls that wait there for a decision on behalf of these marks fail until the marks are undone: their processes are
    /// about to be stopped and rolled back.
    ///
    /// # Errors
    /// The domain cannot go on.
    fn give_up(&self, marks: &[u64]) -> io::Result<()>;

    /// Calls that wait there for a decision on behalf of these marks fail with `EINTR`: their processes are about to be stopped,
    /// and make the calls again. Until this is said with `stops` false.
    ///
    /// # Errors
    /// The domain cannot go on.
    fn give_way(&self, marks: &[u64], stops: bool) -> io::Result<()>;

    /// Undoes what these marks have changed, newest first: nothing else lies on it. The processes stand still. Returns the same as
    /// [`Self::settle`].
    ///
    /// # Errors
    /// The domain cannot go on.
    fn undo(&self, marks: &[u64]) -> io::Result<Effort>;

    /// The next directory that a thread removes is removed without the kernel's knowing, which is told `EINTR`. False if that is
    /// not possible now. Until [`Self::concealed`] nothing else is ordered, and the thread's request fails with `EINTR`, too, if it
    /// would have to wait for a decision.
    ///
    /// # Errors
    /// The domain cannot go on.
    fn conceal(&self, thread: Pid) -> io::Result<bool>;

    /// Whether one was removed so. It is over.
    ///
    /// # Errors
    /// The domain cannot go on.
    fn concealed(&self) -> io::Result<bool>;

    /// What a call would touch. `elsewhere`: where the caller finds something else than the view. It is the same set from call
    /// to call, as a rule, and need not be told again then.
    ///
    /// # Errors
    /// It cannot be looked up.
    fn touches(&self, looks: &[Look], elsewhere: &Arc<HashSet<PathBuf>>) -> io::Result<Touches>;

    /// Hears that a call waits: the descriptor is not readable any more, until the next one does.
    ///
    /// # Errors
    /// As for reading.
    fn asked(&self) -> io::Result<()>;
}

/// The view's marks, by the records that the engine knows.
#[derive(Debug)]
pub(crate) struct ViewFiles {
    /// Nothing where no task may be given a guess.
    files: Option<Box<dyn Files>>,
    marks: BTreeMap<UndoId, Mark>,
    /// The last mark that there was.
    last: u64,
    /// Processes of which the log was told that they share what they had open; what they have opened since is their own.
    told: HashSet<Pid>,
    /// Likewise that what they write is to be checked.
    checked: HashSet<Pid>,
    under_way: UnderWay,
    written: Written,
    /// Of the call that was looked at last and was not let go.
    met: Option<Met>,
    recollection: Recollection,
    /// Marks that are decided, as the engine knows them.
    idle: Vec<ObjectId>,
    /// How many requests to the view have waited for decisions, and how long altogether.
    waited: Effort,
}

/// A mark, and whose changes come after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    process: Pid,
    number: u64,
}

impl ViewFiles {
    pub(crate) fn new(files: Option<Box<dyn Files>>) -> Self {
        Self {
            files,
            marks: BTreeMap::new(),
            last: 0,
            told: HashSet::new(),
            checked: HashSet::new(),
            under_way: UnderWay::default(),
            written: Written::default(),
            met: None,
            recollection: Recollection::default(),
            idle: Vec::new(),
            waited: Effort::default(),
        }
    }

    /// The view's end of the undo log.
    pub(crate) fn log(&self) -> Option<&dyn Files> {
        self.files.as_deref()
    }

    fn of_mark(&self) -> io::Result<&dyn Files> {
        self.log()
            .ok_or_else(|| bug("a mark is there, and no undo log"))
    }

    /// As [`Files::conceal`]; false also without an undo log.
    pub(crate) fn conceal(&self, thread: Pid) -> io::Result<bool> {
        self.log().map_or(Ok(false), |log| log.conceal(thread))
    }

    /// What a call of a process is to be met with.
    pub(crate) fn around<'a, W: World>(
        &'a self,
        call: &Call,
        member: Option<&'a Member<W>>,
    ) -> Around<'a, W> {
        Around {
            member,
            ends: self.met(call).map_or(&[], |met| &met.ends),
            files: self.log(),
        }
    }

    /// The last mark that there was; 0 if there was none.
    pub(crate) fn last_mark(&self) -> u64 {
        self.last
    }

    /// Whether nothing that was changed is undecided.
    pub(crate) fn are_decided(&self) -> bool {
        self.marks.is_empty()
    }

    /// The marks that are undecided, as objects of the engine.
    pub(crate) fn objects(&self) -> Vec<ObjectId> {
        self.marks.values().map(Mark::object).collect()
    }

    /// Sees to it that what a process is about to change can be undone. `written`: the descriptor of a file whose data change.
    /// `vessels`: the processes that hold images.
    pub(crate) fn change<W: World>(
        &mut self,
        world: &mut W,
        member: &Member<W>,
        call: &Call,
        written: Option<u64>,
        (record, vessels): (UndoId, &[Pid]),
    ) -> io::Result<Did> {
        if self.met(call).is_some_and(|met| met.overtakes) {
            return Ok(Did::Wait);
        }
        let process = member.pid();
        let newest = member.newest_record();
        let newest = newest.and_then(|newest| self.marks.get(&newest)).copied();
        if newest.is_none() && !world.is_alone(process, vessels)? {
            return Ok(Did::Wait);
        }
        // Another thread may put another file in the place of the one that is held.
        let held = match written.filter(|_| !world.may_exchange(process)) {
            Some(descriptor) => world.hold(process, descriptor)?,
            None => None,
        };
        let mark = match newest {
            Some(mark) => Some(mark),
            None => self.mark(world, process)?,
        };
        let Some(mark) = mark else {
            if let Some(file) = held {
                self.written.forget(world, file);
            }
            return Ok(Did::Wait);
        };
        if written.is_some() && held.is_none() && self.checked.insert(process) {
            self.of_mark()?.check_writes(process)?;
        }
        if let Some(file) = held {
            self.written.note(mark.number, file);
            self.note_written(call, file);
        }
        if newest.is_some() {
            // It depends on all that is below. What it has gained since with the same image the mark's object has taken, too;
            // and once another process had met the mark, it could gain nothing without a newer image.
            return Ok(Did::Known(Answer::Continue));
        }
        self.marks.insert(record, mark);
        Ok(Did::Accesses {
            object: mark.object(),
            observes: None,
            answer: Answer::Continue,
        })
    }

    /// A new mark of a process; `None` if there can be none.
    fn mark<W: World>(&mut self, world: &mut W, process: Pid) -> io::Result<Option<Mark>> {
        let Some(files) = &self.files else {
            return Ok(None);
        };
        let has_borne = !self.told.contains(&process) && world.has_borne(process);
        let number = files.mark(process, has_borne).ok();
        self.last = number.unwrap_or(self.last);
        self.told.extend(number.map(|_| process));
        Ok(number.map(|number| Mark { process, number }))
    }

    /// A process is about to be stopped, or has been. A thread that waits in the view would never stop.
    pub(crate) fn let_stop(&self, process: Pid, stops: bool) -> io::Result<()> {
        let own = self.marks.values().filter(|mark| mark.process == process);
        let own: Vec<u64> = own.map(|mark| mark.number).collect();
        match &self.files {
            Some(files) if !own.is_empty() => files.give_way(&own, stops),
            _ => Ok(()),
        }
    }

    /// How many requests to the view have waited for decisions, and how long altogether.
    pub(crate) fn waited(&self) -> Effort {
        self.waited
    }

    /// A process has borne another, which has open what it has.
    pub(crate) fn note_birth(&mut self, process: Pid) {
        self.told.remove(&process);
    }

    fn take(&mut self, records: &[UndoId]) -> io::Result<Vec<u64>> {
        let marks = records.iter().map(|record| self.marks.remove(record));
        let taken: Option<Vec<Mark>> = marks.collect();
        let taken = taken.ok_or_else(|| bug("there is no such mark"))?;
        self.idle.extend(taken.iter().map(Mark::object));
        // Of a process without marks the log forgets it, too.
        let Self {
            told,
            checked,
            marks,
            ..
        } = self;
        for told in [told, checked] {
            told.retain(|process| marks.values().any(|mark| mark.process == *process));
        }
        if marks.is_empty() {
            // Until there is a mark again, nobody looks what changes under a call's way. What a call was found to touch that
            // waits until now may be something else by then.
            self.under_way.blur();
            self.met = None;
        }
        let taken: Vec<u64> = taken.into_iter().map(|mark| mark.number).collect();
        self.recollection.decide(&taken, !self.marks.is_empty());
        Ok(taken)
    }
}

impl Mark {
    fn object(&self) -> ObjectId {
        ObjectId(self.number)
    }
}

impl<W: World> ObjectKind<W> for ViewFiles {
    fn kind(&self) -> Kind {
        Kind::ChangedFile
    }

    fn undo(&mut self, world: &mut W, records: &[UndoId]) -> io::Result<()> {
        let marks = self.take(records)?;
        self.waited = self.of_mark()?.undo(&marks)?;
        self.written.undo(world, &marks)
    }

    fn release(&mut self, world: &mut W, records: &[UndoId]) -> io::Result<()> {
        let marks = self.take(records)?;
        self.waited = self.of_mark()?.settle(&marks)?;
        self.written.settle(world, &marks);
        Ok(())
    }

    /// A thread that waits in the view would never stop.
    fn give_way(&mut self, records: &[UndoId]) -> io::Result<()> {
        let marks = records.iter().filter_map(|record| self.marks.get(record));
        let marks: Vec<u64> = marks.map(|mark| mark.number).collect();
        self.of_mark()?.give_up(&marks)
    }

    fn obstacles(&mut self, _: &W, caller: Option<Pid>, call: &Call) -> Vec<Obstacle> {
        let Some(met) = self.met(call).filter(|_| caller.is_some()) else {
            return Vec::new();
        };
        let mut marks: Vec<&Mark> = self.marks.values().collect();
        marks.retain(|mark| met.meets(mark.number));
        marks
            .into_iter()
            .map(|mark| Obstacle {
                object: mark.object(),
                may_depend: true,
                spares_members: false,
            })
            .collect()
    }

    fn is_quiet(&self) -> bool {
        self.are_decided()
    }

    fn take_idle(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.idle)
    }
}
