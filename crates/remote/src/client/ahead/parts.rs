//! What is to be fetched when there is room.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use crate::object::ObjectId;

/// How many parts may wait for their turn.
const PARTS_MAX: usize = 1 << 14;

/// Parts of files, the next one in front.
#[derive(Debug, Default)]
pub(super) struct Parts {
    queue: VecDeque<(ObjectId, Range<u64>)>,
    /// How many there are of each file.
    counts: HashMap<ObjectId, usize>,
}

impl Parts {
    /// Whether any bytes of a file wait.
    pub(super) fn has(&self, object: ObjectId) -> bool {
        self.counts.contains_key(&object)
    }

    pub(super) fn push_front(&mut self, object: ObjectId, bytes: Range<u64>) {
        self.queue.push_front((object, bytes));
        *self.counts.entry(object).or_default() += 1;
        if self.queue.len() > PARTS_MAX
            && let Some((object, _)) = self.queue.pop_back()
        {
            self.left(object);
        }
    }

    pub(super) fn pop_front(&mut self) -> Option<(ObjectId, Range<u64>)> {
        let (object, bytes) = self.queue.pop_front()?;
        self.left(object);
        Some((object, bytes))
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn left(&mut self, object: ObjectId) {
        if let Some(count) = self.counts.get_mut(&object) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&object);
            }
        }
    }
}
