//! Whether a file system takes the extended attributes that a commit will set.
//!
//! How much room an inode has for them is the file system's secret, and a change that turns out not
//! to fit after the point of no return could neither be finished nor taken back. So all of them are
//! tried on a file without a name first, which nobody sees.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use surmise_changes::real::{XATTR_BYTES_MAX, link};

use crate::metadata::set_xattrs;
use crate::plan::Metadata;

/// Sets what `inode` has and `wanted` changes of extended attributes on a nameless file in
/// `directory`. Where no such file can be made, the commit itself will tell.
pub(crate) fn try_xattrs(
    directory: &OwnedFd,
    inode: BorrowedFd<'_>,
    wanted: &Metadata,
) -> io::Result<()> {
    if wanted.xattrs.iter().all(|(_, value)| value.is_none()) {
        return Ok(());
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let Ok(trial) = rustix::fs::openat(directory, ".", flags, mode) else {
        return Ok(());
    };
    copy_xattrs(inode, trial.as_fd());
    set_xattrs(trial.as_fd(), wanted)
}

/// Copies what can be copied: it only takes room.
fn copy_xattrs(from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    let (from, to) = (link(from), link(to));
    let mut names = vec![0; XATTR_BYTES_MAX];
    let length = rustix::fs::listxattr(&from, &mut names[..]).unwrap_or(0);
    let mut value = vec![0; XATTR_BYTES_MAX];
    for name in names[..length].split(|byte| *byte == 0) {
        let name = OsStr::from_bytes(name);
        let read = rustix::fs::getxattr(&from, name, &mut value[..]);
        let _ = read.and_then(|length| {
            rustix::fs::setxattr(&to, name, &value[..length], XattrFlags::empty())
        });
    }
}

/// Whether an error of [`try_xattrs`] is about the attributes, and not about the trial.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    let refusals = [Errno::NOSPC, Errno::TOOBIG, Errno::OPNOTSUPP, Errno::DQUOT];
    let refusals = refusals.map(|errno| Some(errno.raw_os_error()));
    refusals.contains(&error.raw_os_error())
}
