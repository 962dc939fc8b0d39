//! What an owner may do although the bits forbid it.
//!
//! A client's kernel checks a caller's rights when a file is opened, and the caller keeps them afterwards. A server that
//! runs as an ordinary user opens the file later, and its kernel looks at the bits of then. The user owns the file, and so
//! may set these bits for a moment.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use super::Directory;
use super::fault::may_end;

/// What the owner of a directory needs to name things in it.
pub(super) const SEARCH: u16 = 0o100;
/// What the owner needs to read.
pub(super) const READ: u16 = 0o400;
/// What the owner needs to write.
pub(super) const WRITE: u16 = 0o200;

impl Directory {
    /// Does something to what `inode` is open on, and once more with these bits set if it fails for want of rights.
    ///
    /// What the bits were is noted meanwhile, so that they come back after a kill, too.
    pub(super) fn with_bits<T>(
        &self,
        inode: BorrowedFd<'_>,
        bits: u16,
        mut act: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let outcome = act();
        if self.user.is_none() || outcome.as_ref().err() != Some(&Errno::ACCESS) {
            return outcome;
        }
        let found = rustix::fs::statx(inode, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
        let permissions = found.stx_mode & 0o7777;
        if Some(found.stx_uid) != self.user || permissions & bits == bits {
            return outcome;
        }
        let note = format!("{}-{permissions:o}", found.stx_ino);
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.lifted, &note, flags, Mode::RUSR)?;
        chmod(inode, permissions | bits)?;
        let outcome = act();
        chmod(inode, permissions)?;
        rustix::fs::unlinkat(&self.lifted, &note, AtFlags::empty())?;
        outcome
    }

    /// Sets the bits back that a kill has left.
    pub(super) fn set_bits_back(&mut self) -> Result<(), Errno> {
        let names = super::names_in(self.lifted.as_fd())?;
        for (name, _) in names {
            let text = String::from_utf8_lossy(&name).into_owned();
            let noted = text.split_once('-').and_then(|(inode, permissions)| {
                let permissions = u16::from_str_radix(permissions, 8).ok()?;
                Some((inode.parse().ok()?, permissions))
            });
            if let Some((inode, permissions)) = noted {
                match self.open_inode(inode) {
                    Ok(inode) => chmod(inode.as_fd(), permissions)?,
                    // It was removed since.
                    Err(Errno::STALE) => {}
                    Err(errno) => return Err(errno),
                }
            }
            rustix::fs::unlinkat(&self.lifted, &name[..], AtFlags::empty())?;
        }
        Ok(())
    }
}

/// Sets the permissions of what is open, for whatever it is open.
pub(super) fn chmod(inode: BorrowedFd<'_>, permissions: u16) -> Result<(), Errno> {
    may_end()?;
    rustix::fs::chmod(path_of(inode), Mode::from_raw_mode(permissions.into()))
}

/// A path to what is open, for calls that take no descriptor which is open for its place alone.
pub(crate) fn path_of(inode: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", inode.as_raw_fd())
}
