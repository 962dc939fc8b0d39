//! What the disk has of an object.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{Dir, FileType, Mode, OFlags, Statx, StatxTimestamp, makedev};
use rustix::io::Errno;
use surmise_lower::{FileKind, Timestamp};
use surmise_remote::frame::Space;
use surmise_remote::object::{Attributes, Body, Extended, Name, Names, Object, ObjectId, Versions};
use surmise_remote::server::Loaded;
use surmise_sys::extended::names_bytes_at;

use super::places::Place;
use super::rights::{self, path_of};
use super::{Directory, NAMELESS, STATE, device_of, stat};

/// The longest value of an extended attribute, and the longest list of their names (limits.h).
const EXTENDED_MAX: usize = 64 << 10;

impl Directory {
    /// All that is to be known of an object, but for a file's data.
    ///
    /// # Errors
    /// `ESTALE` for what is not in the export.
    pub(crate) fn load(&mut self, id: ObjectId) -> Result<Loaded, Errno> {
        let inode = self.inode(id)?;
        let (open, mut found) = self.look_at(inode)?;
        if self.is_lost(inode) {
            return Err(Errno::STALE);
        }
        if device_of(&found) != self.device {
            return Err(Errno::XDEV);
        }
        if self.watch(inode, open.as_fd(), &found)? {
            found = stat(open.as_fd(), "")?;
        }
        if self.take_written(inode) {
            self.overtake(inode, true)?;
        }
        let mut attributes = attributes_of(&found).ok_or(Errno::IO)?;
        let place = self.places.get(inode);
        let parent = place.map(|place| place.parent);
        if parent == Some(NAMELESS) {
            attributes.links = 0;
        }
        if inode == self.root_inode && attributes.links > 2 {
            // The server's own directory is shown to nobody.
            attributes.links -= 1;
        }
        let version = self.version;
        let versions = Versions {
            content: version,
            permissions: version,
            times: version,
        };
        let mut object = Object::new(attributes, versions);
        match attributes.kind {
            FileKind::Directory => {
                object.body = Body::Names(match self.names(inode) {
                    // One of another user, which may not be listed. It is shown all the same.
                    Err(Errno::ACCESS) => None,
                    names => Some(names?),
                });
                object.extended = self.extended(inode, open.as_fd())?;
            }
            FileKind::Regular => object.extended = self.extended(inode, open.as_fd())?,
            FileKind::Symlink => {
                let target = rustix::fs::readlinkat(&*open, "", Vec::new())?;
                object.body = Body::Target(target.into_bytes());
            }
            _ => {}
        }
        let parent = parent.filter(|_| object.is_directory());
        let parent = parent.and_then(|parent| self.ids.id(parent));
        Ok(Loaded { object, parent })
    }

    /// Bytes of a file: fewer than were asked for at its end alone.
    pub(crate) fn read(
        &mut self,
        id: ObjectId,
        offset: u64,
        length: u32,
    ) -> Result<Vec<u8>, Errno> {
        let inode = self.inode(id)?;
        let file = self.open_to_read(inode)?;
        let mut data = vec![0; length as usize];
        let mut at = 0;
        while at < data.len() {
            match file.read_at(&mut data[at..], offset + at as u64) {
                Ok(0) => break,
                Ok(read) => at += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            }
        }
        data.truncate(at);
        Ok(data)
    }

    /// How much space there is.
    pub(crate) fn space(&self) -> Result<Space, Errno> {
        let found = rustix::fs::fstatvfs(&*self.root)?;
        Ok(Space {
            block_bytes: u32::try_from(found.f_frsize).unwrap_or(u32::MAX),
            blocks: found.f_blocks,
            blocks_free: found.f_bfree,
            blocks_available: found.f_bavail,
            objects: found.f_files,
            objects_free: found.f_ffree,
        })
    }

    pub(super) fn open_to_read(&mut self, inode: u64) -> Result<std::sync::Arc<File>, Errno> {
        if let Some(open) = self.files.get(&inode) {
            return Ok(open.clone());
        }
        let open = self.open_inode(inode)?;
        let found = stat(open.as_fd(), "")?;
        if FileType::from_raw_mode(found.stx_mode.into()) != FileType::RegularFile {
            return Err(Errno::INVAL);
        }
        let reading = self.with_bits(open.as_fd(), rights::READ, || {
            open_quietly(open.as_fd(), OFlags::RDONLY)
        })?;
        Ok(std::sync::Arc::new(reading))
    }

    fn names(&mut self, directory: u64) -> Result<Names, Errno> {
        let entries = self.list(directory)?;
        let named = |(name, inode, _)| Some((name, self.ids.id(inode)?));
        Ok(entries.into_iter().filter_map(named).collect())
    }

    /// The names in a directory, the inode of each, and whether that is a directory. Notes where they are.
    pub(super) fn list(&mut self, directory: u64) -> Result<Vec<(Name, u64, bool)>, Errno> {
        let place = self.open_directory(directory)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let bits = rights::READ | rights::SEARCH;
        let open = self.with_bits(place.as_fd(), bits, || open_quietly(place.as_fd(), flags))?;
        let mut entries = Vec::new();
        for entry in Dir::new(open)? {
            let entry = entry?;
            let bytes = entry.file_name().to_bytes();
            let is_own = directory == self.root_inode && bytes == STATE.as_bytes();
            // This leaves out `.` and `..`, too.
            let Ok(name) = Name::try_from(bytes) else {
                continue;
            };
            if is_own {
                continue;
            }
            let is_directory = match entry.file_type() {
                FileType::Unknown => {
                    let found = stat(place.as_fd(), bytes)?;
                    FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory
                }
                kind => kind == FileType::Directory,
            };
            self.renumber(place.as_fd(), bytes, entry.ino());
            let place = Place {
                parent: directory,
                name: name.clone(),
            };
            if self.places.add(entry.ino(), place) {
                self.note_new_place(entry.ino());
            }
            entries.push((name, entry.ino(), is_directory));
        }
        Ok(entries)
    }

    /// The extended attributes that clients know of.
    fn extended(&mut self, inode: u64, open: BorrowedFd<'_>) -> Result<Extended, Errno> {
        if self.has_no_extended(inode) {
            return Ok(Extended::new());
        }
        let path = path_of(open);
        let list = match rustix::fs::listxattr_query(&path) {
            // The common case: there are none, or none that the file system can have.
            Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(Extended::new()),
            _ => {
                let mut list = vec![0; EXTENDED_MAX];
                let length = rustix::fs::listxattr(&path, &mut list[..])?;
                list.truncate(length);
                list
            }
        };
        let mut extended = BTreeMap::new();
        let names = list.split(|byte| *byte == 0);
        for bytes in names.filter(|name| name.starts_with(b"user.")) {
            let Ok(name) = Name::try_from(bytes) else {
                continue;
            };
            let mut value = vec![0; EXTENDED_MAX];
            let length = match self.read_extended(open, bytes, &mut value) {
                // It went meanwhile, or the server may not read the file.
                Err(Errno::NODATA | Errno::ACCESS) => continue,
                length => length?,
            };
            value.truncate(length);
            extended.insert(name, value);
        }
        Ok(extended)
    }

    /// Whether the file system says so by the name, which takes a third of the time of a path in /proc. Others may have put
    /// another object at the name just now; then the directory's mark tells, and this one is looked at anew.
    fn has_no_extended(&mut self, inode: u64) -> bool {
        let Some(Place { parent, name }) = self.places.get(inode).cloned() else {
            return false;
        };
        let parent = self.open_directory(parent).ok();
        parent
            .is_some_and(|parent| matches!(names_bytes_at(parent.as_fd(), name.as_bytes()), Ok(0)))
    }

    fn read_extended(
        &self,
        open: BorrowedFd<'_>,
        name: &[u8],
        value: &mut [u8],
    ) -> Result<usize, Errno> {
        self.with_bits(open, rights::READ, || {
            rustix::fs::getxattr(path_of(open), name, &mut *value)
        })
    }
}

/// Opens again what is open for its place alone; without a new access time where the user may ask for that.
pub(super) fn open_quietly(open: BorrowedFd<'_>, flags: OFlags) -> Result<File, Errno> {
    let path = path_of(open);
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let open = |flags| rustix::fs::open(&path, flags, Mode::empty());
    let opened = match open(flags | OFlags::NOATIME) {
        Err(Errno::PERM) => open(flags),
        outcome => outcome,
    };
    Ok(File::from(opened?))
}

/// `None` for a kind that Linux does not define.
pub(super) fn attributes_of(found: &Statx) -> Option<Attributes> {
    Some(Attributes {
        kind: FileKind::of_mode(found.stx_mode.into())?,
        permissions: found.stx_mode & 0o7777,
        links: found.stx_nlink,
        owner: found.stx_uid,
        group: found.stx_gid,
        size: found.stx_size,
        device: makedev(found.stx_rdev_major, found.stx_rdev_minor),
        accessed: time_of(&found.stx_atime),
        modified: time_of(&found.stx_mtime),
        changed: time_of(&found.stx_ctime),
    })
}

fn time_of(time: &StatxTimestamp) -> Timestamp {
    Timestamp {
        seconds: time.tv_sec,
        nanoseconds: time.tv_nsec,
    }
}
