//! Files that were written to since a mark.
//!
//! They are held while that is undecided. When it is undone, the kernel is made to ask how long they are before any process goes on:
//! other processes may have them open. Cuts are not among that. Where others have the file open a cut waits, and the process itself asks
//! when it is restored.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::world::World;

/// By mark: the numbers of the files.
#[derive(Debug, Default)]
pub(super) struct Written(BTreeMap<u64, BTreeSet<u64>>);

impl Written {
    /// A process writes to a file that is held, and what it changes is the mark's.
    pub(super) fn note(&mut self, mark: u64, file: u64) {
        self.0.entry(mark).or_default().insert(file);
    }

    /// A file was held in vain.
    pub(super) fn forget<W: World>(&self, world: &mut W, file: u64) {
        if !self.has(file) {
            world.let_go_of(file);
        }
    }

    /// What these marks have changed stays.
    pub(super) fn settle<W: World>(&mut self, world: &mut W, marks: &[u64]) {
        for file in self.take(marks) {
            self.forget(world, file);
        }
    }

    /// What these marks have changed was undone.
    pub(super) fn undo<W: World>(&mut self, world: &mut W, marks: &[u64]) -> io::Result<()> {
        for file in self.take(marks) {
            world.renew(file)?;
            self.forget(world, file);
        }
        Ok(())
    }

    fn take(&mut self, marks: &[u64]) -> BTreeSet<u64> {
        let taken = marks.iter().filter_map(|mark| self.0.remove(mark));
        taken.flatten().collect()
    }

    fn has(&self, file: u64) -> bool {
        self.0.values().any(|files| files.contains(&file))
    }
}
