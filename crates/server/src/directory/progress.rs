//! How many operations have been made in the directory.
//!
//! The number is the modification time of a file beside the log, and is set after each operation on names. A journaling
//! file system makes changes of times durable in one order with changes of names (ext4 and xfs by their journals, btrfs by
//! its transactions). So after a kill or a power loss all operations up to the number are there, and of the later ones
//! that are on names at most the next.
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
