//! What a file system has to do for external synchrony, and how one is asked whether it does.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use surmise_linux::proc::{Mount, MountError};

use crate::drivers;

/// A way in which a file system makes changes durable in their order.
pub trait Driver: Send + Sync + std::fmt::Debug {
    /// How the file system is set up, for people: `ext4 data=journal`.
    fn name(&self) -> &'static str;

    /// What is promised of it.
    fn guarantee(&self) -> Guarantee;

    /// The number of the device that its files are on, as stat(2) tells it.
    fn device(&self) -> u64;

    /// The number of the file system, as /proc tells it of mounts and of mapped files. All its files have this one,
    /// also where they are on devices of several numbers.
    fn superblock(&self) -> u64;

    /// Whether the order holds for changes of all its files.
    fn covers_all(&self) -> bool;

    /// Whether the order holds for changes of this open file. Where it does not, fsync(2) has to be
    /// called for it.
    ///
    /// # Errors
    /// As for ioctl(2).
    fn covers(&self, file: BorrowedFd<'_>) -> io::Result<bool>;

    /// What it commits by. It has to be open where it commits.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Makes durable all that was done to the file system before the call.
    ///
    /// # Errors
    /// As for fsync(2). Then nobody knows what is durable, and a later success says nothing of it.
    fn commit(&self) -> io::Result<()>;
}

/// How sure the order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// No crash state that broke it was ever found: one journal holds data and names.
    Ordered,
    /// Crash states that broke it were found, few and at full speed only.
    Weaker,
}

/// Why fsync(2) cannot be put off on a file system.
#[derive(Debug, thiserror::Error)]
pub enum NoDriver {
    /// It could not be looked at.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// Its directory could not be opened, or its settings not be read.
    #[error("{what}: {source}")]
    Look {
        /// What was looked at.
        what: String,
        #[source]
        /// Why it failed.
        source: io::Error,
    },
    /// After a power loss a later change may be there without an earlier one.
    #[error("{kind} at {} does not keep the order of changes: {reason}", directory.display())]
    Unordered {
        /// The file system's type.
        kind: String,
        /// Where it was asked for.
        directory: std::path::PathBuf,
        /// What is missing.
        reason: String,
    },
}

/// The driver for the file system that `directory` lies on.
///
/// # Errors
/// When there is none: then only fsync(2) itself makes anything durable.
pub fn driver_of(directory: &Path) -> Result<Box<dyn Driver>, NoDriver> {
    let mount = Mount::of(directory)?;
    let look = |source| NoDriver::Look {
        what: format!("open {}", directory.display()),
        source,
    };
    let opened = File::open(directory).map_err(look)?;
    let found = match mount.kind.as_str() {
        "ext4" => drivers::ext4(&mount, opened),
        "btrfs" => drivers::btrfs(&mount, opened),
        // A user may have mounted it by the program of FUSE.
        "fuse.surmise" => Ok(drivers::far(&mount, opened)),
        kind => Err(Lack::Reason(format!(
            "no setting of {kind} is known that does"
        ))),
    };
    found.map_err(|lack| match lack {
        Lack::Reason(reason) => NoDriver::Unordered {
            kind: mount.kind,
            directory: directory.to_owned(),
            reason,
        },
        Lack::Look(what, source) => NoDriver::Look { what, source },
    })
}

/// What a file system lacks that has been found to be of a known type.
pub(crate) enum Lack {
    Reason(String),
    /// It could not be found out.
    Look(String, io::Error),
}
