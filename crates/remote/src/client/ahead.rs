//! Bytes that are fetched before they are asked for: the rest of a file that is read from front to back, and small files that
//! come behind one that was read, in the order of names. A wrong guess costs bytes on the wire, and nothing else.

use std::collections::{HashMap, HashSet};
use std::ops::Bound;

use surmise_lower::FileKind;

use super::{Client, Effect};
use crate::frame::DATA_BYTES_MAX;
use crate::lease::Mode;
use crate::object::ObjectId;

/// What a read of a large file brings besides, in bytes, at first and at most.
const WINDOW_FIRST: u64 = 64 << 10;
const WINDOW_MAX: u64 = 8 << 20;

/// A file up to this size is fetched whole, and is one of those that may come behind another.
const SMALL_BYTES_MAX: u64 = 64 << 10;

/// How many bytes of small files a read brings besides, at first, at least and at most, and how many files.
const FILES_BYTES_FIRST: u64 = 512 << 10;
const FILES_BYTES_MIN: u64 = 16 << 10;
const FILES_BYTES_MAX: u64 = 8 << 20;
const FILES_MAX: usize = 2048;

/// How many names are looked at for these.
const NAMES_MAX: usize = 8192;

/// What is expected to be read next.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Of a large file: where the last window ended, and how long it was.
    windows: HashMap<ObjectId, (u64, u64)>,
    /// Through which directory an object was looked up last.
    places: HashMap<ObjectId, ObjectId>,
    /// How many bytes of small files the last window had, how many files, and which of them were not read.
    files_bytes: u64,
    files: usize,
    unread: HashSet<ObjectId>,
}

impl Ahead {
    /// A program has found an object in a directory.
    pub(super) fn found(&mut self, directory: ObjectId, object: ObjectId) {
        self.places.insert(object, directory);
    }

    /// Bytes of a file were read that were there. Whether half of the small files that came with the last window have now
    /// been read: then it is time for the next ones.
    pub(super) fn read(&mut self, object: ObjectId) -> bool {
        self.unread.remove(&object) && self.unread.len() == self.files / 2
    }

    /// A file's data, or the file, is known no more.
    pub(super) fn forget(&mut self, object: ObjectId) {
        self.windows.remove(&object);
        self.places.remove(&object);
        self.unread.remove(&object);
    }

    /// How long a window is that begins at `offset` of a large file.
    fn window(&mut self, object: ObjectId, offset: u64, least: u64) -> u64 {
        let last = self.windows.get(&object);
        let length = match last {
            Some((end, length)) if *end == offset => (length * 2).min(WINDOW_MAX),
            None if offset == 0 => WINDOW_FIRST,
            _ => 0,
        };
        let length = length.max(least);
        self.windows.insert(object, (offset + length, length));
        length
    }

    /// How many bytes of small files come next. Where few of the last ones were read, fewer.
    fn next_files_bytes(&mut self) -> u64 {
        let last = self.files_bytes;
        let was_right = self.unread.len() <= self.files / 2;
        self.files_bytes = if was_right { last * 4 } else { last / 2 };
        self.files_bytes = match last {
            0 => FILES_BYTES_FIRST,
            _ => self.files_bytes.clamp(FILES_BYTES_MIN, FILES_BYTES_MAX),
        };
        self.files_bytes
    }
}

impl Client {
    /// Fetches what a read lacks from `offset` on, and what is likely to be read next.
    pub(super) fn fetch_ahead(
        &mut self,
        object: ObjectId,
        offset: u64,
        length: u32,
        effects: &mut Vec<Effect>,
    ) {
        if self.is_fetching(object, offset) || !self.connection.is_up() {
            return;
        }
        let size = self.size(object);
        let is_small = size <= SMALL_BYTES_MAX;
        let length = match is_small {
            true => size.saturating_sub(offset),
            false => self.ahead.window(object, offset, length.into()),
        };
        let end = offset.saturating_add(length).min(size);
        let mut at = offset;
        while at < end {
            let most = (end - at).min(DATA_BYTES_MAX as u64);
            self.fetch(object, at, u32::try_from(most).unwrap_or(u32::MAX), effects);
            at += most;
        }
        if is_small {
            self.fetch_small_behind(object, effects);
        }
    }

    /// Fetches small files that come behind this one.
    pub(super) fn fetch_small_behind(&mut self, object: ObjectId, effects: &mut Vec<Effect>) {
        let bytes = self.ahead.next_files_bytes();
        let behind = self.small_files_behind(object, bytes);
        self.ahead.files = behind.len();
        self.ahead.unread = behind.iter().map(|(file, _)| *file).collect();
        for (file, size) in behind {
            self.fetch(file, 0, u32::try_from(size).unwrap_or(u32::MAX), effects);
        }
    }

    pub(super) fn size(&self, object: ObjectId) -> u64 {
        self.tree
            .get(object)
            .map_or(0, |known| known.attributes.size)
    }

    /// Small files of which nothing is there, in the order in which a walk through the directories comes to them.
    fn small_files_behind(&self, object: ObjectId, most_bytes: u64) -> Vec<(ObjectId, u64)> {
        let fetching: HashSet<_> = self.fetching.values().map(|one| one.object).collect();
        let mut found = Vec::new();
        let mut bytes = 0;
        let mut looked = 0;
        let mut at = object;
        let mut climbed = HashSet::new();
        while let Some(&directory) = self.ahead.places.get(&at) {
            let mut below = self.behind(directory, at);
            while let Some(next) = below.pop() {
                looked += 1;
                if found.len() >= FILES_MAX || bytes >= most_bytes || looked > NAMES_MAX {
                    return found;
                }
                if self.leases.get(&next) < Some(&Mode::Read) {
                    continue;
                }
                let size = self.size(next);
                match self.tree.get(next).map(|known| known.attributes.kind) {
                    Some(FileKind::Directory) => {
                        let names = self.tree.names(next);
                        let names = names.into_iter().flat_map(|names| names.values().rev());
                        below.extend(names.copied());
                    }
                    Some(FileKind::Regular) => {
                        let is_wanted = (1..=SMALL_BYTES_MAX).contains(&size)
                            && !self.stored.contains_key(&next)
                            && !fetching.contains(&next);
                        if is_wanted {
                            bytes += size;
                            found.push((next, size));
                        }
                    }
                    _ => {}
                }
            }
            // Directories that moved meanwhile could lead in a circle.
            if !climbed.insert(directory) {
                break;
            }
            at = directory;
        }
        found
    }

    /// What follows an object in its directory; the next one is the last.
    fn behind(&self, directory: ObjectId, object: ObjectId) -> Vec<ObjectId> {
        let Ok(names) = self.tree.names(directory) else {
            return Vec::new();
        };
        let Some((name, _)) = names.iter().find(|(_, one)| **one == object) else {
            return Vec::new();
        };
        let behind = names.range((Bound::Excluded(name), Bound::Unbounded));
        behind.rev().map(|(_, one)| *one).collect()
    }
}
