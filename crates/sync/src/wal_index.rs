//! Maps that need no order: the index of a write-ahead log of SQLite, `BASE-shm` beside `BASE` and `BASE-wal`.
//!
//! All processes that have such a base open share the index by a map, so the index is mapped as long as one of them has
//! the base open. After a loss of power nobody uses its content. The first process that opens a base whose header says
//! that it has a write-ahead log cuts the index to nothing, before it reads the index, and makes it anew from the log
//! (<https://sqlite.org/walformat.html>). So it does not matter which stores into the index became durable, and whether
//! that was before earlier writes.
//!
//! That is true of a file as long as this is its only name, beside such a base. So names and headers are looked at when
//! the map is found. Before each sync that is put off, the names are looked at again: they must still lead to the same
//! files. A rename between two looks does no harm. A new name is a change of the volume. So where the name has become
//! durable, everything before it has, too, including all syncs that were put off. And the next sync finds the name.
//!
//! A program that asks for the file or the map to be durable relies on its content. From then on it is a map like any
//! other. So is a map of a file that looks different from what SQLite makes.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::{Errno, pread};

use crate::maps::SharedMap;

/// How the name of an index ends, behind that of its base, and that of a log.
pub(crate) const INDEX_END: &str = "-shm";
const LOG_END: &str = "-wal";

/// The index is mapped in pieces of this size.
const REGION: u64 = 32 << 10;

/// How a base begins.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Behind it, two numbers say how the base is written and read: with a write-ahead log.
const VERSIONS: [u8; 2] = [2, 2];
const VERSIONS_AT: usize = 18;

/// How a log begins, in either order of bytes of its checksums; it is empty at first.
const LOG_MAGICS: [u32; 2] = [0x377f_0682, 0x377f_0683];

/// An index has its header twice, each of which begins with this version, or 0 as long as nothing was written.
const INDEX_VERSION: u32 = 3_007_000;
const SECOND_HEADER: usize = 48;

/// How many are kept apart from other maps: each is looked at before each sync.
const COUNT_MAX: usize = 64;

/// The indexes that are mapped, as far as is known.
#[derive(Debug, Default)]
pub(crate) struct WalIndexes {
    mapped: Vec<WalIndex>,
    /// Files of which somebody wants the content.
    wanted: BTreeSet<u64>,
}

impl WalIndexes {
    /// Forgets which are mapped, before it is looked again.
    pub(crate) fn clear(&mut self) {
        self.mapped.clear();
    }

    /// Whether all that were taken are still what they were then.
    pub(crate) fn stand(&self) -> bool {
        let stands = |index: &WalIndex| !self.wanted.contains(&index.stat.st_ino) && index.stands();
        self.mapped.iter().all(stands)
    }

    /// Takes a map of a volume's file, if it is one of an index. One of `roots` leads to where the map's path begins.
    pub(crate) fn take(&mut self, map: &SharedMap, roots: &[PathBuf], volume: u64) -> bool {
        let is_whole = map.offset.is_multiple_of(REGION) && map.length().is_multiple_of(REGION);
        if !is_whole || self.wanted.contains(&map.inode) {
            return false;
        }
        if self.have(map.inode) {
            return true;
        }
        if self.mapped.len() == COUNT_MAX {
            return false;
        }
        let Ok(inside) = map.path.strip_prefix("/") else {
            return false;
        };
        // What cannot be looked at is none.
        let found = roots
            .iter()
            .filter_map(|root| WalIndex::find(&root.join(inside), volume).ok()?)
            .find(|index| index.stat.st_ino == map.inode);
        let is_found = found.is_some();
        self.mapped.extend(found);
        is_found
    }

    /// Somebody asks for this file, or its map, to be durable: from now on it is none.
    pub(crate) fn want(&mut self, inode: u64) {
        self.wanted.insert(inode);
    }

    /// Whether this file was taken.
    pub(crate) fn have(&self, inode: u64) -> bool {
        let mut mapped = self.mapped.iter();
        mapped.any(|index| index.stat.st_ino == inode)
    }
}

/// One of them, as it was found.
#[derive(Debug)]
struct WalIndex {
    /// That holds it, and its base.
    directory: OwnedFd,
    name: OsString,
    stat: Stat,
    base: OsString,
    base_stat: Stat,
}

impl WalIndex {
    /// The file at `path`, if it is one, of a base that has a log.
    fn find(path: &Path, volume: u64) -> io::Result<Option<Self>> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(None);
        };
        let Some(base) = name.as_bytes().strip_suffix(INDEX_END.as_bytes()) else {
            return Ok(None);
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(parent, flags, Mode::empty())?;
        let log = OsString::from_vec([base, LOG_END.as_bytes()].concat());
        let base = OsStr::from_bytes(base);
        let index_head = Head::read(&directory, name, volume)?;
        let base_head = Head::read(&directory, base, volume)?;
        let log_head = Head::read(&directory, &log, volume)?;
        let (Some(index_head), Some(base_head), Some(log_head)) = (index_head, base_head, log_head)
        else {
            return Ok(None);
        };
        let is_one = index_head.is_index() && base_head.is_base() && log_head.is_log();
        Ok(is_one.then(|| Self {
            directory,
            name: name.to_owned(),
            stat: index_head.stat,
            base: base.to_owned(),
            base_stat: base_head.stat,
        }))
    }

    /// Whether both names lead to the same files as then, and the index has no other one.
    fn stands(&self) -> bool {
        let leads = |name: &OsStr, then: &Stat| {
            let now = statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW);
            now.is_ok_and(|now| {
                let is_same = (now.st_dev, now.st_ino) == (then.st_dev, then.st_ino);
                is_same && now.st_nlink == then.st_nlink
            })
        };
        leads(&self.name, &self.stat) && leads(&self.base, &self.base_stat)
    }
}

/// How a file begins.
struct Head {
    stat: Stat,
    bytes: Vec<u8>,
}

impl Head {
    /// Of a regular file of the volume; `None` for anything else.
    fn read(directory: &OwnedFd, name: &OsStr, volume: u64) -> io::Result<Option<Self>> {
        let found = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        // To open anything else may have an effect.
        let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        if !is_file || found.st_dev != volume {
            return Ok(None);
        }
        // Nor is a lease waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(directory, name, flags, Mode::empty())?;
        let stat = fstat(&file)?;
        if (stat.st_dev, stat.st_ino) != (found.st_dev, found.st_ino) {
            return Ok(None);
        }
        let mut bytes = vec![0; 2 * SECOND_HEADER];
        let length = pread(&file, &mut bytes[..], 0)?;
        bytes.truncate(length);
        Ok(Some(Self { stat, bytes }))
    }

    fn is_index(&self) -> bool {
        let version = |at: usize| self.word(at).map(u32::from_ne_bytes);
        let is_right = |at| matches!(version(at), Some(0 | INDEX_VERSION));
        // Of another name somebody may expect more.
        self.stat.st_nlink == 1 && is_right(0) && is_right(SECOND_HEADER)
    }

    fn is_base(&self) -> bool {
        let versions = self.bytes.get(VERSIONS_AT..VERSIONS_AT + 2);
        self.bytes.starts_with(MAGIC) && versions == Some(&VERSIONS[..])
    }

    fn is_log(&self) -> bool {
        let magic = self.word(0).map(u32::from_be_bytes);
        self.bytes.is_empty() || magic.is_some_and(|magic| LOG_MAGICS.contains(&magic))
    }

    fn word(&self, at: usize) -> Option<[u8; 4]> {
        self.bytes.get(at..at + 4)?.try_into().ok()
    }
}

#[cfg(test)]
mod tests;
