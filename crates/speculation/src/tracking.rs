//! Calls of tasks that depend on something undecided.

use rustix::process::Pid;
use surmise_checkpoint::{Change, Gate};
use surmise_engine::Node;
use surmise_sys::memory;
use surmise_sys::seccomp::Notification;

use crate::channels::Channels;
use crate::deciding::Occasion;
use crate::door::pending;
use crate::outbox::Output;
use crate::speculator::{STREAMS, Speculator, SpeculatorError, fail, refused};
use crate::task;
use crate::tracked::{self, Known, Meeting};

impl Speculator {
    /// A call of a task that depends on something undecided.
    pub(crate) fn tracked(
        &mut self,
        process: Pid,
        call: &Notification,
        occasion: &mut Occasion,
    ) -> Result<(), SpeculatorError> {
        match self.meeting(process, call)? {
            Meeting::Pass(kind) => self.stats.met(kind),
            Meeting::Note(change) => {
                self.stats.met(match change {
                    Change::Position(_) => "file",
                    Change::Handler(_) | Change::Umask | Change::Directory => "process",
                });
                self.note(process, change);
            }
            Meeting::Change(moved) if self.may_change(process)? => {
                self.stats.met("changed file");
                if let Some(change) = moved {
                    self.note(process, change);
                }
            }
            Meeting::Hold { descriptor, bytes }
                if self.hold(process, call, descriptor, bytes)? =>
            {
                self.stats.met("stream");
                return Ok(());
            }
            Meeting::Peek(wanted) if self.give(process, call, &wanted)? => {
                self.stats.met("input");
                return Ok(());
            }
            Meeting::Change(_) | Meeting::Hold { .. } | Meeting::Peek(_) | Meeting::Wait => {
                self.decide_all(process, occasion)?;
                if occasion.call.is_none() {
                    return Ok(());
                }
            }
        }
        self.let_pass(call)
    }

    fn meeting(&self, process: Pid, call: &Notification) -> Result<Meeting, SpeculatorError> {
        let Some(channels) = &self.channels else {
            return Ok(Meeting::Wait);
        };
        match tracked::meet(process, call, self.known(process, channels)) {
            // What is not known may be anything, and waits; so does the end of a process.
            Err(error) if task::is_out_of_reach(&error) => Ok(Meeting::Wait),
            met => met.map_err(fail("look at a call")),
        }
    }

    /// What is known of a process that calls.
    pub(crate) fn known<'a>(&'a self, process: Pid, channels: &'a Channels) -> Known<'a> {
        Known {
            channels,
            seen: &self.seen,
            member: self.members.get(&process),
            has_changed: self.marks.are_of(process),
        }
    }

    fn note(&mut self, process: Pid, change: Change) {
        if let Some(member) = self.members.get_mut(&process) {
            member.note(change);
        }
    }

    /// Keeps what a task writes, and tells it that it is written. False if that cannot be known, so that it has
    /// to wait: where a part of the bytes is not there, the kernel writes what is before.
    fn hold(
        &mut self,
        process: Pid,
        call: &Notification,
        descriptor: u64,
        (address, length): (u64, u64),
    ) -> Result<bool, SpeculatorError> {
        let mut bytes = vec![0; length as usize];
        if memory::read(process, address, &mut bytes).is_err() {
            return Ok(false);
        }
        // Another thread may have changed what the descriptor leads to.
        let to = match (&self.channels, task::file(process, descriptor)) {
            (Some(channels), Ok(Some((to, stat)))) if channels.leads_to_output(&to, &stat) => to,
            _ => return Ok(false),
        };
        let Some(task) = self.members.get(&process).map(|member| member.task) else {
            return Ok(false);
        };
        let answered = self.door.answer(pending(call), length.cast_signed());
        if !answered.map_err(fail("answer a call"))? {
            // It was killed before it knew of its output.
            return Ok(true);
        }
        let hold = self.outbox.hold(Output { to, bytes });
        let mut effects = Vec::new();
        let told = self
            .engine
            .output(Node::Task(task), STREAMS, hold, &mut effects);
        told.map_err(refused("note output"))?;
        self.perform(effects, &mut Occasion::default())?;
        Ok(true)
    }
}
