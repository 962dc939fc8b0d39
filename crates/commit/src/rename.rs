//! Renames that never overwrite by accident.

use std::ffi::OsStr;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;

use crate::locate::look_at;

/// Moves a name to one that is free.
///
/// # Errors
/// `EEXIST` when it is not.
pub(crate) fn move_to_free(
    old: BorrowedFd<'_>,
    old_name: &OsStr,
    new: BorrowedFd<'_>,
    new_name: &OsStr,
) -> io::Result<()> {
    match rustix::fs::renameat_with(old, old_name, new, new_name, RenameFlags::NOREPLACE) {
        Err(error) if is_unsupported(error) => match look_at(new, new_name)? {
            Some(_) => Err(Errno::EXIST.into()),
            None => Ok(rustix::fs::renameat(old, old_name, new, new_name)?),
        },
        moved => Ok(moved?),
    }
}

/// Lets two names change places. On file systems that cannot, `old_name` takes the place of
/// `new_name`, and what that led to loses it.
pub(crate) fn exchange(
    old: BorrowedFd<'_>,
    old_name: &OsStr,
    new: BorrowedFd<'_>,
    new_name: &OsStr,
) -> io::Result<()> {
    match rustix::fs::renameat_with(old, old_name, new, new_name, RenameFlags::EXCHANGE) {
        Err(error) if is_unsupported(error) => {}
        exchanged => return Ok(exchanged?),
    }
    match rustix::fs::renameat(old, old_name, new, new_name) {
        // A directory does not take the place of a file.
        Err(Errno::NOTDIR) => {
            rustix::fs::unlinkat(new, new_name, AtFlags::empty())?;
            Ok(rustix::fs::renameat(old, old_name, new, new_name)?)
        }
        renamed => Ok(renamed?),
    }
}

fn is_unsupported(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}
