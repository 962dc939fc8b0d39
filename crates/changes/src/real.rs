//! Looks at what is really there, by descriptor and name.
//!
//! No function here follows a symbolic link or changes anything. An inode is named by a descriptor of its
//! own (`O_PATH`), by way of the descriptor's link in /proc/self/fd where the kernel offers no call on such
//! a descriptor. So nobody can slip another file under a name between two looks.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;
use surmise_view::Attributes;

/// The flags with which a place is looked at.
pub const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The kernel's limit for the value of an extended attribute, and for a list of names (xattr(7)), in
/// bytes.
pub const XATTR_BYTES_MAX: usize = 1 << 16;

/// What a name leads to, itself and not through a link; `None` when it leads nowhere, as one does
/// that is too long for its file system.
///
/// # Errors
/// As statx(2).
pub fn look_at(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<Attributes>> {
    match statx(directory, name) {
        Ok(found) => attributes(&found).map(Some),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The inode behind a name, for its attributes, and those.
///
/// # Errors
/// As openat(2) and statx(2).
pub fn open_inode(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<(OwnedFd, Attributes)> {
    let fd = rustix::fs::openat(directory, name, LOOK, Mode::empty())?;
    let attributes = look(fd.as_fd())?;
    Ok((fd, attributes))
}

/// What an open inode is.
///
/// # Errors
/// As statx(2).
pub fn look(inode: BorrowedFd<'_>) -> io::Result<Attributes> {
    attributes(&statx(inode, "")?)
}

/// statx(2) of a name, or of the descriptor itself for an empty one.
///
/// # Errors
/// As statx(2).
pub fn statx(directory: BorrowedFd<'_>, name: impl rustix::path::Arg) -> rustix::io::Result<Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    rustix::fs::statx(directory, name, flags, StatxFlags::BASIC_STATS)
}

/// The path that leads to an open inode, and to no other.
pub fn link(inode: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", inode.as_raw_fd())
}

/// An extended attribute; `None` where there is none, or where the user may not see it.
///
/// # Errors
/// As getxattr(2), otherwise.
pub fn xattr(inode: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; XATTR_BYTES_MAX];
    match rustix::fs::getxattr(link(inode), name, &mut value[..]) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        // A symbolic link, say, has no way through /proc.
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::ACCESS | Errno::PERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether an error says that something is not there.
pub fn is_absent(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

fn attributes(found: &Statx) -> io::Result<Attributes> {
    Attributes::of_statx(found).ok_or_else(|| Errno::INVAL.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_too_long_for_the_file_system_leads_nowhere() {
        let directory = std::fs::File::open(std::env::temp_dir()).unwrap();
        let name = "n".repeat(300);
        let found = look_at(directory.as_fd(), OsStr::new(&name)).unwrap();
        assert!(found.is_none());
    }
}
