//! Directories that are this user's own: what is put there is for nobody else, and nobody else has put anything there.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Makes a directory, with those above it, unless it is there, and opens it.
///
/// # Errors
/// `PermissionDenied` when it is another user's.
pub(crate) fn open(path: &Path) -> io::Result<OwnedFd> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // Where another user could have put a link, root does not go.
    let is_root = rustix::process::geteuid().is_root();
    let follow = if is_root {
        OFlags::NOFOLLOW
    } else {
        OFlags::empty()
    };
    let directory = rustix::fs::open(path, flags | follow, Mode::empty())?;
    check(&directory)?;
    Ok(directory)
}

/// Whether an open directory is this user's.
///
/// # Errors
/// `PermissionDenied` when it is not.
pub(crate) fn check(directory: impl AsFd) -> io::Result<()> {
    match is_own(rustix::fs::fstat(directory)?.st_uid) {
        true => Ok(()),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Whether what is there is this user's.
pub(crate) fn has(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| is_own(found.uid()))
}

fn is_own(user: u32) -> bool {
    user == rustix::process::geteuid().as_raw()
}
