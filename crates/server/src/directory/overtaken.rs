//! Files that others have changed after clients had written to them: what the log says of these up to then is not written
//! again after a crash.
//!
//! The file `overtaken` beside the log has a line for each: the inode number and the number of the last operation that counts
//! no more, decimal. The file itself is made durable first, since a loss of power could take what a client has synced. Lines of
//! earlier logs mean nothing to a later one, since numbers of operations only grow.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Seek, Write};

use super::Directory;
use rustix::io::Errno;

#[derive(Debug)]
pub(crate) struct Overtaken {
    file: File,
    upto: HashMap<u64, u64>,
    /// Files that were written to since the log began.
    written: HashSet<u64>,
}

impl Overtaken {
    pub(crate) fn read(mut file: File) -> io::Result<Self> {
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let numbers = |line: &str| {
            let (inode, upto) = line.split_once(' ')?;
            Some((inode.parse().ok()?, upto.parse().ok()?))
        };
        Ok(Self {
            // A line that a kill has cut says nothing.
            upto: text.lines().filter_map(numbers).collect(),
            file,
            written: HashSet::new(),
        })
    }

    /// Whether this operation on a file is not to be made again.
    pub(super) fn has(&self, inode: u64, operation: u64) -> bool {
        self.upto.get(&inode).is_some_and(|upto| operation <= *upto)
    }

    pub(super) fn add(&mut self, inode: u64, upto: u64) -> Result<(), Errno> {
        if self.upto.insert(inode, upto) == Some(upto) {
            return Ok(());
        }
        let line = format!("\n{inode} {upto}\n");
        let added = self.file.seek(io::SeekFrom::End(0));
        let added = added.and_then(|_| self.file.write_all(line.as_bytes()));
        let added = added.and_then(|()| self.file.sync_data());
        added.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    pub(super) fn is_written(&mut self, inode: u64) {
        self.written.insert(inode);
    }

    /// A new log has begun.
    pub(super) fn clear(&mut self) -> Result<(), Errno> {
        self.written.clear();
        if self.upto.is_empty() {
            return Ok(());
        }
        self.upto.clear();
        rustix::fs::ftruncate(&self.file, 0)
    }
}

impl Directory {
    /// A file is looked at for the first time since others have changed its data.
    pub(super) fn overtake(&mut self, inode: u64) -> Result<(), Errno> {
        if !self.overtaken.written.remove(&inode) {
            return Ok(());
        }
        let open = self.open_to_read(inode)?;
        rustix::fs::fsync(&*open)?;
        self.overtaken.add(inode, self.made)
    }
}
