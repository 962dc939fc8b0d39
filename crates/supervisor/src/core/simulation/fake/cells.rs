//! The files of a fake machine, and the names that lead to them.

use super::op::Op;

/// How many files there are, and as many names.
pub(in crate::core::simulation) const FILES: usize = 3;
pub(super) const CELLS: usize = 2 * FILES;

/// What the files hold, and then how often each name was turned to the next file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::core::simulation) struct Cells(pub(super) [i64; CELLS]);

impl Cells {
    /// The cell that an operation changes.
    pub(in crate::core::simulation) fn changed_by(&self, op: Op) -> Option<usize> {
        match op {
            Op::Add(name) => Some(self.led(name)),
            Op::Turn(name) | Op::Remove(name) => Some(FILES + name),
            _ => None,
        }
    }

    /// The cells that an operation depends on, in the order in which it comes by them.
    pub(in crate::core::simulation) fn seen_by(&self, op: Op) -> Vec<usize> {
        match op {
            Op::Look(name) | Op::Add(name) => vec![FILES + name, self.led(name)],
            Op::Turn(name) | Op::Remove(name) => vec![FILES + name],
            Op::List => (0..CELLS).collect(),
            _ => Vec::new(),
        }
    }

    /// What a task is told that looks.
    pub(in crate::core::simulation) fn told(&self, op: Op) -> i64 {
        match op {
            Op::Look(name) => self.0[self.led(name)],
            Op::List => self.0.iter().fold(0, |all, one| (40 * all + one) % 90_001),
            _ => panic!("it changes something, or is about no file"),
        }
    }

    /// Adds to a cell.
    pub(in crate::core::simulation) fn add(&mut self, cell: usize) -> i64 {
        self.0[cell] += 1;
        self.0[cell]
    }

    fn led(&self, name: usize) -> usize {
        (self.0[FILES + name] as usize + name) % FILES
    }
}
