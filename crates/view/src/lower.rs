//! The real file system, read only, by descriptor and name.
//!
//! Nothing here follows a symbolic link, leaves a mark on what it reads (access times stay where the
//! user may ask for that), or waits for a FIFO's other end.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatVfs, StatxFlags};
use rustix::io::Errno;

use crate::types::{Attributes, FileKind};

/// A name that a real directory holds.
#[derive(Debug)]
pub(crate) struct LowerEntry {
    pub(crate) name: OsString,
    pub(crate) inode: u64,
    /// `None` where the file system does not tell.
    pub(crate) kind: Option<FileKind>,
}

/// Opens the directory `name` without a right to read it.
pub(crate) fn open_directory(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
}

/// A descriptor that keeps the inode `name` and its number, whatever becomes of the name.
pub(crate) fn hold(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(directory, name, flags, Mode::empty())?)
}

/// What `name` is; an empty name means the directory itself. `None` where nothing bears it.
pub(crate) fn stat(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<Attributes>> {
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

/// Opens the regular file `name` for reading.
pub(crate) fn open_file(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<File> {
    open_quietly(directory, name, OFlags::NOFOLLOW | OFlags::NONBLOCK).map(File::from)
}

/// The names in a directory, without `.` and `..`.
pub(crate) fn list(directory: BorrowedFd<'_>) -> io::Result<Vec<LowerEntry>> {
    let directory = open_quietly(directory, OsStr::new("."), OFlags::DIRECTORY)?;
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
        entries.push(LowerEntry {
            name: OsStr::from_bytes(name).to_owned(),
            inode: entry.ino(),
            kind,
        });
    }
    Ok(entries)
}

/// Where the symbolic link `name` leads.
pub(crate) fn read_link(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<OsString> {
    let target = rustix::fs::readlinkat(directory, name, Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()))
}

/// The value of an extended attribute.
pub(crate) fn xattr(
    directory: BorrowedFd<'_>,
    name: &OsStr,
    attribute: &OsStr,
) -> io::Result<Vec<u8>> {
    let path = path_of(directory, name);
    grow(|buffer| rustix::fs::lgetxattr(&path, attribute, buffer))
}

/// The names of the extended attributes.
pub(crate) fn xattr_names(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<Vec<OsString>> {
    let path = path_of(directory, name);
    let names = match grow(|buffer| rustix::fs::llistxattr(&path, buffer)) {
        Err(error) if error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => Vec::new(),
        names => names?,
    };
    let names = names
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    Ok(names
        .map(|name| OsStr::from_bytes(name).to_owned())
        .collect())
}

/// Space and limits of the file system that holds `directory`.
pub(crate) fn file_system(directory: BorrowedFd<'_>) -> io::Result<StatVfs> {
    Ok(rustix::fs::fstatvfs(directory)?)
}

/// Opens for reading, without a new access time where the user owns the file.
fn open_quietly(directory: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
    let open = |flags| rustix::fs::openat(directory, name, flags, Mode::empty());
    match open(flags | OFlags::NOATIME) {
        Err(Errno::PERM) => Ok(open(flags)?),
        result => Ok(result?),
    }
}

/// A path for calls that take no directory descriptor. It goes through the descriptor, so nobody can
/// move it elsewhere; the calls that use it do not follow its last part.
fn path_of(directory: BorrowedFd<'_>, name: &OsStr) -> PathBuf {
    let mut path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd()));
    path.push(if name.is_empty() {
        OsStr::new(".")
    } else {
        name
    });
    path
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
