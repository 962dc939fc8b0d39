//! What the kernel of a fake machine takes its files to hold. Of an undone change it learns only when it is made to ask, and a task
//! that adds to the file adds to what the kernel believes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;

use rustix::process::Pid;

use super::Fake;
use super::cells::FILES;
use super::op::Op;
use super::state::{Mark, State};
use crate::world::Sizes;

/// Of the files, by their numbers.
#[derive(Debug, Default)]
pub(in crate::core::simulation) struct Beliefs {
    wrong: BTreeMap<usize, i64>,
    /// Files of which the kernel can be made to ask.
    pub(in crate::core::simulation) held: BTreeSet<u64>,
    /// Processes whose changes wait where others have the file open.
    checked: HashSet<Pid>,
    /// The marks, and the files, by which others that have those open might be misled.
    misleading: HashSet<(u64, usize)>,
}

impl Beliefs {
    /// A cell that held this is as it was before a mark.
    pub(super) fn undone(&mut self, cell: usize, mark: u64, held: i64) {
        if self.misleading.contains(&(mark, cell)) {
            self.wrong.entry(cell).or_insert(held);
        }
    }

    /// Only these marks are left.
    pub(super) fn keep(&mut self, marks: &[Mark]) {
        let has_marks = |process: &Pid| marks.iter().any(|mark| mark.process == *process);
        self.checked.retain(has_marks);
        let is_left = |number: u64| marks.iter().any(|mark| mark.number == number);
        self.misleading.retain(|(mark, _)| is_left(*mark));
    }

    pub(super) fn check_writes(&mut self, process: Pid) {
        self.checked.insert(process);
    }
}

impl State {
    /// A task of a process is about to change a cell, by this mark.
    pub(super) fn check_beliefs(&mut self, (process, mark): (Pid, u64), op: Op, cell: usize) {
        if !matches!(op, Op::Add(_)) || self.beliefs.checked.contains(&process) {
            return;
        }
        let has_one = self.threads(process).len() == 1;
        assert!(has_one, "nobody can tell which file it is");
        let is_held = self.beliefs.held.contains(&(cell as u64));
        assert!(is_held, "the kernel would not know of an undoing");
        self.beliefs.misleading.insert((mark, cell));
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
