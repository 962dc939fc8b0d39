//! Directories of this host.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::interface::{Directory, Hold, Listed, OpenFile, Space};
use crate::types::{Attributes, FileKind};

/// A directory, open without a right to read it.
#[derive(Debug)]
pub(super) struct LocalDirectory {
    descriptor: OwnedFd,
}

/// An inode that is held by an `O_PATH` descriptor.
#[derive(Debug)]
struct LocalHold {
    _inode: OwnedFd,
}

impl Hold for LocalHold {}

impl LocalDirectory {
    pub(super) fn open(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::openat(parent, name, flags, Mode::empty())?;
        Ok(Self { descriptor })
    }

    /// Opens for reading, without a new access time where the user owns the file.
    fn open_quietly(&self, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
        let open = |flags| rustix::fs::openat(&self.descriptor, name, flags, Mode::empty());
        match open(flags | OFlags::NOATIME) {
            Err(Errno::PERM) => Ok(open(flags)?),
            result => Ok(result?),
        }
    }

    /// A path for calls that take no directory descriptor. It goes through the descriptor, so nobody can
    /// move it elsewhere; the calls that use it do not follow its last part.
    fn path_of(&self, name: &OsStr) -> PathBuf {
        let mut path = PathBuf::from(format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()));
        path.push(if name.is_empty() {
            OsStr::new(".")
        } else {
            name
        });
        path
    }
}

impl Directory for LocalDirectory {
    fn attributes(&self) -> io::Result<Attributes> {
        attributes_of(self.descriptor.as_fd())
    }

    fn lookup(&self, name: &OsStr) -> io::Result<Option<Attributes>> {
        stat(self.descriptor.as_fd(), name)
    }

    fn directory(&self, name: &OsStr) -> io::Result<Arc<dyn Directory>> {
        Ok(Arc::new(Self::open(self.descriptor.as_fd(), name)?))
    }

    fn open(&self, name: &OsStr) -> io::Result<Arc<dyn OpenFile>> {
        let file = self.open_quietly(name, OFlags::NOFOLLOW | OFlags::NONBLOCK)?;
        Ok(Arc::new(File::from(file)))
    }

    fn hold(&self, name: &OsStr) -> io::Result<Box<dyn Hold>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let inode = rustix::fs::openat(&self.descriptor, name, flags, Mode::empty())?;
        Ok(Box::new(LocalHold { _inode: inode }))
    }

    fn list(&self) -> io::Result<Vec<Listed>> {
        let directory = self.open_quietly(OsStr::new("."), OFlags::DIRECTORY)?;
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::new(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => None,
                kind => FileKind::of_mode(kind.as_raw_mode()),
            };
            entries.push(Listed {
                name: OsStr::from_bytes(name).to_owned(),
                inode: entry.ino(),
                kind,
            });
        }
        Ok(entries)
    }

    fn read_link(&self, name: &OsStr) -> io::Result<OsString> {
        let target = rustix::fs::readlinkat(&self.descriptor, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    fn xattr(&self, name: &OsStr, attribute: &OsStr) -> io::Result<Vec<u8>> {
        let path = self.path_of(name);
        grow(|buffer| rustix::fs::lgetxattr(&path, attribute, buffer))
    }

    fn xattr_names(&self, name: &OsStr) -> io::Result<Vec<OsString>> {
        let path = self.path_of(name);
        let names = match grow(|buffer| rustix::fs::llistxattr(&path, buffer)) {
            Err(error) if error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => {
                Vec::new()
            }
            names => names?,
        };
        let names = names
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty());
        Ok(names
            .map(|name| OsStr::from_bytes(name).to_owned())
            .collect())
    }

    fn space(&self) -> io::Result<Space> {
        let real = rustix::fs::fstatvfs(&self.descriptor)?;
        Ok(Space {
            blocks: real.f_blocks,
            blocks_free: real.f_bfree,
            blocks_available: real.f_bavail,
            files: real.f_files,
            files_free: real.f_ffree,
            block_size: real.f_bsize,
            fragment_size: real.f_frsize,
            name_bytes_max: real.f_namemax,
        })
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.descriptor.as_fd())
    }
}

/// What an open inode is.
pub(super) fn attributes_of(inode: BorrowedFd<'_>) -> io::Result<Attributes> {
    stat(inode, OsStr::new(""))?.ok_or_else(|| Errno::NOENT.into())
}

/// What `name` is; an empty name means what is open itself. `None` where nothing bears it.
fn stat(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<Attributes>> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    match rustix::fs::statx(directory, name, flags, wanted) {
        Ok(statx) => Attributes::of_statx(&statx)
            .map(Some)
            .ok_or_else(|| Errno::IO.into()),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Calls with a buffer large enough for the answer.
fn grow(mut call: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; 256];
    loop {
        match call(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            // The kernel's own limits (xattr(7)) are 64 KiB for a value and for a list of names.
            Err(Errno::RANGE) if buffer.len() < 128 << 10 => {
                let length = buffer.len() * 8;
                buffer.resize(length, 0);
            }
            Err(error) => return Err(error.into()),
        }
    }
}
