//! Changes of the view's files by a process that depends on something undecided.
//!
//! Its own changes go on, and the view keeps an undo log. Nobody else may see them meanwhile. So there is one
//! such process at a time: when it begins, no other task is in a call that could touch the view, and when
//! another one makes such a call later, everything is decided first.

use std::collections::BTreeMap;
use std::io;

use rustix::process::Pid;
use surmise_engine::{Access, Answer, UndoId};
use surmise_sys::seccomp::Notification;
use surmise_syscalls::row_numbered;

use crate::deciding::Occasion;
use crate::files::FILES;
use crate::records::Record;
use crate::speculator::{Speculator, SpeculatorError, fail, refused};
use crate::task;
use crate::tracked;

/// The view's marks, by the undo records that the engine knows.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    live: BTreeMap<UndoId, Mark>,
}

/// A mark, and whose changes come after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) process: Pid,
    pub(crate) number: u64,
}

impl Marks {
    fn add(&mut self, record: UndoId, mark: Mark) {
        self.live.insert(record, mark);
    }

    pub(crate) fn has(&self, undo: UndoId) -> bool {
        self.live.contains_key(&undo)
    }

    /// Takes a mark out, to be kept or undone.
    pub(crate) fn take(&mut self, undo: UndoId) -> Option<Mark> {
        self.live.remove(&undo)
    }

    /// Whether changes of this process may have to be undone.
    pub(crate) fn are_of(&self, process: Pid) -> bool {
        self.live.values().any(|mark| mark.process == process)
    }

    /// The processes whose changes may have to be undone: one, or none.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        let mut processes: Vec<_> = self.live.values().map(|mark| mark.process).collect();
        processes.dedup();
        processes
    }
}

impl Speculator {
    /// Sees to it that what a process is about to change can be undone. False if it cannot.
    pub(crate) fn may_change(&mut self, process: Pid) -> Result<bool, SpeculatorError> {
        let Some(member) = self.members.get(&process) else {
            return Ok(true);
        };
        if member
            .newest_record()
            .is_some_and(|undo| self.marks.has(undo))
        {
            // Nothing that is newer could be restored alone.
            return Ok(true);
        }
        let task = member.task;
        if self.seen.has_watches() || !self.is_alone(process)? {
            return Ok(false);
        }
        let has_borne = self.seen.has_borne(process);
        let Ok(number) = self.files.mark(process, has_borne) else {
            return Ok(false);
        };
        let undo = self.records.add(Record::Files);
        self.marks.add(undo, Mark { process, number });
        let mut effects = Vec::new();
        let access = Access::Both(Some(undo));
        let answer = self.engine.access(task, FILES, access, &mut effects);
        if answer.map_err(refused("note a change"))? != Answer::Go {
            // It takes nothing from files that nobody else has changed.
            let error = io::Error::other("files depend on what their only user does not");
            return Err(fail("note a change")(error));
        }
        if let Some(member) = self.members.get_mut(&process) {
            member.recorded(undo);
        }
        self.perform(effects, &mut Occasion::default())?;
        Ok(true)
    }

    /// What a process changed since a mark stays.
    pub(crate) fn keep_changes(&mut self, record: UndoId) -> Result<(), SpeculatorError> {
        match self.marks.take(record) {
            Some(mark) => self.files.keep(mark.number).map_err(fail("keep changes")),
            None => Ok(()),
        }
    }

    /// Whether no other task can see what a process changes in the view.
    fn is_alone(&mut self, process: Pid) -> Result<bool, SpeculatorError> {
        // Whoever waits there for an answer touches nothing.
        let gathered = self.door.gather();
        gathered.map_err(fail("hear of a call"))?;
        let is_harmless = |other: Pid| {
            other == process || self.members.values().any(|member| member.has_vessel(other))
        };
        let waits = |thread| self.door.has_waiting(thread);
        // It maps nothing so itself, or it would depend on nothing.
        let mapped = match self.seen.has_shared_memory() {
            true => self.seen.names().device(),
            false => None,
        };
        let bystanders = self.seen.bystanders();
        let found = bystanders.are_apart(is_harmless, waits, mapped);
        match found {
            // Who is being born or ends is not seen rightly.
            Err(error) if task::is_out_of_reach(&error) => Ok(false),
            found => found.map_err(fail("look at other tasks")),
        }
    }

    /// Another process calls: whatever it might see of undecided changes is decided first.
    pub(crate) fn decide_for_others(
        &mut self,
        call: &Notification,
        occasion: &mut Occasion,
    ) -> Result<(), SpeculatorError> {
        for process in self.marks.processes() {
            if self.member_of(call.thread) == Some(process) {
                continue;
            }
            let caller = task::process_of(call.thread).map_err(fail("find a process"))?;
            if caller.is_some_and(|caller| caller != process && !is_apart(caller, call)) {
                self.decide_all(process, occasion)?;
            }
        }
        Ok(())
    }

    /// A call waits in the view until nothing is undecided.
    pub(crate) fn decide_for_files(&mut self) -> Result<(), SpeculatorError> {
        self.files.asked().map_err(fail("hear from the view"))?;
        for process in self.marks.processes() {
            self.decide_all(process, &mut Occasion::default())?;
        }
        Ok(())
    }
}

/// Whether a call touches nothing of the view; not so in doubt.
fn is_apart(caller: Pid, call: &Notification) -> bool {
    row_numbered(call.number)
        .is_some_and(|row| tracked::is_apart(caller, row.name().as_str(), call.arguments[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_there_until_it_is_taken() {
        let mut marks = Marks::default();
        let process = Pid::from_raw(7).expect("a number");
        let (one, two) = (UndoId(1), UndoId(5));
        marks.add(one, Mark { process, number: 3 });
        marks.add(two, Mark { process, number: 4 });
        assert_eq!(marks.processes(), [process]);
        assert_eq!(marks.take(one), Some(Mark { process, number: 3 }));
        assert!(!marks.has(one) && marks.has(two) && marks.are_of(process));
        assert!(marks.take(one).is_none() && marks.take(two).is_some());
        assert!(!marks.are_of(process) && marks.processes().is_empty());
    }
}
