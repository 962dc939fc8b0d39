//! Marks, and copies of the plain directory that go with them.

use std::process::Command;

use tempfile::TempDir;

use super::Pair;

impl Pair {
    pub(super) fn mark(&mut self) {
        let mark = self.view().mark(std::process::id(), false).unwrap();
        let copy = TempDir::new().unwrap();
        let mut copying = Command::new("cp");
        let copying = copying.arg("-aT").arg(self.plain.path()).arg(copy.path());
        assert!(copying.status().unwrap().success());
        self.marks.push((mark, copy));
    }

    pub(super) fn keep(&mut self, index: usize) {
        if !self.marks.is_empty() {
            let settled = self.marks.drain(..=index % self.marks.len());
            let settled: Vec<_> = settled.map(|(mark, _)| mark).collect();
            self.view().settle(&settled).unwrap();
        }
    }

    pub(super) fn undo(&mut self, index: usize) {
        if !self.marks.is_empty() {
            let index = index % self.marks.len();
            let mut undone: Vec<_> = self.marks.drain(index..).collect();
            undone.reverse();
            let marks: Vec<_> = undone.iter().map(|(mark, _)| *mark).collect();
            self.view().undo(&marks).unwrap();
            self.plain = undone.pop().unwrap().1;
        }
    }

    /// Nobody has decided, and nobody will.
    pub(super) fn forget_undecided(&mut self) {
        if let Some((_, plain)) = self.marks.drain(..).next() {
            self.plain = plain;
        }
    }

    /// Goes back from mark to mark, and looks at each.
    pub fn undo_all(&mut self) {
        while let Some(newest) = self.marks.len().checked_sub(1) {
            self.undo(newest);
            self.compare();
        }
    }

    /// Decides that what was done is to stay.
    pub fn keep_all(&mut self) {
        while !self.marks.is_empty() {
            self.keep(0);
        }
    }
}
