//! The undo log of a fake machine's files, and its disk.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::Pid;
use surmise_sys::seccomp::{Answer, Notification};
use surmise_syscalls::Row;

use super::removing::Concealing;
use super::state::{Mark, Shared, State};
use crate::durability::{Durability, Verdict};
use crate::objects::files::{Files, Look, Touches};
use crate::stats::Effort;

/// The undo log of the machine's files.
#[derive(Debug)]
pub(in crate::core::simulation) struct Log {
    state: Shared,
    asked: OwnedFd,
}

impl Log {
    pub(in crate::core::simulation) fn new(state: &Shared) -> Self {
        Self {
            state: Rc::clone(state),
            asked: eventfd(0, EventfdFlags::CLOEXEC).expect("an event"),
        }
    }
}

impl AsFd for Log {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.asked.as_fd()
    }
}

impl Files for Log {
    fn mark(&self, process: Pid, _: bool) -> io::Result<u64> {
        let state = &mut *self.state.borrow_mut();
        if state.rng.u8(..8) == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.marks_made += 1;
        let number = state.marks_made;
        state.marks.push(Mark { number, process });
        Ok(number)
    }

    fn check_writes(&self, process: Pid) -> io::Result<()> {
        self.state.borrow_mut().beliefs.check_writes(process);
        Ok(())
    }

    fn may_be_mapped(&self, _: u64, _: Option<u64>) -> io::Result<bool> {
        // No task of the machine maps a file, and the machine does not ask.
        Ok(false)
    }

    fn settle(&self, marks: &[u64]) -> io::Result<Effort> {
        let state = &mut *self.state.borrow_mut();
        for layers in &mut state.layers {
            let stays = layers.iter().position(|(mark, _)| !marks.contains(mark));
            layers.drain(..stays.unwrap_or(layers.len()));
        }
        state.forget(marks);
        Ok(Effort::default())
    }

    fn give_way(&self, marks: &[u64], stops: bool) -> io::Result<()> {
        let gives_way = &mut self.state.borrow_mut().gives_way;
        assert_eq!(gives_way.is_empty(), stops, "it is told each once, in turn");
        *gives_way = match stops {
            true => marks.to_vec(),
            false => Vec::new(),
        };
        Ok(())
    }

    fn give_up(&self, _: &[u64]) -> io::Result<()> {
        Ok(())
    }

    fn undo(&self, marks: &[u64]) -> io::Result<Effort> {
        let state = &mut *self.state.borrow_mut();
        assert!(
            marks.is_sorted_by(|newer, older| newer > older),
            "the newest comes first"
        );
        for mark in state
            .marks
            .iter()
            .filter(|mark| marks.contains(&mark.number))
        {
            let mut threads = state.threads(mark.process).into_iter();
            assert!(
                threads.all(|thread| state.tasks[thread].stands),
                "it could see that"
            );
        }
        let cells = state.layers.iter_mut().zip(&mut state.files.0);
        for (cell, (layers, held)) in cells.enumerate() {
            while let Some((mark, before)) = layers.pop_if(|(mark, _)| marks.contains(mark)) {
                state.beliefs.undone(cell, mark, *held);
                *held = before;
            }
        }
        state.forget(marks);
        Ok(Effort::default())
    }

    fn conceal(&self, thread: Pid) -> io::Result<bool> {
        let state = &mut *self.state.borrow_mut();
        let conceals = state.rng.u8(..8) != 0;
        state.concealing = conceals.then_some(Concealing {
            thread,
            has_removed: false,
        });
        Ok(conceals)
    }

    fn concealed(&self) -> io::Result<bool> {
        let concealing = self.state.borrow_mut().concealing.take();
        Ok(concealing.is_some_and(|concealing| concealing.has_removed))
    }

    fn touches(&self, looks: &[Look], _: &Arc<HashSet<PathBuf>>) -> io::Result<Touches> {
        Ok(self.state.borrow().touches(looks))
    }

    fn asked(&self) -> io::Result<()> {
        Ok(())
    }
}

impl State {
    /// Marks are decided, and all that they have changed was at one end of its stack.
    fn forget(&mut self, marks: &[u64]) {
        let mut layers = self.layers.iter().flatten();
        assert!(
            layers.all(|(mark, _)| !marks.contains(mark)),
            "others lie between"
        );
        let before = self.marks.len();
        self.marks.retain(|mark| !marks.contains(&mark.number));
        assert_eq!(self.marks.len() + marks.len(), before, "each is there");
        self.beliefs.keep(&self.marks);
    }
}

/// Durability, of which the test says when it is there.
#[derive(Debug)]
pub(in crate::core::simulation) struct Disk {
    state: Shared,
    committed: OwnedFd,
}

impl Disk {
    pub(in crate::core::simulation) fn new(state: &Shared) -> Self {
        Self {
            state: Rc::clone(state),
            committed: eventfd(0, EventfdFlags::CLOEXEC).expect("an event"),
        }
    }
}

impl Durability for Disk {
    fn meet(&mut self, call: &Notification, _: &Row) -> Verdict {
        let state = &mut *self.state.borrow_mut();
        if state.rng.bool() {
            state.promised += 1;
            return Verdict::Now(Answer::Continue);
        }
        state.awaited.insert(call.id, state.promised);
        Verdict::OnceDurable(Answer::Continue)
    }

    fn outstanding(&mut self) -> Option<u64> {
        let state = self.state.borrow();
        (state.kept < state.promised).then_some(state.promised)
    }

    fn kept(&self) -> u64 {
        self.state.borrow().kept
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.committed.as_fd()
    }

    fn hear(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}
