//! The undo log of an object: what was done to it that may have to be taken back.
//!
//! A task that modifies an object takes the object's predictions first. So a modification depends on everything that
//! earlier ones in the log depend on. Hence one denial undoes the newest part of every log that it touches. Inverse
//! records are applied newest first, so each meets the state that it was made for.
//!
//! Modifications that commute do not depend on each other. So one denial may undo one of them and leave those around
//! it, whose inverse records stay good because they commute, too. Anything else above an undone modification depends
//! on it, and is undone before it.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;

use crate::assumptions::Assumptions;
use crate::deps::Tracked;
use crate::error::EngineError;
use crate::id::{Id, UndoId};
use crate::kind::Kind;
use crate::reliance::Reliance;

/// The undo records that may be applied, by their places among all.
#[derive(Debug, Default)]
pub(crate) struct Undos {
    places: u64,
    live: HashMap<UndoId, u64, BuildHasherDefault<DefaultHasher>>,
}

impl Undos {
    /// Whether a record may be given to [`Self::add`].
    pub fn check(&self, undo: Option<UndoId>) -> Result<(), EngineError> {
        let existing = undo.filter(|undo| self.live.contains_key(undo));
        existing.map_or(Ok(()), |undo| Err(EngineError::UndoExists(undo)))
    }

    pub fn add(&mut self, undo: UndoId) -> u64 {
        let seq = self.next();
        self.live.insert(undo, seq);
        seq
    }

    /// A place for something that has no inverse record.
    pub fn next(&mut self) -> u64 {
        self.places += 1;
        self.places
    }

    /// Whether this is the record of that place.
    pub fn has(&self, undo: UndoId, seq: u64) -> bool {
        self.live.get(&undo) == Some(&seq)
    }

    /// As [`Self::has`]; then no more.
    pub fn take(&mut self, undo: UndoId, seq: u64) -> bool {
        let is_live = self.has(undo, seq);
        if is_live {
            self.live.remove(&undo);
        }
        is_live
    }
}

/// The entries of one object's log, oldest first.
#[derive(Debug, Default)]
pub(crate) struct UndoLog {
    entries: VecDeque<Entry>,
}

#[derive(Debug)]
struct Entry {
    seq: u64,
    /// What the object depended on before, where this gave it anything, at once or by what its group gained later. So of what
    /// one denial undoes, the oldest entry has it: that gave the denied prediction.
    before: Option<Box<Reliance>>,
    what: What,
    state: State,
}

#[derive(Debug)]
enum What {
    /// A task modified the object.
    Modified(UndoId),
    /// A task that depended on this modified the object in a way that commutes.
    Commuted(Box<(UndoId, Tracked)>),
    /// The object came to depend on an assumption by itself. That is rare, and logs are many.
    Given(Box<(Id, Kind)>),
}

impl What {
    fn given(&self) -> Option<Id> {
        match self {
            Self::Modified(_) | Self::Commuted(_) => None,
            Self::Given(given) => Some(given.0),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pending,
    Settled,
    Undone,
}

impl UndoLog {
    pub fn modified(&mut self, seq: u64, undo: UndoId, before: Option<Box<Reliance>>) {
        self.push(seq, before, What::Modified(undo));
    }

    pub fn commuted(&mut self, seq: u64, undo: UndoId, by: Tracked, before: Option<Box<Reliance>>) {
        self.push(seq, before, What::Commuted(Box::new((undo, by))));
    }

    pub fn given(&mut self, seq: u64, id: Id, kind: Kind, before: Reliance) {
        let before = Some(Box::new(before));
        self.push(seq, before, What::Given(Box::new((id, kind))));
    }

    /// What has this place is about to give the object more than it gave at first.
    pub fn gives(&mut self, seq: u64, now: &Reliance) {
        if let Ok(index) = self.find(seq) {
            let before = &mut self.entries[index].before;
            before.get_or_insert_with(|| Box::new(now.clone()));
        }
    }

    fn push(&mut self, seq: u64, before: Option<Box<Reliance>>, what: What) {
        // Most logs have one entry.
        if self.entries.is_empty() {
            self.entries.reserve_exact(1);
        }
        self.entries.push_back(Entry {
            seq,
            before,
            what,
            state: State::Pending,
        });
    }

    /// What has this place stays.
    pub fn settle(&mut self, seq: u64, assumptions: &Assumptions) {
        if let Ok(index) = self.find(seq) {
            self.entries[index].state = State::Settled;
            self.leave_out(index, assumptions);
        }
        self.tidy(assumptions);
    }

    /// Removes a commuting modification that has settled before older ones, lest a log grow as long as its oldest
    /// entry is undecided. One that gave an undecided epoch is still needed, to give the epoch again.
    fn leave_out(&mut self, index: usize, assumptions: &Assumptions) {
        let What::Commuted(commuted) = &self.entries[index].what else {
            return;
        };
        let (_, by) = &**commuted;
        if Tracked::default().lacks(by, assumptions) {
            return;
        }
        self.entries.remove(index);
    }

    /// What has this place is undone.
    pub fn undo(&mut self, seq: u64) {
        if let Ok(index) = self.find(seq) {
            self.entries[index].state = State::Undone;
        }
    }

    /// That the object came to depend on this by itself is undone. Returns where it first did.
    pub fn ungive(&mut self, denied: Id) -> Option<u64> {
        let mut first = None;
        for entry in &mut self.entries {
            if entry.what.given() == Some(denied) {
                entry.state = State::Undone;
                first = first.or(Some(entry.seq));
            }
        }
        first
    }

    /// Removes what is undone; the first of that has this place. Returns what the object depends on
    /// then, if that is something else.
    pub fn restore(&mut self, first: u64, assumptions: &Assumptions) -> Option<Reliance> {
        let first = self.find(first).ok()?;
        let mut tail = self.entries.split_off(first);
        let mut reliance = tail.iter_mut().find_map(|entry| entry.before.take());
        for mut entry in tail
            .into_iter()
            .filter(|entry| entry.state != State::Undone)
        {
            match (&entry.what, &mut reliance) {
                (What::Modified(_), _) => {
                    panic!("a modification above an undone one is undone, too, or commutes");
                }
                (What::Commuted(commuted), Some(reliance)) => {
                    entry.before = reliance.commute(&commuted.1, assumptions);
                }
                (What::Given(given), Some(reliance)) => {
                    entry.before = Some(reliance.clone());
                    reliance.add(given.0, given.1, assumptions);
                }
                (_, None) => {}
            }
            self.entries.push_back(entry);
        }
        self.tidy(assumptions);
        reliance.map(|reliance| *reliance)
    }

    /// Empties the log. Returns the records, oldest first.
    pub fn clear(&mut self) -> Vec<(u64, UndoId)> {
        let record = |entry: Entry| match entry.what {
            What::Modified(undo) => Some((entry.seq, undo)),
            What::Commuted(commuted) => Some((entry.seq, commuted.0)),
            What::Given(..) => None,
        };
        self.entries.drain(..).filter_map(record).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets the oldest entries that nothing can undo.
    pub fn tidy(&mut self, assumptions: &Assumptions) {
        let undecided = assumptions.predictions();
        let is_past = |entry: &Entry| match entry.what.given() {
            None => entry.state == State::Settled,
            Some(id) => !undecided.contains(&id),
        };
        while self.entries.front().is_some_and(is_past) {
            self.entries.pop_front();
        }
    }

    fn find(&self, seq: u64) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&seq, |entry| entry.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_commutes_and_settles_is_not_kept_behind_what_is_undecided() {
        let assumptions = Assumptions::default();
        let mut log = UndoLog::default();
        for seq in 0..1000 {
            log.commuted(seq, UndoId(seq), Tracked::default(), None);
        }
        for seq in 1..999 {
            log.settle(seq, &assumptions);
        }
        assert_eq!(log.clear(), [(0, UndoId(0)), (999, UndoId(999))]);
    }
}
