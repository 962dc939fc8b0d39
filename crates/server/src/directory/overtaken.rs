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
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use super::Directory;
use crate::notice::notice;

const LINE: usize = 44;

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
        if is_written {
            let open = self.open_to_read(inode)?;
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
}
