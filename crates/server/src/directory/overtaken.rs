//! Files that others have changed after clients had written to them: what the log says of these up to then is not written
//! again after a crash. What it says of them from then on was written without knowing of the others, until a client has
//! looked at the file again. Of a file that others have removed all of it counts no more: the inode number may be that of a new
//! file by now.
//!
//! The file `overtaken` beside the log has a line of 44 bytes for each such file: the inode number, the number of the last
//! operation that counts no more, both decimal and filled with spaces to 20 bytes, `1` if a client has looked at the file since,
//! and otherwise `0`. A line is written in place. A file that a client has written since the log began is made durable before its
//! line is, since a loss of power could take what the client has synced. Lines of earlier logs mean nothing to a later one, since
//! numbers of operations only grow.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;
use surmise_lower::Timestamp;
use surmise_remote::object::ObjectId;
use surmise_remote::operation::{Change, NewKind, Operation};

use super::collisions::is_failure;
use super::make::Begun;
use super::redo::{Earlier, Stuck};
use super::{Directory, stat};
use crate::notice::notice;

const LINE: usize = 44;

/// How much later than the last sign of a server's life a file was changed by others for sure.
const SIGN_OF_LIFE_SECONDS: i64 = 10;

#[derive(Debug)]
pub(crate) struct Overtaken {
    file: File,
    lines: HashMap<u64, Line>,
    /// Files that were written to since the log began.
    written: HashSet<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    index: usize,
    upto: u64,
    is_seen: bool,
}

impl Overtaken {
    pub(crate) fn read(mut file: File) -> io::Result<Self> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let numbers = |(index, line): (usize, &[u8])| {
            let text = std::str::from_utf8(line).ok()?;
            let mut parts = text.split_ascii_whitespace();
            let inode = parts.next()?.parse().ok()?;
            let upto = parts.next()?.parse().ok()?;
            let is_seen = parts.next()? == "1";
            let line = Line {
                index,
                upto,
                is_seen,
            };
            Some((inode, line))
        };
        Ok(Self {
            // A line that a kill has cut says nothing.
            lines: bytes
                .chunks_exact(LINE)
                .enumerate()
                .filter_map(numbers)
                .collect(),
            file,
            written: HashSet::new(),
        })
    }

    /// Whether this operation on a file is not to be made again.
    pub(super) fn has(&self, inode: u64, operation: u64) -> bool {
        let line = self.lines.get(&inode);
        line.is_some_and(|line| operation <= line.upto)
    }

    /// The inodes that others have removed.
    pub(super) fn gone(&self) -> Vec<u64> {
        let lines = self.lines.iter().filter(|(_, line)| line.upto == u64::MAX);
        lines.map(|(inode, _)| *inode).collect()
    }

    /// The files that no client has looked at since others have written to them.
    pub(super) fn unseen(&self) -> Vec<u64> {
        let lines = self.lines.iter().filter(|(_, line)| !line.is_seen);
        lines.map(|(inode, _)| *inode).collect()
    }

    pub(super) fn add(&mut self, inode: u64, upto: u64, is_seen: bool) -> io::Result<()> {
        let next = self.lines.len();
        let before = self.lines.get(&inode).copied();
        let line = Line {
            index: before.map_or(next, |line| line.index),
            upto,
            is_seen,
        };
        if before == Some(line) {
            return Ok(());
        }
        let text = format!("{inode:>20} {upto:>20} {}\n", u8::from(is_seen));
        self.file
            .write_all_at(text.as_bytes(), (line.index * LINE) as u64)?;
        self.lines.insert(inode, line);
        Ok(())
    }

    pub(super) fn is_written(&mut self, inode: u64) {
        self.written.insert(inode);
    }

    /// A new log has begun.
    pub(super) fn clear(&mut self) -> Result<(), Errno> {
        self.written.clear();
        if self.lines.is_empty() {
            return Ok(());
        }
        self.lines.clear();
        rustix::fs::ftruncate(&self.file, 0)
    }
}

impl Directory {
    /// Others have removed an inode.
    pub(super) fn note_gone(&mut self, inode: u64) {
        // What cannot be noted, a crash may take.
        if let Err(error) = self.overtaken.add(inode, u64::MAX, true) {
            notice(format_args!("what others have removed here: {error}"));
        }
    }

    /// A new file has this inode number.
    pub(super) fn note_new(&mut self, inode: u64) -> Result<(), Errno> {
        if !self.overtaken.has(inode, u64::MAX) {
            return Ok(());
        }
        let noted = self.overtaken.add(inode, self.made, true);
        noted.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    /// Others have changed the data of a file, or a client looks at the file for the first time since.
    pub(super) fn overtake(&mut self, inode: u64, is_seen: bool) -> Result<(), Errno> {
        let is_written = self.overtaken.written.contains(&inode);
        // One that has no name by now is gone, or made durable when it is looked at.
        if is_written && let Ok(open) = self.open_to_read(inode) {
            rustix::fs::fsync(&*open)?;
        }
        let noted = self.overtaken.add(inode, self.made, is_seen);
        noted.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        if is_written {
            rustix::fs::fdatasync(&self.overtaken.file)?;
            self.overtaken.written.remove(&inode);
        }
        Ok(())
    }

    /// A file that is younger than the last record is none that the log is about: others have made it since, and it has the
    /// inode number of one that is gone.
    pub(super) fn forget_younger(&mut self, earlier: &Earlier<'_>) -> Result<(), Stuck> {
        let Some(ended) = earlier.ended else {
            return Ok(());
        };
        let operations = || earlier.operations.iter();
        // A client's own object may well have been made since.
        let made: HashSet<_> = operations().filter_map(|one| one.change.makes()).collect();
        let touched: HashSet<_> = operations().flat_map(|one| one.change.touches()).collect();
        for object in touched.difference(&made).copied() {
            let Some(inode) = self.ids.inode(object) else {
                continue;
            };
            let found = match self.open_inode(inode) {
                Ok(open) => {
                    let mask = StatxFlags::BTIME;
                    rustix::fs::statx(&*open, "", AtFlags::EMPTY_PATH, mask)?
                }
                Err(errno) if is_failure(errno) => return Err(errno.into()),
                Err(_) => continue,
            };
            let born = (found.stx_btime.tv_sec, found.stx_btime.tv_nsec);
            if found.stx_mask & StatxFlags::BTIME.bits() != 0 && born > ended {
                let places = self.places.take(inode);
                self.forget_inode(inode);
                for place in places {
                    self.places.add(inode, place);
                }
            }
        }
        Ok(())
    }

    /// An operation that was made before. A loss of power may have taken data that it wrote. All else is durable in one order
    /// with names, but for times that were not settled. What others have overtaken stays as it is.
    pub(super) fn redo_made(
        &mut self,
        number: u64,
        operation: &Operation,
        is_settled: bool,
    ) -> Result<(), Errno> {
        if !is_settled {
            self.stamp_parents(operation);
        }
        let Some((object, at)) = data_time(operation) else {
            return Ok(());
        };
        let inode = self.inode(object)?;
        if self.overtaken.has(inode, number) {
            return Ok(());
        }
        let change = &operation.change;
        if matches!(change, Change::Write { .. } | Change::Resize { .. }) {
            return self.patiently(Some(operation), Begun::No, |directory, _| {
                directory.change_inode(operation)
            });
        }
        if !is_settled || self.stamps.contains_key(&inode) {
            self.stamp(inode, at);
        }
        Ok(())
    }

    /// Finds the files that others have changed since a server last did, by their times of modification: what a server
    /// has written has the time that its client says. Returns how many operations have given files their times.
    pub(super) fn find_overtaken(
        &mut self,
        earlier: &Earlier<'_>,
        done: usize,
    ) -> Result<usize, Stuck> {
        let (settled, seen) = self.progress.last_settled()?;
        let settled = usize::try_from(settled.saturating_sub(earlier.base)).unwrap_or(0);
        for inode in self.overtaken.unseen() {
            self.note_written(inode);
        }
        // The time of each file by the log, and whether it was settled.
        let mut times = HashMap::new();
        for (index, operation) in earlier.operations.iter().enumerate() {
            if let Some((object, at)) = data_time(operation) {
                let time = times.entry(object).or_insert((at, true));
                *time = (at, index < settled);
            }
        }
        for (object, (at, is_settled)) in times {
            let open = self.inode(object).and_then(|inode| self.open_inode(inode));
            let Ok(open) = open else {
                continue;
            };
            let found = stat(open.as_fd(), "")?;
            let modified = (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec);
            if is_settled && modified != (at.seconds, at.nanoseconds) {
                let made = earlier.base + done as u64;
                self.overtaken.add(found.stx_ino, made, true)?;
            } else if !is_settled && found.stx_ctime.tv_sec > seen + SIGN_OF_LIFE_SECONDS {
                // The server was gone by then.
                self.note_written(found.stx_ino);
            }
        }
        // From here on times are not as the log says, until all are settled again.
        self.progress.unsettle(earlier.base)?;
        Ok(settled)
    }
}

/// The file whose time of modification an operation gives, and the time.
fn data_time(operation: &Operation) -> Option<(ObjectId, Timestamp)> {
    match &operation.change {
        Change::Write { data, .. } if data.is_empty() => None,
        Change::Write { object, .. } | Change::Resize { object, .. } => {
            Some((*object, operation.at))
        }
        Change::Create { object, new, .. } if new.kind == NewKind::Regular => {
            Some((*object, operation.at))
        }
        Change::SetAttributes { object, set } => Some((*object, set.modified?)),
        _ => None,
    }
}
