//! Directories that the domain removed and that held its state, once that is gone.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use surmise_changes::real::{is_absent, look_at};

use crate::report::Kept;

/// Removes what a commit kept, where it is empty by now: call it when the state directory is gone.
/// Returns those that still hold something.
///
/// # Errors
/// What the first failed removal says; the rest is not tried, as it is above.
pub fn finish_kept(kept: &[Kept]) -> io::Result<Vec<Kept>> {
    let mut left = Vec::new();
    for kept in kept {
        match remove(kept) {
            Ok(()) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::BUSY) => left.push(kept.clone()),
            Err(error) if is_absent(&error.into()) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(left)
}

fn remove(kept: &Kept) -> rustix::io::Result<()> {
    let (Some(parent), Some(name)) = (kept.path.parent(), kept.path.file_name()) else {
        return Ok(());
    };
    let parent = open(parent)?;
    let found = look_at(parent.as_fd(), name).map_err(|_| Errno::NOENT)?;
    // Another directory that has taken the name is not ours to remove.
    match found.is_some_and(|found| found.identity.key() == kept.key) {
        true => rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR),
        false => Ok(()),
    }
}

/// Opens an absolute path name by name, through no symbolic link.
fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = rustix::fs::openat(CWD, "/", flags, Mode::empty())?;
    for component in path.components() {
        if let Component::Normal(name) = component {
            at = rustix::fs::openat(&at, name, flags, Mode::empty())?;
        }
    }
    Ok(at)
}
