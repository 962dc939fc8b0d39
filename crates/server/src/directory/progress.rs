//! How many operations have been made in the directory.
//!
//! The number is the modification time of a file beside the log, and is set after each operation on names. A journaling
//! file system makes changes of times durable in one order with changes of names (ext4 and xfs by their journals, btrfs by
//! its transactions). So after a kill or a power loss all operations up to the number are there, and of the later ones
//! that are on names at most the next.
//!
//! The time of access of that file is how many operations had been made when all times of files were last as the log says.
//!
//! Which of two names an exchange began with cannot be seen from the names. Therefore the inode number is noted before it, in
//! the same way.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;

use super::fault::may_end;

const NANOSECONDS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(crate) struct Progress {
    made: File,
    exchange: File,
}

impl Progress {
    pub(crate) fn new(made: File, exchange: File) -> Self {
        Self { made, exchange }
    }

    /// This many operations have been made.
    pub(crate) fn set(&self, operations: u64) -> Result<(), Errno> {
        may_end()?;
        rustix::fs::futimens(
            &self.made,
            &Timestamps {
                last_access: omitted(),
                last_modification: time_of(operations),
            },
        )
    }

    /// This many operations have been made, and all files have the times that these give.
    pub(crate) fn settled(&self, operations: u64) -> Result<(), Errno> {
        may_end()?;
        rustix::fs::futimens(
            &self.made,
            &Timestamps {
                last_access: time_of(operations),
                last_modification: time_of(operations),
            },
        )
    }

    /// Times of files are as they were after this many operations, or others.
    pub(crate) fn unsettle(&self, operations: u64) -> Result<(), Errno> {
        may_end()?;
        rustix::fs::futimens(
            &self.made,
            &Timestamps {
                last_access: time_of(operations),
                last_modification: omitted(),
            },
        )
    }

    /// How many operations were made when the times were last settled, and when that was noted, by the clock of the file system.
    pub(crate) fn last_settled(&self) -> std::io::Result<(u64, i64)> {
        let found = self.made.metadata()?;
        // Others may have read the file.
        let settled = number_of(found.atime(), found.atime_nsec());
        let made = number_of(found.mtime(), found.mtime_nsec());
        Ok((settled.min(made), found.ctime()))
    }

    pub(crate) fn get(&self) -> std::io::Result<u64> {
        let found = self.made.metadata()?;
        Ok(number_of(found.mtime(), found.mtime_nsec()))
    }

    /// The operation of this number will exchange two names; the first leads to this inode.
    pub(crate) fn will_exchange(&self, operation: u64, inode: u64) -> Result<(), Errno> {
        may_end()?;
        rustix::fs::futimens(
            &self.exchange,
            &Timestamps {
                last_access: time_of(operation),
                last_modification: time_of(inode),
            },
        )
    }

    /// To which inode the first name led before this operation, if it has begun.
    pub(crate) fn exchanges(&self, operation: u64) -> std::io::Result<Option<u64>> {
        let found = self.exchange.metadata()?;
        let noted = number_of(found.atime(), found.atime_nsec());
        let inode = number_of(found.mtime(), found.mtime_nsec());
        Ok((noted == operation).then_some(inode))
    }
}

fn omitted() -> Timespec {
    Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_OMIT,
    }
}

fn time_of(number: u64) -> Timespec {
    Timespec {
        tv_sec: (number / NANOSECONDS) as i64,
        tv_nsec: (number % NANOSECONDS) as i64,
    }
}

fn number_of(seconds: i64, nanoseconds: i64) -> u64 {
    seconds.unsigned_abs() * NANOSECONDS + nanoseconds.unsigned_abs()
}
