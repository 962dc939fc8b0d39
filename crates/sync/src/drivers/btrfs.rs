//! btrfs(5) with `flushoncommit` and `notreelog`: each transaction is preceded by the data that it refers to,
//! and nothing but a transaction makes anything durable.
//!
//! It is weaker: of crash states at full speed, one in ten had a later change without an earlier one.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{fstat, syncfs};
use surmise_linux::proc::Mount;

use crate::driver::{Driver, Guarantee, Lack};

const WANTED: [&str; 2] = ["flushoncommit", "notreelog"];

#[derive(Debug)]
struct Btrfs {
    directory: File,
    /// A subvolume has a device number of its own, which is not that of its mount.
    device: u64,
    superblock: u64,
}

pub(crate) fn btrfs(mount: &Mount, directory: File) -> Result<Box<dyn Driver>, Lack> {
    if let Some(option) = WANTED.iter().find(|option| !mount.has(option)) {
        return Err(Lack::Reason(format!("it is mounted without {option}")));
    }
    let found = fstat(&directory)
        .map_err(|errno| Lack::Look("look at the directory".into(), errno.into()))?;
    Ok(Box::new(Btrfs {
        directory,
        device: found.st_dev,
        superblock: mount.device,
    }))
}

impl Driver for Btrfs {
    fn name(&self) -> &'static str {
        "btrfs flushoncommit,notreelog"
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::Weaker
    }

    fn device(&self) -> u64 {
        self.device
    }

    fn superblock(&self) -> u64 {
        self.superblock
    }

    fn covers_all(&self) -> bool {
        true
    }

    fn covers(&self, file: BorrowedFd<'_>) -> io::Result<bool> {
        Ok(fstat(file)?.st_dev == self.device)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    fn commit(&self) -> io::Result<()> {
        Ok(syncfs(&self.directory)?)
    }
}
