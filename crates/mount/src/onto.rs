//! A directory in which lost changes are made again. No link on the way to a name is followed.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Statx, StatxFlags, Timespec,
    Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;
use surmise_lower::{FileKind, Timestamp};
use surmise_remote::errno::Errno as Number;
use surmise_remote::object::Name;
use surmise_remote::operation::{NewKind, SetAttributes};
use surmise_remote::replay::{Found, Moves, Target};

use crate::lost::by_descriptor;

/// What is open for its place alone.
const PLACE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How much is compared at once.
const COPIED_AT_ONCE: usize = 128 << 10;

/// Set-user-id and set-group-id.
const SET_IDS: u16 = 0o6000;

/// A directory that is open.
#[derive(Debug)]
pub struct Onto {
    root: File,
    /// The file that was written last.
    written: Option<(Vec<Name>, File)>,
}

impl Onto {
    /// Opens the directory.
    ///
    /// # Errors
    /// When it cannot be opened, or not be written.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        rustix::fs::accessat(&root, ".", rustix::fs::Access::WRITE_OK, AtFlags::empty())?;
        let written = None;
        Ok(Self { root, written })
    }

    /// Makes all that was changed there durable.
    ///
    /// # Errors
    /// Of the file system. A far directory has lost changes again then.
    pub fn sync(&mut self) -> io::Result<()> {
        self.written = None;
        rustix::fs::syncfs(&self.root)?;
        self.root.sync_all()
    }

    /// The directory of a path, and the name in it.
    fn parent<'p>(&self, path: &'p [Name]) -> Result<(OwnedFd, &'p [u8]), Errno> {
        let (name, above) = path.split_last().ok_or(Errno::INVAL)?;
        let mut joined = Vec::new();
        for one in above {
            joined.extend(one.as_bytes());
            joined.push(b'/');
        }
        joined.push(b'.');
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let parent = rustix::fs::openat2(&self.root, &joined[..], flags, Mode::empty(), resolve)?;
        Ok((parent, name.as_bytes()))
    }

    fn place(&self, path: &[Name]) -> Result<OwnedFd, Errno> {
        let (parent, name) = self.parent(path)?;
        rustix::fs::openat(parent, name, PLACE, Mode::empty())
    }

    /// A file that can be written, also by an owner who has no right to.
    fn writable(&mut self, path: &[Name]) -> Result<&File, Errno> {
        let known = self.written.take().filter(|(known, _)| known == path);
        let file = match known {
            Some((_, file)) => file,
            None => {
                let (parent, name) = self.parent(path)?;
                let open = || {
                    // What has become a pipe meanwhile is not waited for.
                    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
                    let flags = flags | OFlags::CLOEXEC;
                    rustix::fs::openat(&parent, name, flags, Mode::empty())
                };
                File::from(match open() {
                    Err(Errno::ACCESS) => {
                        let place = rustix::fs::openat(&parent, name, PLACE, Mode::empty())?;
                        let mode = mode_of(&stat(&place, "")?);
                        chmod(&place, mode | Mode::WUSR)?;
                        let opened = open();
                        chmod(&place, mode)?;
                        opened?
                    }
                    opened => opened?,
                })
            }
        };
        let (_, file) = self.written.insert((path.to_vec(), file));
        Ok(file)
    }

    fn names_change(&mut self) {
        self.written = None;
    }
}

impl Target for Onto {
    fn look(&mut self, path: &[Name]) -> Result<Option<Found>, Number> {
        if path.is_empty() {
            let found = stat(&self.root, "").map_err(number)?;
            return Ok(Some(found_of(&found, None)));
        }
        let looked = self.parent(path).and_then(|(parent, name)| {
            let found = stat(&parent, name)?;
            let is_link = FileType::from_raw_mode(found.stx_mode.into()) == FileType::Symlink;
            let target = match is_link {
                true => Some(rustix::fs::readlinkat(&parent, name, Vec::new())?.into_bytes()),
                false => None,
            };
            Ok(found_of(&found, target))
        });
        match looked {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(number(errno)),
        }
    }

    fn make(&mut self, path: &[Name], kind: &NewKind) -> Result<(), Number> {
        self.names_change();
        let (parent, name) = self.parent(path).map_err(number)?;
        let mode = Mode::RUSR | Mode::WUSR;
        let node = |kind, device| rustix::fs::mknodat(&parent, name, kind, mode, device);
        let made = match kind {
            NewKind::Regular => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                rustix::fs::openat(&parent, name, flags, mode).map(drop)
            }
            NewKind::Directory => rustix::fs::mkdirat(&parent, name, mode | Mode::XUSR),
            NewKind::Symlink(target) => rustix::fs::symlinkat(&target[..], &parent, name),
            NewKind::Fifo => node(FileType::Fifo, 0),
            NewKind::Socket => node(FileType::Socket, 0),
            NewKind::CharacterDevice(device) => node(FileType::CharacterDevice, *device),
            NewKind::BlockDevice(device) => node(FileType::BlockDevice, *device),
        };
        made.map_err(number)
    }

    fn copy(&mut self, from: &[Name], to: &[Name], again: bool) -> Result<(), Number> {
        self.names_change();
        let copied = self.parent(from).and_then(|(from, from_name)| {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let from = File::from(rustix::fs::openat(from, from_name, flags, Mode::empty())?);
            let (to, to_name) = self.parent(to)?;
            let write = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let make = write | OFlags::CREATE | OFlags::EXCL;
            let to = match rustix::fs::openat(&to, to_name, make, Mode::RUSR | Mode::WUSR) {
                Err(Errno::EXIST) if again => {
                    let before = rustix::fs::openat(&to, to_name, flags, Mode::empty())?;
                    if !begins_with(&from, &File::from(before)).map_err(errno)? {
                        return Err(Errno::EXIST);
                    }
                    let flags = write | OFlags::NONBLOCK;
                    rustix::fs::openat(&to, to_name, flags, Mode::empty())?
                }
                opened => opened?,
            };
            finish_copy(&from, &File::from(to))
        });
        copied.map_err(number)
    }

    fn same(&mut self, path: &[Name], offset: u64, data: &[u8]) -> Result<u64, Number> {
        let read = self.parent(path).and_then(|(parent, name)| {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = File::from(rustix::fs::openat(parent, name, flags, Mode::empty())?);
            let mut found = vec![0; data.len()];
            let mut length = 0;
            while length < found.len() {
                let at = offset + length as u64;
                match file.read_at(&mut found[length..], at).map_err(errno)? {
                    0 => break,
                    more => length += more,
                }
            }
            found.truncate(length);
            Ok(found)
        });
        let read = read.map_err(number)?;
        let same = read
            .iter()
            .zip(data)
            .take_while(|(one, other)| one == other);
        Ok(same.count() as u64)
    }

    fn write(&mut self, path: &[Name], offset: u64, data: &[u8]) -> Result<(), Number> {
        let file = self.writable(path).map_err(number)?;
        file.write_all_at(data, offset)
            .map_err(|error| number(errno(error)))
    }

    fn resize(&mut self, path: &[Name], size: u64) -> Result<(), Number> {
        let file = self.writable(path).map_err(number)?;
        file.set_len(size).map_err(|error| number(errno(error)))
    }

    fn set_attributes(&mut self, path: &[Name], set: &SetAttributes) -> Result<(), Number> {
        let place = self.place(path).map_err(number)?;
        set_at(&place, set).map_err(number)
    }

    fn set_extended(
        &mut self,
        path: &[Name],
        name: &Name,
        value: Option<&[u8]>,
    ) -> Result<(), Number> {
        let place = self.place(path).map_err(number)?;
        let path = by_descriptor(&place);
        let set = match value {
            Some(value) => rustix::fs::setxattr(path, name.as_bytes(), value, XattrFlags::empty()),
            None => rustix::fs::removexattr(path, name.as_bytes()),
        };
        set.map_err(number)
    }

    fn link(&mut self, from: &[Name], to: &[Name]) -> Result<(), Number> {
        self.names_change();
        let linked = self.parent(from).and_then(|(old, old_name)| {
            let (new, new_name) = self.parent(to)?;
            rustix::fs::linkat(old, old_name, new, new_name, AtFlags::empty())
        });
        linked.map_err(number)
    }

    fn remove(&mut self, path: &[Name], directory: bool) -> Result<(), Number> {
        self.names_change();
        let flags = match directory {
            true => AtFlags::REMOVEDIR,
            false => AtFlags::empty(),
        };
        let (parent, name) = self.parent(path).map_err(number)?;
        rustix::fs::unlinkat(parent, name, flags).map_err(number)
    }

    fn rename(&mut self, from: &[Name], to: &[Name], how: Moves) -> Result<(), Number> {
        self.names_change();
        let flags = match how {
            Moves::ToFree => RenameFlags::NOREPLACE,
            Moves::Over => RenameFlags::empty(),
            Moves::Exchange => RenameFlags::EXCHANGE,
        };
        let renamed = self.parent(from).and_then(|(old, old_name)| {
            let (new, new_name) = self.parent(to)?;
            rustix::fs::renameat_with(old, old_name, new, new_name, flags)
        });
        renamed.map_err(number)
    }
}

/// Whether the other file is a copy of the first bytes of this one, or of all: one that was begun.
fn begins_with(file: &File, other: &File) -> io::Result<bool> {
    let mut parts = (vec![0; COPIED_AT_ONCE], vec![0; COPIED_AT_ONCE]);
    if !other.metadata()?.is_file() {
        return Ok(false);
    }
    let mut at = 0;
    loop {
        let length = other.read_at(&mut parts.1, at)?;
        if length == 0 {
            return Ok(true);
        }
        match file.read_exact_at(&mut parts.0[..length], at) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read?,
        }
        if parts.0[..length] != parts.1[..length] {
            return Ok(false);
        }
        at += length as u64;
    }
}

/// Appends what a copy lacks.
fn finish_copy(mut from: &File, mut to: &File) -> Result<(), Errno> {
    let found = stat(from, "")?;
    let begun = to.metadata().map_err(errno)?.len();
    from.seek(SeekFrom::Start(begun)).map_err(errno)?;
    to.seek(SeekFrom::Start(begun)).map_err(errno)?;
    io::copy(&mut from, &mut to).map_err(errno)?;
    rustix::fs::fchmod(to, mode_of(&found))?;
    let times = Timestamps {
        last_access: time_of(found.stx_atime),
        last_modification: time_of(found.stx_mtime),
    };
    rustix::fs::futimens(to, &times)
}

/// Sets attributes, in an order in which none takes another one back: a new owner takes set-id bits. An owner that is refused
/// does not keep the others from being set.
fn set_at(place: &OwnedFd, set: &SetAttributes) -> Result<(), Errno> {
    let found = stat(place, "")?;
    let owner = set.owner.filter(|owner| *owner != found.stx_uid);
    let group = set.group.filter(|group| *group != found.stx_gid);
    let mut chowned = Ok(());
    if owner.is_some() || group.is_some() {
        let (owner, group) = (owner.map(Uid::from_raw), group.map(Gid::from_raw));
        chowned = rustix::fs::chownat(place, "", owner, group, AtFlags::EMPTY_PATH);
    }
    if let Some(permissions) = set.permissions {
        // What has another owner than it was to have gets no rights by that.
        let permissions = match chowned {
            Ok(()) => permissions,
            Err(_) => permissions & !SET_IDS,
        };
        chmod(place, Mode::from_raw_mode(permissions.into()))?;
    }
    if set.accessed.is_none() && set.modified.is_none() {
        return chowned;
    }
    let time = |time: Option<Timestamp>| match time {
        Some(time) => Timespec {
            tv_sec: time.seconds,
            tv_nsec: time.nanoseconds.into(),
        },
        None => Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT,
        },
    };
    let times = Timestamps {
        last_access: time(set.accessed),
        last_modification: time(set.modified),
    };
    let flags = AtFlags::EMPTY_PATH;
    rustix::fs::utimensat(place, "", &times, flags)?;
    chowned
}

fn chmod(place: &OwnedFd, mode: Mode) -> Result<(), Errno> {
    rustix::fs::chmod(by_descriptor(place), mode)
}

fn stat(directory: impl AsFd, name: impl rustix::path::Arg) -> Result<Statx, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    rustix::fs::statx(directory, name, flags, StatxFlags::BASIC_STATS)
}

fn mode_of(found: &Statx) -> Mode {
    Mode::from_raw_mode(u32::from(found.stx_mode) & 0o7777)
}

fn time_of(time: rustix::fs::StatxTimestamp) -> Timespec {
    Timespec {
        tv_sec: time.tv_sec,
        tv_nsec: time.tv_nsec.into(),
    }
}

fn found_of(found: &Statx, target: Option<Vec<u8>>) -> Found {
    Found {
        kind: FileKind::of_mode(found.stx_mode.into()).unwrap_or(FileKind::Socket),
        number: found.stx_ino,
        size: found.stx_size,
        modified: Timestamp {
            seconds: found.stx_mtime.tv_sec,
            nanoseconds: found.stx_mtime.tv_nsec,
        },
        target,
    }
}

fn number(errno: Errno) -> Number {
    Number(errno.raw_os_error())
}

fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    use super::*;

    fn path(name: &str) -> Vec<Name> {
        vec![Name::try_from(name.as_bytes()).expect("a name")]
    }

    #[test]
    fn s63_a_copy_is_finished_and_never_made_over_what_others_have_put_there() {
        let scratch = tempfile::tempdir().expect("a directory");
        let read = |name: &str| fs::read(scratch.path().join(name)).expect("it is there");
        let write = |name: &str, bytes: &[u8]| {
            fs::write(scratch.path().join(name), bytes).expect("write");
        };
        let mut onto = Onto::open(scratch.path()).expect("open");
        let bytes: Vec<u8> = (0..300_000).map(|number| (number % 251) as u8).collect();
        write("from", &bytes);
        write("begun", &bytes[..200_000]);
        onto.copy(&path("from"), &path("begun"), true)
            .expect("copy");
        assert_eq!(read("begun"), bytes);
        for theirs in [&b"theirs"[..], &[&bytes[..], b"more"].concat()] {
            write("theirs", theirs);
            for again in [false, true] {
                let copied = onto.copy(&path("from"), &path("theirs"), again);
                assert_eq!(copied, Err(Number::EXIST));
                assert_eq!(read("theirs"), theirs);
            }
        }
    }

    #[test]
    fn s63_an_owner_that_is_refused_keeps_nothing_else_from_being_set() {
        let scratch = tempfile::tempdir().expect("a directory");
        let file = scratch.path().join("file");
        fs::write(&file, "text").expect("write");
        let mut onto = Onto::open(scratch.path()).expect("open");
        let own = fs::metadata(&file).expect("it is there").uid();
        // Of this thread alone.
        let before = capabilities(None).expect("they can be read");
        let mut without = before;
        without.effective.remove(CapabilitySet::CHOWN);
        set_capabilities(None, without).expect("fewer are let");
        let set = SetAttributes {
            permissions: Some(0o4640),
            owner: Some(own + 1),
            group: None,
            accessed: None,
            modified: Some(Timestamp {
                seconds: 1_000_000,
                nanoseconds: 5,
            }),
        };
        let refused = onto.set_attributes(&path("file"), &set);
        set_capabilities(None, before).expect("it had them");
        assert_eq!(refused, Err(Number::PERM));
        let found = fs::metadata(&file).expect("it is there");
        assert_eq!((found.uid(), found.mode() & 0o7777), (own, 0o640));
        assert_eq!((found.mtime(), found.mtime_nsec()), (1_000_000, 5));
    }
}
