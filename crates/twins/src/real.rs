//! The acts on a plain tree.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_OMIT, XattrFlags,
};
use rustix::io::Errno;
use surmise_view::Timestamp;

use super::Act;

pub(crate) fn act(root: &Path, act: &Act) -> io::Result<()> {
    let at = |path: &str| at(root, path);
    let node = |path: &str, kind, device| {
        let mode = Mode::from_raw_mode(0o644);
        Ok(rustix::fs::mknodat(CWD, at(path)?, kind, mode, device)?)
    };
    let rename = |from: &str, to: &str, flags| {
        Ok(rustix::fs::renameat_with(
            CWD,
            at(from)?,
            CWD,
            at(to)?,
            flags,
        )?)
    };
    match act {
        Act::Create(path) => node(path, FileType::RegularFile, 0),
        Act::Fifo(path) => node(path, FileType::Fifo, 0),
        Act::Socket(path) => node(path, FileType::Socket, 0),
        Act::Device(path, device) => node(path, FileType::CharacterDevice, *device),
        Act::MakeDirectory(path) => fs::create_dir(at(path)?),
        Act::Symlink(path, target) => symlink(target, at(path)?),
        Act::Unlink(path) => Ok(rustix::fs::unlink(at(path)?)?),
        Act::RemoveDirectory(path) => fs::remove_dir(at(path)?),
        Act::Rename(from, to) => rename(from, to, RenameFlags::empty()),
        Act::Exchange(from, to) => rename(from, to, RenameFlags::EXCHANGE),
        Act::Link(from, to) => fs::hard_link(at(from)?, at(to)?),
        Act::Write(path, offset, data) => open(&at(path)?)?.write_all_at(data, *offset),
        Act::Truncate(path, size) => open(&at(path)?)?.set_len(*size),
        Act::Chmod(path, mode) => {
            let path = no_link(at(path)?)?;
            if path.is_dir() && mode & 0o500 != 0o500 {
                // An ordinary user's test could not look into it.
                return Err(Errno::INVAL.into());
            }
            fs::set_permissions(path, fs::Permissions::from_mode((*mode).into()))
        }
        Act::Chown(path, uid, gid) => lchown(no_link(at(path)?)?, Some(*uid), Some(*gid)),
        Act::SetModified(path, seconds) => {
            let path = at(path)?;
            fs::symlink_metadata(&path)?;
            let time = Timestamp {
                seconds: *seconds,
                nanoseconds: 7,
            };
            set_modified(&path, time)
        }
        Act::SetXattr(path, name, value) => {
            let path = no_link(at(path)?)?;
            let _: () = match value {
                Some(value) => rustix::fs::lsetxattr(path, name, value, XattrFlags::empty())?,
                None => rustix::fs::lremovexattr(path, name)?,
            };
            Ok(())
        }
    }
}

pub(crate) fn set_modified(path: &Path, time: Timestamp) -> io::Result<()> {
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: time.seconds,
            tv_nsec: time.nanoseconds.into(),
        },
    };
    Ok(rustix::fs::utimensat(
        CWD,
        path,
        &times,
        AtFlags::SYMLINK_NOFOLLOW,
    )?)
}

/// The path, whose directories must be directories and not links to some.
fn at(root: &Path, path: &str) -> io::Result<PathBuf> {
    let mut real = root.to_owned();
    let mut parts = path.split('/').peekable();
    while let Some(part) = parts.next() {
        real.push(part);
        if parts.peek().is_some() && !fs::symlink_metadata(&real)?.is_dir() {
            return Err(Errno::NOTDIR.into());
        }
    }
    Ok(real)
}

fn no_link(path: PathBuf) -> io::Result<PathBuf> {
    match fs::symlink_metadata(&path)?.is_symlink() {
        true => Err(Errno::LOOP.into()),
        false => Ok(path),
    }
}

fn open(path: &Path) -> io::Result<File> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(Errno::INVAL.into());
    }
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}
