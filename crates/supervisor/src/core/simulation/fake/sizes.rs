//! What the kernel of a fake machine takes its files to hold. Of an undone change it learns only when it is had ask, and a task that
//! adds to the file adds to what the kernel believes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;

use rustix::process::Pid;

use super::Fake;
use super::cells::FILES;
use super::op::Op;
use super::state::State;
use crate::world::Sizes;

/// Of the files, by their numbers.
#[derive(Debug, Default)]
pub(in crate::core::simulation) struct Beliefs {
    wrong: BTreeMap<usize, i64>,
    /// Files of which the kernel can be had ask.
    pub(in crate::core::simulation) held: BTreeSet<u64>,
    /// Processes that were told to have several threads, of whose changes others wait to hear.
    threaded: HashSet<Pid>,
}

impl Beliefs {
    /// A cell that held this is as it was before.
    pub(super) fn undone(&mut self, cell: usize, held: i64) {
        if self.held.contains(&(cell as u64)) {
            self.wrong.entry(cell).or_insert(held);
        }
    }

    /// Processes without a mark are forgotten.
    pub(super) fn keep(&mut self, has_marks: impl Fn(Pid) -> bool) {
        self.threaded.retain(|process| has_marks(*process));
    }

    pub(super) fn note_threads(&mut self, process: Pid) {
        self.threaded.insert(process);
    }
}

impl State {
    /// A task of a process with a mark is about to change a cell.
    pub(super) fn check_beliefs(&mut self, process: Pid, op: Op, cell: usize) {
        let has_one = self.threads(process).len() == 1;
        assert!(
            has_one || self.beliefs.threaded.contains(&process),
            "nobody can tell which file it is"
        );
        if matches!(op, Op::Add(_)) && has_one {
            let is_held = self.beliefs.held.contains(&(cell as u64));
            assert!(is_held, "the kernel would not know of an undoing");
        }
    }

    /// A task adds to a file.
    pub(super) fn believe(&mut self, cell: usize) {
        if cell < FILES
            && let Some(wrong) = self.beliefs.wrong.remove(&cell)
        {
            self.files.0[cell] = wrong;
        }
    }
}

impl Sizes for Fake {
    fn may_exchange(&self, process: Pid) -> bool {
        self.0.borrow().threads(process).len() != 1
    }

    fn hold(&mut self, _: Pid, file: u64) -> io::Result<Option<u64>> {
        let state = &mut *self.0.borrow_mut();
        if state.rng.u8(..8) == 0 {
            return Ok(None);
        }
        state.beliefs.held.insert(file);
        Ok(Some(file))
    }

    fn renew(&mut self, file: u64) -> io::Result<()> {
        let beliefs = &mut self.0.borrow_mut().beliefs;
        assert!(beliefs.held.contains(&file), "nobody can ask");
        beliefs.wrong.remove(&(file as usize));
        Ok(())
    }

    fn let_go_of(&mut self, file: u64) {
        let beliefs = &mut self.0.borrow_mut().beliefs;
        assert!(beliefs.held.remove(&file), "it is not held");
    }
}
