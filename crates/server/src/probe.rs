//! What the file system of an export can, tried out on files of the server's own.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;

use crate::directory::path_of;

const ONE: &str = "probe.1";
const TWO: &str = "probe.2";

/// The lengths of targets that file systems bear: ext4 with blocks of 4 KiB, with blocks of 1 KiB, and at least.
const TARGETS: [u32; 3] = [4095, 1023, 59];

/// No file system rounds this to itself.
const NANOSECONDS: i64 = 123_456_789;

/// What a file system can.
#[derive(Debug)]
pub(crate) struct Abilities {
    /// The longest target of a symbolic link, in bytes.
    pub(crate) target_bytes_max: u32,
    /// Whether files have extended attributes that begin with `user.`.
    pub(crate) has_extended: bool,
    /// What the server cannot do without and the file system cannot.
    pub(crate) lacks: Option<&'static str>,
}

/// Tries out the file system in the directory of the server's state.
pub(crate) fn probe(state: &OwnedFd) -> Result<Abilities, Errno> {
    clean(state)?;
    let found = try_all(state.as_fd());
    clean(state)?;
    match found {
        // A full one has been used before. So clients can remove something.
        Err(Errno::NOSPC | Errno::DQUOT) => Ok(Abilities {
            target_bytes_max: TARGETS[0],
            has_extended: true,
            lacks: None,
        }),
        found => found,
    }
}

fn try_all(state: BorrowedFd<'_>) -> Result<Abilities, Errno> {
    let file = create(state, ONE)?;
    create(state, TWO)?;
    let has_extended = can(rustix::fs::setxattr(
        path_of(file.as_fd()),
        "user.surmise",
        b"1",
        XattrFlags::empty(),
    ))?;
    let exchanges = can(rustix::fs::renameat_with(
        state,
        ONE,
        state,
        TWO,
        RenameFlags::EXCHANGE,
    ))?;
    let lacks = if !keeps_nanoseconds(file.as_fd())? {
        Some("does not keep times of files in nanoseconds")
    } else if !exchanges {
        Some("cannot exchange two names (renameat2(2))")
    } else {
        None
    };
    Ok(Abilities {
        target_bytes_max: longest_target(state)?,
        has_extended,
        lacks,
    })
}

fn create(state: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    rustix::fs::openat(state, name, flags, Mode::RUSR | Mode::WUSR)
}

/// Whether a file system can what was tried.
fn can(outcome: Result<(), Errno>) -> Result<bool, Errno> {
    match outcome {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn keeps_nanoseconds(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    let time = Timespec {
        tv_sec: 1,
        tv_nsec: NANOSECONDS,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::futimens(file, &times)?;
    let found = rustix::fs::fstat(file)?;
    let wanted = NANOSECONDS as u64;
    Ok((found.st_mtime_nsec, found.st_atime_nsec) == (wanted, wanted))
}

fn longest_target(state: BorrowedFd<'_>) -> Result<u32, Errno> {
    rustix::fs::unlinkat(state, ONE, AtFlags::empty())?;
    let mut works = TARGETS[TARGETS.len() - 1];
    for bytes in TARGETS {
        match rustix::fs::symlinkat("x".repeat(bytes as usize), state, ONE) {
            Ok(()) => {
                works = bytes;
                break;
            }
            Err(Errno::NAMETOOLONG | Errno::INVAL) => {}
            // There are none at all; to make one fails then.
            Err(Errno::PERM | Errno::OPNOTSUPP) => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(works)
}

fn clean(state: &OwnedFd) -> Result<(), Errno> {
    for name in [ONE, TWO] {
        match rustix::fs::unlinkat(state, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
