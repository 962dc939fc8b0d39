//! ext4 (Documentation/filesystems/ext4 in the kernel's source, ext4(5)): the journal's transactions become
//! durable one after the other, and what is in one becomes durable at once.
//!
//! With `data=journal` the data of all files go through the journal, too. So it is with `nodelalloc` for the
//! files of a directory that has the attribute `j` (chattr(1)) since before they were made. With delayed
//! allocation, data come into a transaction when the kernel likes: long after names that were made later.
//!
//! fsync(2) of a directory whose data go through the journal forces the running transaction, with all that
//! is in it; two flushes of the device where there is something to do, and a fifth of a microsecond where
//! there is nothing.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{IFlags, fstat, ioctl_getflags};
use surmise_linux::proc::Mount;

use crate::driver::{Driver, Guarantee, Lack};

/// Settings with which a transaction may be taken for durable that is not, each with the one to have.
const UNSAFE: [(&str, &str); 3] = [
    ("journal_async_commit", "mount without it"),
    ("nobarrier", "mount with barrier=1"),
    ("data=writeback", "mount with data=journal"),
];

#[derive(Debug)]
struct Ext4 {
    directory: File,
    device: u64,
    journals: Journals,
}

/// Of which files the data go through the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Journals {
    All,
    Marked,
}

pub(crate) fn ext4(mount: &Mount, directory: File) -> Result<Box<dyn Driver>, Lack> {
    let settings = settings(mount)?;
    let has = |option: &str| settings.lines().any(|line| line == option);
    if let Some((option, fix)) = UNSAFE.iter().find(|(option, _)| has(option)) {
        return Err(Lack::Reason(format!("it is mounted with {option}; {fix}")));
    }
    let is_marked = is_marked(directory.as_fd())
        .map_err(|error| Lack::Look("read the attributes of the directory".into(), error))?;
    let journals = if has("data=journal") {
        Journals::All
    } else if !is_marked {
        return Err(Lack::Reason("it is mounted without data=journal".into()));
    } else if !has("nodelalloc") {
        return Err(Lack::Reason(
            "files with the attribute j need the mount option nodelalloc".into(),
        ));
    } else {
        Journals::Marked
    };
    Ok(Box::new(Ext4 {
        directory,
        device: mount.device,
        journals,
    }))
}

impl Driver for Ext4 {
    fn name(&self) -> &'static str {
        match self.journals {
            Journals::All => "ext4 data=journal",
            Journals::Marked => "ext4 nodelalloc, attribute j",
        }
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::Ordered
    }

    fn device(&self) -> u64 {
        self.device
    }

    fn superblock(&self) -> u64 {
        self.device
    }

    fn covers_all(&self) -> bool {
        self.journals == Journals::All
    }

    fn covers(&self, file: BorrowedFd<'_>) -> io::Result<bool> {
        if fstat(file)?.st_dev != self.device {
            return Ok(false);
        }
        match self.journals {
            Journals::All => Ok(true),
            Journals::Marked => is_marked(file),
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    fn commit(&self) -> io::Result<()> {
        self.directory.sync_all()
    }
}

fn is_marked(file: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(ioctl_getflags(file)?.contains(IFlags::JOURNALING))
}

/// All settings, those included that are the file system's own defaults, a line each: the list of mounts
/// leaves these out.
fn settings(mount: &Mount) -> Result<String, Lack> {
    let look = |error| Lack::Look(format!("settings of {}", mount.source.display()), error);
    let device = mount.block_device().map_err(look)?;
    let path = Path::new("/proc/fs/ext4").join(device).join("options");
    fs::read_to_string(path).map_err(look)
}
