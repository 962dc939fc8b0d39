//! The plain directory, and what it looks like.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, Timespec, Timestamps};
use surmise_lower::Outside;
use surmise_view::FileKind;

use super::{Call, Parts, Picture, Seen};

pub fn plant(root: &Path) {
    fs::write(root.join("a"), "first").unwrap();
    fs::hard_link(root.join("a"), root.join("b")).unwrap();
    fs::create_dir_all(root.join("c/a")).unwrap();
    fs::write(root.join("c/b"), "in c").unwrap();
    fs::write(root.join("c/a/d"), "deep").unwrap();
    fs::create_dir_all(root.join("d/b/a")).unwrap();
    std::os::unix::fs::symlink("a", root.join("d/c")).unwrap();
    fs::hard_link(root.join("c/b"), root.join("d/d")).unwrap();
}

/// The same tree in memory.
pub fn plant_in_memory(tree: &mut Outside<'_>) -> io::Result<()> {
    tree.write("a", b"first")?;
    tree.link("a", "b")?;
    for directory in ["c", "c/a", "d", "d/b", "d/b/a"] {
        tree.make_directory(directory)?;
    }
    tree.write("c/b", b"in c")?;
    tree.write("c/a/d", b"deep")?;
    tree.make_link("d/c", "a")?;
    tree.link("c/b", "d/d")
}

/// The real path of `parts`, whose directories must be directories and not links to some.
pub fn at(root: &Path, parts: &Parts) -> io::Result<PathBuf> {
    let mut path = root.to_owned();
    for part in &parts[..parts.len() - 1] {
        path.push(part);
        if !fs::symlink_metadata(&path)?.is_dir() {
            return Err(io::Error::from_raw_os_error(20));
        }
    }
    Ok(path.join(&parts[parts.len() - 1]))
}

pub fn plain(root: &Path, call: &Call) -> io::Result<()> {
    let at = |parts: &Parts| at(root, parts);
    let rename = |from: &Parts, to: &Parts, flags| {
        let (from, to) = (at(from), at(to));
        Ok(rustix::fs::renameat_with(CWD, from?, CWD, to?, flags)?)
    };
    let open = |parts: &Parts| {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW;
        let file = rustix::fs::open(at(parts)?, flags, Mode::empty())?;
        Ok::<_, io::Error>(fs::File::from(file))
    };
    match call {
        Call::CreateFile(parts) => fs::File::create_new(at(parts)?).map(drop),
        Call::CreateDirectory(parts) => fs::create_dir(at(parts)?),
        Call::CreateSymlink(parts, target) => std::os::unix::fs::symlink(target, at(parts)?),
        Call::Unlink(parts) => Ok(rustix::fs::unlinkat(CWD, at(parts)?, AtFlags::empty())?),
        Call::RemoveDirectory(parts) => fs::remove_dir(at(parts)?),
        Call::Rename(from, to) => rename(from, to, RenameFlags::empty()),
        Call::RenameNoReplace(from, to) => rename(from, to, RenameFlags::NOREPLACE),
        Call::Exchange(from, to) => rename(from, to, RenameFlags::EXCHANGE),
        Call::Link(from, to) => {
            let from = at(from)?;
            fs::symlink_metadata(&from)?;
            fs::hard_link(from, at(to)?)
        }
        Call::Write(parts, offset, bytes) => {
            use std::os::unix::fs::FileExt;
            open(parts)?.write_all_at(bytes, *offset)
        }
        Call::Truncate(parts, size) => open(parts)?.set_len(*size),
        Call::Chmod(parts, permissions) => {
            if at(parts)?.is_symlink() {
                return Err(io::Error::from_raw_os_error(40));
            }
            fs::set_permissions(
                at(parts)?,
                fs::Permissions::from_mode((*permissions).into()),
            )
        }
        Call::SetModified(parts, seconds) => {
            fs::symlink_metadata(at(parts)?)?;
            if at(parts)?.is_symlink() {
                return Err(io::Error::from_raw_os_error(40));
            }
            let times = Timestamps {
                last_access: Timespec {
                    tv_sec: 0,
                    tv_nsec: rustix::fs::UTIME_OMIT,
                },
                last_modification: Timespec {
                    tv_sec: *seconds,
                    tv_nsec: 7,
                },
            };
            Ok(rustix::fs::utimensat(
                CWD,
                at(parts)?,
                &times,
                AtFlags::empty(),
            )?)
        }
        _ => Ok(()),
    }
}

pub fn content(path: &Path, metadata: &fs::Metadata) -> Vec<u8> {
    if metadata.is_file() {
        fs::read(path).unwrap()
    } else if metadata.is_symlink() {
        fs::read_link(path)
            .unwrap()
            .into_os_string()
            .into_encoded_bytes()
    } else {
        Vec::new()
    }
}

pub fn seen(metadata: &fs::Metadata, content: Vec<u8>) -> Seen {
    let kind = FileKind::of_mode(metadata.mode()).unwrap();
    Seen {
        kind,
        permissions: (metadata.mode() & 0o7777) as u16,
        links: metadata.nlink(),
        size: if kind == FileKind::Directory {
            0
        } else {
            metadata.len()
        },
        content,
        modified: set_time(metadata.mtime()),
        inode: PathBuf::from(metadata.ino().to_string()),
    }
}

/// A time that [`Call::SetModified`] set, rather than the clock.
pub fn set_time(seconds: i64) -> Option<i64> {
    (seconds < 1_000_000).then_some(seconds)
}

/// Replaces inode numbers by the first path that bears them.
pub fn name_inodes(picture: &mut Picture) {
    let mut first = BTreeMap::new();
    for (path, seen) in picture.iter_mut() {
        let name = first
            .entry(seen.inode.clone())
            .or_insert_with(|| path.clone());
        seen.inode = name.clone();
    }
}

pub fn walk(directory: &Path, each: &mut impl FnMut(&Path, &fs::Metadata)) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        each(&path, &metadata);
        if metadata.is_dir() {
            walk(&path, each);
        }
    }
}
