//! Files that come behind one that was read.

use std::collections::HashSet;

use surmise_lower::FileKind;

use super::super::Client;
use super::WHOLE_BYTES_MAX;
use crate::lease::Mode;
use crate::object::ObjectId;

/// How many bytes of files a read brings besides, at first, at least and at most, and how many files.
const BYTES_FIRST: u64 = 512 << 10;
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
    /// In the directory of the file that was read: a compiler needs them in any order.
    near: Guess,
    /// In what comes behind that directory.
    beyond: Guess,
}

/// Files that are expected to be read, and how many of them were.
#[derive(Debug)]
struct Guess {
    /// How many bytes a plan has.
    bytes_max: u64,
    /// Of all plans since that was set: how many bytes, how many files, and how many of these were read.
    bytes: u64,
    files: usize,
    read: usize,
    /// How many files the last plan had, and which of them were not read.
    planned: usize,
    unread: HashSet<ObjectId>,
}

impl Default for Guess {
    fn default() -> Self {
        Self {
            bytes_max: BYTES_FIRST,
            bytes: 0,
            files: 0,
            read: 0,
            planned: 0,
            unread: HashSet::new(),
        }
    }
}

/// Why it is time for a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Because {
    /// A file was not there when it was read.
    Missing,
    /// Half of what was planned was read.
    Read,
}

/// Files to fetch.
#[derive(Debug, Default)]
struct Found {
    files: Vec<(ObjectId, u64)>,
    bytes: u64,
    /// There are more.
    is_cut: bool,
}

impl Guess {
    /// Whether half of the files of the last plan have now been read.
    fn read(&mut self, object: ObjectId) -> bool {
        let is_one = self.unread.remove(&object);
        self.read += usize::from(is_one);
        is_one && self.unread.len() == self.planned / 2
    }

    /// How many bytes come next; `None` while the last files may still have their turn. Where few were read when another
    /// one is missing, fewer. One plan can be too short to tell: a directory may have no more files.
    fn next_bytes(&mut self, because: Because) -> Option<u64> {
        if because == Because::Read && self.unread.len() > self.planned / 2 {
            return None;
        }
        if self.bytes >= self.bytes_max / 2 {
            let next = match self.read >= self.files.div_ceil(2) {
                true => self.bytes_max * 4,
                false => self.bytes_max / 2,
            };
            self.bytes_max = next.clamp(BYTES_MIN, BYTES_MAX);
            (self.bytes, self.files, self.read) = (0, 0, 0);
        }
        Some(self.bytes_max)
    }

    fn planned(&mut self, found: &Found) {
        self.bytes += found.bytes;
        self.files += found.files.len();
        self.planned = found.files.len();
        self.unread = found.files.iter().map(|(file, _)| *file).collect();
    }
}

impl Behind {
    /// Bytes of a file were read that were there. Whether half of the files that were planned last have now been read: then it
    /// is time for the next ones.
    pub(super) fn read(&mut self, object: ObjectId) -> bool {
        self.near.read(object) | self.beyond.read(object)
    }

    pub(super) fn forget(&mut self, object: ObjectId) {
        self.near.unread.remove(&object);
        self.beyond.unread.remove(&object);
    }
}

impl Client {
    /// Plans to fetch files that are likely to be read when this one is.
    pub(super) fn plan_behind(&mut self, object: ObjectId, because: Because) {
        let mut near = Found::default();
        if let Some(bytes_max) = self.ahead.behind.near.next_bytes(because) {
            near = self.to_fetch(self.siblings_of(object), bytes_max);
            self.ahead.behind.near.planned(&near);
        }
        let mut files = near.files;
        if !near.is_cut
            && let Some(bytes_max) = self.ahead.behind.beyond.next_bytes(because)
        {
            let taken: HashSet<_> = files.iter().map(|(file, _)| *file).collect();
            let behind = self.order_behind(object);
            let beyond = self.to_fetch(behind.filter(|one| !taken.contains(one)), bytes_max);
            self.ahead.behind.beyond.planned(&beyond);
            files.extend(beyond.files);
        }
        for (file, size) in files.into_iter().rev() {
            self.ahead.plan(file, 0..size);
        }
    }

    /// Of these the files of which nothing is there.
    fn to_fetch(&self, among: impl Iterator<Item = ObjectId>, bytes_max: u64) -> Found {
        let mut found = Found::default();
        for (looks, next) in among.enumerate() {
            if looks >= NAMES_MAX || found.files.len() >= FILES_MAX || found.bytes >= bytes_max {
                found.is_cut = true;
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
                found.bytes += self.kept.cost(next, size).max(FILE_BYTES_MIN);
                found.files.push((next, size));
            }
        }
        found
    }
}
