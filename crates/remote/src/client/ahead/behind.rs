//! Files that come behind one that was read.

use std::collections::HashSet;

use surmise_lower::FileKind;

use super::super::Client;
use super::WHOLE_BYTES_MAX;
use crate::lease::Mode;
use crate::object::ObjectId;

/// How many bytes of files a read brings besides, at first, at least and at most, and how many files.
const BYTES_FIRST: u64 = 128 << 10;
const BYTES_MIN: u64 = 16 << 10;
const BYTES_MAX: u64 = 8 << 20;
const FILES_MAX: usize = 2048;

/// A smaller file counts as much: so much do its question and its answer take of both machines.
const FILE_BYTES_MIN: u64 = 2 << 10;

/// How many names are looked at for these.
const NAMES_MAX: usize = 8192;

/// What was planned last.
#[derive(Debug, Default)]
pub(super) struct Behind {
    bytes: u64,
    files: usize,
    unread: HashSet<ObjectId>,
}

impl Behind {
    /// Bytes of a file were read that were there. Whether half of the files that were planned last have now been read: then it
    /// is time for the next ones.
    pub(super) fn read(&mut self, object: ObjectId) -> bool {
        self.unread.remove(&object) && self.unread.len() == self.files / 2
    }

    pub(super) fn forget(&mut self, object: ObjectId) {
        self.unread.remove(&object);
    }

    /// How many bytes come next. Where few of the last files were read, fewer.
    fn next_bytes(&mut self) -> u64 {
        let was_right = self.unread.len() <= self.files / 2;
        self.bytes = match self.bytes {
            0 => BYTES_FIRST,
            last if was_right => last * 4,
            last => last / 2,
        };
        self.bytes = self.bytes.clamp(BYTES_MIN, BYTES_MAX);
        self.bytes
    }
}

impl Client {
    /// Plans to fetch the files that come behind this one.
    pub(super) fn plan_behind(&mut self, object: ObjectId) {
        let bytes = self.ahead.behind.next_bytes();
        let files = self.files_behind(object, bytes);
        self.ahead.behind.files = files.len();
        self.ahead.behind.unread = files.iter().map(|(file, _)| *file).collect();
        for (file, size) in files.into_iter().rev() {
            self.ahead.plan(file, 0..size);
        }
    }

    /// Files of which nothing is there.
    fn files_behind(&self, object: ObjectId, most_bytes: u64) -> Vec<(ObjectId, u64)> {
        let mut found = Vec::new();
        let mut bytes = 0;
        for next in self.order_behind(object).take(NAMES_MAX) {
            if found.len() >= FILES_MAX || bytes >= most_bytes {
                break;
            }
            let size = self.size(next);
            let kind = self.tree.get(next).map(|known| known.attributes.kind);
            let is_wanted = kind == Some(FileKind::Regular)
                && self.leases.get(&next) >= Some(&Mode::Read)
                && (1..=WHOLE_BYTES_MAX).contains(&size)
                && !self.stored.contains_key(&next)
                && !self.fetching.has(next)
                && !self.ahead.parts.has(next);
            if is_wanted {
                bytes += self.kept.cost(next, size).max(FILE_BYTES_MIN);
                found.push((next, size));
            }
        }
        found
    }
}
