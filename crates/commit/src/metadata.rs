//! Sets what an inode has besides its data.
//!
//! Everything goes through a descriptor of the inode itself (`O_PATH`), by way of its link in
//! /proc/self/fd where the kernel offers no call on such a descriptor. So nothing can be slipped
//! under a name between a look and a change.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, CWD, Gid, Mode, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::Errno;
use surmise_changes::real::{link, look};
use surmise_view::{Attributes, FileKind, Timestamp};

use crate::plan::Metadata;

/// Makes an inode have `metadata`; what it already has is not touched.
pub(crate) fn set(inode: BorrowedFd<'_>, metadata: &Metadata) -> io::Result<()> {
    let found = look(inode)?;
    set_owner(inode, &found, metadata)?;
    // Only now: a change of owner clears set-id bits.
    if let Some(permissions) = metadata.permissions {
        set_permissions(inode, permissions)?;
    }
    set_xattrs(inode, metadata)?;
    set_times(inode, metadata.accessed, metadata.modified)
}

/// Sets and removes extended attributes.
pub(crate) fn set_xattrs(inode: BorrowedFd<'_>, metadata: &Metadata) -> io::Result<()> {
    let mut xattrs = metadata.xattrs.iter();
    xattrs.try_for_each(|(name, value)| set_xattr(inode, name, value.as_deref()))
}

/// Makes an inode have these permission bits.
pub(crate) fn set_permissions(inode: BorrowedFd<'_>, permissions: u16) -> io::Result<()> {
    let found = look(inode)?;
    // Links have none of their own.
    if found.permissions == permissions || found.identity.kind == FileKind::Symlink {
        return Ok(());
    }
    let mode = Mode::from_raw_mode(permissions.into());
    Ok(rustix::fs::chmodat(
        CWD,
        link(inode),
        mode,
        AtFlags::empty(),
    )?)
}

/// Sets times; `None` leaves one alone. Those of a file that belongs to someone else stay as the
/// writing made them: only its owner may choose them.
pub(crate) fn set_times(
    inode: BorrowedFd<'_>,
    accessed: Option<Timestamp>,
    modified: Option<Timestamp>,
) -> io::Result<()> {
    if accessed.is_none() && modified.is_none() {
        return Ok(());
    }
    let times = Timestamps {
        last_access: timespec(accessed),
        last_modification: timespec(modified),
    };
    match rustix::fs::utimensat(inode, "", &times, AtFlags::EMPTY_PATH) {
        Err(Errno::PERM) => Ok(()),
        set => Ok(set?),
    }
}

/// Removes every extended attribute that `metadata` sets.
pub(crate) fn remove_xattrs(inode: BorrowedFd<'_>, metadata: &Metadata) -> io::Result<()> {
    metadata
        .xattrs
        .iter()
        .try_for_each(|(name, _)| set_xattr(inode, name, None))
}

fn set_owner(inode: BorrowedFd<'_>, found: &Attributes, metadata: &Metadata) -> io::Result<()> {
    let uid = metadata.uid.filter(|uid| *uid != found.uid);
    let gid = metadata.gid.filter(|gid| *gid != found.gid);
    if uid.is_none() && gid.is_none() {
        return Ok(());
    }
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    Ok(rustix::fs::chownat(
        inode,
        "",
        uid,
        gid,
        AtFlags::EMPTY_PATH,
    )?)
}

fn set_xattr(inode: BorrowedFd<'_>, name: &OsStr, value: Option<&[u8]>) -> io::Result<()> {
    let link = link(inode.as_fd());
    match value {
        Some(value) => Ok(rustix::fs::setxattr(
            link,
            name,
            value,
            XattrFlags::empty(),
        )?),
        None => match rustix::fs::removexattr(link, name) {
            Err(Errno::NODATA) => Ok(()),
            removed => Ok(removed?),
        },
    }
}

fn timespec(time: Option<Timestamp>) -> Timespec {
    match time {
        Some(time) => Timespec {
            tv_sec: time.seconds,
            tv_nsec: time.nanoseconds.into(),
        },
        None => Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
    }
}
