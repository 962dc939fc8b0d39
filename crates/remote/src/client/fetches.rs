//! Bytes of files that are on their way.

use std::collections::{BTreeMap, HashMap};

use crate::object::ObjectId;
use crate::piece::Piece;

/// A question for bytes.
#[derive(Debug)]
pub(super) struct Fetching {
    pub(super) object: ObjectId,
    pub(super) offset: u64,
    pub(super) length: u32,
    /// Of the file's content when it was asked for.
    pub(super) version: u64,
    /// What the shell has kept of just these bytes.
    pub(super) kept: Option<Piece>,
}

/// All such questions that are open, by number.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    open: BTreeMap<u64, Fetching>,
    /// The numbers of those for each file.
    of: HashMap<ObjectId, Vec<u64>>,
}

impl Fetches {
    pub(super) fn insert(&mut self, request: u64, fetching: Fetching) {
        self.of.entry(fetching.object).or_default().push(request);
        self.open.insert(request, fetching);
    }

    pub(super) fn get(&self, request: u64) -> Option<&Fetching> {
        self.open.get(&request)
    }

    pub(super) fn remove(&mut self, request: u64) -> Option<Fetching> {
        let fetching = self.open.remove(&request)?;
        if let Some(numbers) = self.of.get_mut(&fetching.object) {
            numbers.retain(|number| *number != request);
            if numbers.is_empty() {
                self.of.remove(&fetching.object);
            }
        }
        Some(fetching)
    }

    /// The answers to those for a file are of no use any more.
    pub(super) fn forget(&mut self, object: ObjectId) {
        for number in self.of.remove(&object).unwrap_or_default() {
            self.open.remove(&number);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn has(&self, object: ObjectId) -> bool {
        self.of.contains_key(&object)
    }

    /// Up to where bytes of a file are on their way that begin at or before `offset`.
    pub(super) fn upto(&self, object: ObjectId, offset: u64) -> Option<u64> {
        let ends = self.of(object).filter_map(|one| {
            let end = one.offset + u64::from(one.length);
            (one.offset..end).contains(&offset).then_some(end)
        });
        ends.max()
    }

    /// Where the next bytes of a file begin that are on their way.
    pub(super) fn next(&self, object: ObjectId, offset: u64) -> Option<u64> {
        let starts = self.of(object).map(|one| one.offset);
        starts.filter(|start| *start > offset).min()
    }

    fn of(&self, object: ObjectId) -> impl Iterator<Item = &Fetching> {
        let numbers = self.of.get(&object).into_iter().flatten();
        numbers.filter_map(|number| self.open.get(number))
    }
}
