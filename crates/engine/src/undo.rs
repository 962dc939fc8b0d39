//! The undo log of an object: what was done to it that may have to be taken back.
//!
//! A task that modifies an object takes the object's predictions first. So a modification depends on everything that
//! earlier ones in the log depend on. Hence one denial undoes the newest part of every log that it touches. Inverse
//! records are applied newest first, so each meets the state that it was made for.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;

use crate::assumptions::Assumptions;
use crate::deps::Tracked;
use crate::error::EngineError;
use crate::id::{Id, UndoId};
use crate::kind::Kind;

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

    /// Whether this is the record of that place; then no more.
    pub fn take(&mut self, undo: UndoId, seq: u64) -> bool {
        let is_live = self.live.get(&undo) == Some(&seq);
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
    /// What the object depended on before, where that is something else.
    before: Option<Box<Tracked>>,
    what: What,
    state: State,
}

#[derive(Debug)]
enum What {
    /// A task modified the object.
    Modified(UndoId),
    /// The object came to depend on an assumption by itself. That is rare, and logs are many.
    Given(Box<(Id, Kind)>),
}

impl What {
    fn given(&self) -> Option<Id> {
        match self {
            Self::Modified(_) => None,
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
    pub fn modified(&mut self, seq: u64, undo: UndoId, before: Option<Tracked>) {
        self.push(seq, before, What::Modified(undo));
    }

    pub fn given(&mut self, seq: u64, id: Id, kind: Kind, before: Tracked) {
        self.push(seq, Some(before), What::Given(Box::new((id, kind))));
    }

    fn push(&mut self, seq: u64, before: Option<Tracked>, what: What) {
        // Most logs have one entry.
        if self.entries.is_empty() {
            self.entries.reserve_exact(1);
        }
        self.entries.push_back(Entry {
            seq,
            before: before.map(Box::new),
            what,
            state: State::Pending,
        });
    }

    /// What has this place stays.
    pub fn settle(&mut self, seq: u64, assumptions: &Assumptions) {
        if let Ok(index) = self.find(seq) {
            self.entries[index].state = State::Settled;
        }
        self.tidy(assumptions);
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
    pub fn restore(&mut self, first: u64, assumptions: &Assumptions) -> Option<Tracked> {
        let first = self.find(first).ok()?;
        let mut tail = self.entries.split_off(first);
        let mut tracked = tail.iter_mut().find_map(|entry| entry.before.take());
        for mut entry in tail
            .into_iter()
            .filter(|entry| entry.state != State::Undone)
        {
            let What::Given(given) = &entry.what else {
                panic!("a modification above an undone one is undone, too");
            };
            let (id, kind) = **given;
            if let Some(tracked) = &mut tracked {
                entry.before = Some(tracked.clone());
                tracked.add(id, kind, assumptions);
            }
            self.entries.push_back(entry);
        }
        self.tidy(assumptions);
        tracked.map(|tracked| *tracked)
    }

    /// Empties the log. Returns the records, oldest first.
    pub fn clear(&mut self) -> Vec<(u64, UndoId)> {
        let record = |entry: Entry| match entry.what {
            What::Modified(undo) => Some((entry.seq, undo)),
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
