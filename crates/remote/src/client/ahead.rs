//! What is fetched before it is asked for: the rest of a file that is read, small files that come behind one that was read, and
//! objects that come behind a directory that was listed. A wrong guess costs bytes on the wire, and nothing else.

mod behind;
mod order;
mod parts;
mod siblings;
mod streams;
mod walk;
mod window;

use std::collections::HashMap;
use std::ops::Range;

use super::{Client, Effect};
use crate::frame::{DATA_BYTES_MAX, Urgency};
use crate::lease::Mode;
use crate::object::ObjectId;
use crate::server::Moment;
use behind::{Because, Behind};
use parts::Parts;
use siblings::Siblings;
use streams::Streams;
use walk::Walks;
use window::Window;

/// A file up to this size is fetched whole at once.
const SMALL_BYTES_MAX: u64 = 64 << 10;

/// Of a file up to this size the rest is fetched when a part of it is read.
const WHOLE_BYTES_MAX: u64 = 1 << 20;

/// In what parts bytes are fetched ahead.
const PART_BYTES: u64 = 128 << 10;

/// What is expected to be needed next.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    streams: Streams,
    behind: Behind,
    siblings: Siblings,
    pub(super) walks: Walks,
    /// Through which directory an object was looked up last.
    places: HashMap<ObjectId, ObjectId>,
    /// What is to be fetched when there is room.
    parts: Parts,
    pub(super) window: Window,
}

impl Ahead {
    /// A program has found an object in a directory.
    pub(super) fn found(&mut self, directory: ObjectId, object: ObjectId) {
        self.places.insert(object, directory);
    }

    /// A file's data, or the file, is known no more.
    pub(super) fn forget(&mut self, object: ObjectId) {
        self.streams.forget(object);
        self.behind.forget(object);
        self.places.remove(&object);
    }

    /// Nothing that was asked for comes any more.
    pub(super) fn cut(&mut self) {
        self.window = Window::default();
        self.walks = Walks::default();
        self.parts.clear();
    }

    /// An answer came.
    pub(super) fn came(&mut self, request: u64, now: Moment) {
        self.window.came(request, now);
    }

    pub(super) fn explored(&mut self, request: u64, has_more: bool, now: Moment) {
        self.came(request, now);
        self.walks.came(request, has_more);
    }

    /// Has these bytes of a file fetched, before what is to be fetched already.
    fn plan(&mut self, object: ObjectId, bytes: Range<u64>) {
        let mut end = bytes.end;
        while end > bytes.start {
            let start = end.saturating_sub(PART_BYTES).max(bytes.start);
            self.parts.push_front(object, start..end);
            end = start;
        }
    }
}

impl Client {
    /// Fetches what a read lacks from `offset` on; plans to fetch what is likely to be read next.
    pub(super) fn fetch_awaited(
        &mut self,
        object: ObjectId,
        offset: u64,
        length: u32,
        effects: &mut Vec<Effect>,
    ) {
        let size = self.size(object);
        let is_small = size <= SMALL_BYTES_MAX;
        let end = match is_small {
            true => size,
            false => offset.saturating_add(length.into()).min(size),
        };
        if self.fetching.upto(object, offset) >= Some(end) || !self.connection.is_up() {
            return;
        }
        let mut at = offset;
        while let Some(missing) = self.first_missing(object, at..end) {
            at = missing;
            if let Some(upto) = self.fetching.upto(object, at) {
                at = upto;
                continue;
            }
            let upto = end.min(at + DATA_BYTES_MAX as u64);
            at = self.fetch(object, at..upto, Urgency::Awaited, effects);
        }
        if is_small {
            self.plan_behind(object, Because::Missing);
        } else if size <= WHOLE_BYTES_MAX {
            self.ahead.plan(object, 0..offset);
            self.ahead.plan(object, end..size);
        } else {
            self.plan_stream(object, offset..end);
        }
    }

    /// A program has read bytes that were there.
    pub(super) fn has_read(&mut self, object: ObjectId, bytes: Range<u64>) {
        if self.ahead.behind.read(object) {
            self.plan_behind(object, Because::Read);
        }
        if self.size(object) > WHOLE_BYTES_MAX {
            self.plan_stream(object, bytes);
        }
    }

    fn plan_stream(&mut self, object: ObjectId, bytes: Range<u64>) {
        let size = self.size(object);
        if let Some(next) = self.ahead.streams.read(object, bytes, size) {
            self.ahead.plan(object, next);
        }
    }

    /// Asks for what is planned, as far as there is room for it.
    pub(super) fn go_ahead(&mut self, effects: &mut Vec<Effect>) {
        if !self.connection.is_up() {
            return;
        }
        self.explore(effects);
        while self.ahead.window.room() > 0
            && let Some((object, bytes)) = self.ahead.parts.pop_front()
        {
            let end = bytes.end.min(self.size(object));
            let missing = self.first_missing(object, bytes.start..end);
            let may_read = self.leases.get(&object) >= Some(&Mode::Read);
            if let Some(start) = missing.filter(|_| may_read) {
                let upto = self.fetch(object, start..end, Urgency::Ahead, effects);
                if upto < end {
                    self.ahead.parts.push_front(object, upto..end);
                }
            }
        }
    }

    /// The first of these bytes of a file that the store does not have.
    pub(super) fn first_missing(&self, object: ObjectId, bytes: Range<u64>) -> Option<u64> {
        match self.stored.get(&object) {
            Some(stored) => stored.first_missing(bytes.start, bytes.end),
            None => (bytes.start < bytes.end).then_some(bytes.start),
        }
    }

    pub(super) fn size(&self, object: ObjectId) -> u64 {
        self.tree
            .get(object)
            .map_or(0, |known| known.attributes.size)
    }
}
