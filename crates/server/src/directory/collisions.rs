//! Changes that were promised and that others stand in the way of.
//!
//! A client changes what it has a lease on, and others change the same before the change is made here. Nothing of either is
//! lost. What has a name that a client's change needs is moved aside, to a name that tells of that, and so is a copy of a file that
//! both have written to. A change that cannot be made at all is left out, and its data are kept in the directory `lost` of
//! the server's own. The state machine is told that the objects are not what it takes them for.
//!
//! All of that is decided by what is at the names, and `lost` has one file for each object and log. So a change that a kill
//! has interrupted can be made again: what was moved aside is not in the way any more, and what was written is written to the
//! same file once more.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{Mode, OFlags, RenameFlags, Statx, Timespec, Timestamps};
use rustix::io::Errno;
use surmise_remote::object::{Name, ObjectId};
use surmise_remote::operation::{Change, Operation};

use super::attributes::chown;
use super::fault::may_end;
use super::make::Begun;
use super::names::Spot;
use super::places::Place;
use super::rights::chmod;
use super::{DEPTH_MAX, Directory, NAMELESS};
use crate::notice::notice;

/// How many names for what is moved aside are tried.
const TRIES: u32 = 100_000;

/// What could not be made.
#[derive(Debug, Default)]
pub(super) struct Collisions {
    /// Whether a client has to be told.
    pub(super) is_unmade: bool,
    /// Something is in `lost` that has an inode of its own.
    has_lost: bool,
    /// How many operations had been made when the log began.
    pub(super) log: u64,
}

/// Whether a failure says that the file system fails, or is not there for changes, and not that others are in the way.
pub(super) fn is_failure(errno: Errno) -> bool {
    [
        Errno::IO,
        Errno::NOMEM,
        Errno::ROFS,
        Errno::INTR,
        Errno::NODEV,
        Errno::NXIO,
        Errno::NOTRECOVERABLE,
        Errno::UCLEAN,
    ]
    .contains(&errno)
        || crate::patience::awaited(&errno.into()).is_some()
}

impl Directory {
    /// Whether changes could not be made since this was last asked. Their client has to be told.
    pub(crate) fn take_unmade(&mut self) -> bool {
        std::mem::take(&mut self.collisions.is_unmade)
    }

    /// A new log has begun, which says nothing of what was made before.
    pub(crate) fn log_begins(&mut self) -> Result<(), Errno> {
        self.collisions.log = self.made;
        self.overtaken.clear()
    }

    /// Does without an operation that cannot be made, and keeps its data.
    pub(super) fn do_without(&mut self, operation: &Operation, why: Errno) -> Result<(), Errno> {
        let shown = self.shown(Some(operation));
        let why = &match why {
            Errno::STALE | Errno::NOENT => "others have removed what it needs".to_owned(),
            other => other.to_string(),
        };
        let change = &operation.change;
        match change {
            Change::Create { place, object, new } => {
                let kept = lost_name(place.name.as_bytes(), self.collisions.log, *object)?;
                self.collisions.has_lost = true;
                let parent = self.lost_inode;
                let spot = Spot {
                    directory: self.lost.clone(),
                    place: Place {
                        parent,
                        name: kept.clone(),
                    },
                    name: &kept,
                };
                match self.create_at(spot, *object, new, operation.at, Begun::Maybe) {
                    // Here neither. To stop would be to stop at each start.
                    Err(errno) if !is_failure(errno) => notice(format_args!(
                        "{shown}: {why}; a client has made it, and it is left out: {errno}"
                    )),
                    outcome => {
                        outcome?;
                        notice(format_args!(
                            "{shown}: {why}; a client has made it, and it is in .surmise/lost/{}",
                            String::from_utf8_lossy(kept.as_bytes())
                        ));
                    }
                }
            }
            Change::Write {
                object,
                offset,
                data,
                ..
            } => {
                let file = self.lost_file(*object, &shown, why)?;
                may_end()?;
                let written = file.write_all_at(data, *offset);
                written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
            }
            Change::Resize { object, size, .. } => {
                let file = self.lost_file(*object, &shown, why)?;
                may_end()?;
                rustix::fs::ftruncate(&file, *size)?;
            }
            _ => {
                let what = what_of(change);
                notice(format_args!(
                    "{shown}: {why}; that a client {what} is left out"
                ));
            }
        }
        self.collisions.is_unmade = true;
        for object in change.touches().into_iter().chain(change.makes()) {
            self.note_changed_object(object);
        }
        Ok(())
    }

    /// The file in `lost` for what was to be written to an object. It begins as what the object is, as far as that can be read.
    fn lost_file(&mut self, object: ObjectId, shown: &str, why: &str) -> Result<File, Errno> {
        let base = shown.rsplit('/').next().filter(|name| !name.is_empty());
        let name = lost_name(
            base.unwrap_or("unnamed").as_bytes(),
            self.collisions.log,
            object,
        )?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Its path may be known or not; what it ends with tells the object.
        let end = lost_end(self.collisions.log, object);
        for (known, _) in super::names_in(self.lost.as_fd())? {
            if known.ends_with(end.as_bytes()) {
                let open = rustix::fs::openat(&*self.lost, &known[..], flags, Mode::empty())?;
                return Ok(File::from(open));
            }
        }
        may_end()?;
        let flags = flags | OFlags::CREATE | OFlags::TRUNC;
        let mode = Mode::RUSR | Mode::WUSR;
        // It is found by its name once it is whole.
        let partial = [name.as_bytes(), b".new"].concat();
        let file = File::from(rustix::fs::openat(&*self.lost, &partial[..], flags, mode)?);
        if let Ok(inode) = self.inode(object)
            && let Ok(open) = self.open_to_read(inode)
        {
            copy(&open, &file)?;
        }
        may_end()?;
        rustix::fs::renameat(&*self.lost, &partial[..], &*self.lost, name.as_bytes())?;
        notice(format_args!(
            "{shown}: {why}; what a client has written is in .surmise/lost/{}",
            String::from_utf8_lossy(name.as_bytes())
        ));
        Ok(file)
    }

    /// Moves what others have put at a name to another one beside it.
    pub(super) fn set_aside(&mut self, spot: &Spot<'_>, found: &Statx) -> Result<(), Errno> {
        may_end()?;
        let kept = free_name(spot.bytes(), |name| {
            let (directory, flags) = (&*spot.directory, RenameFlags::NOREPLACE);
            rustix::fs::renameat_with(directory, spot.bytes(), directory, name, flags)
        })?;
        let parent = spot.place.parent;
        self.places.remove(found.stx_ino, &spot.place);
        let place = Place {
            parent,
            name: kept.clone(),
        };
        self.places.add(found.stx_ino, place);
        self.note_changed(parent);
        self.note_changed(found.stx_ino);
        self.say_kept(parent, spot.bytes(), &kept);
        Ok(())
    }

    /// Keeps what others have written to a file that a client has written to as well.
    pub(super) fn keep_copy(&mut self, inode: u64) -> Result<(), Errno> {
        let place = self.places.get(inode).cloned();
        // One without a name has no other readers here.
        let Some(place) = place.filter(|place| place.parent != NAMELESS) else {
            return Ok(());
        };
        let from = self.open_to_read(inode)?;
        let directory = self.open_directory(place.parent)?;
        may_end()?;
        let found = super::stat(from.as_fd(), "")?;
        let mut made = None;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let kept = free_name(place.name.as_bytes(), |name| {
            let mode = Mode::RUSR | Mode::WUSR;
            made = Some(rustix::fs::openat(&*directory, name, flags, mode)?);
            Ok(())
        })?;
        let Some(file) = made.map(File::from) else {
            return Err(Errno::IO);
        };
        copy(&from, &file)?;
        match chown(file.as_fd(), Some(found.stx_uid), Some(found.stx_gid)) {
            // It is the user's own then.
            Ok(()) | Err(Errno::PERM) => {}
            Err(errno) => return Err(errno),
        }
        chmod(file.as_fd(), found.stx_mode & 0o777)?;
        let time = |time: &rustix::fs::StatxTimestamp| Timespec {
            tv_sec: time.tv_sec,
            tv_nsec: time.tv_nsec.into(),
        };
        rustix::fs::futimens(
            &file,
            &Timestamps {
                last_access: time(&found.stx_atime),
                last_modification: time(&found.stx_mtime),
            },
        )?;
        self.note_changed(place.parent);
        self.say_kept(place.parent, place.name.as_bytes(), &kept);
        Ok(())
    }

    fn say_kept(&self, parent: u64, name: &[u8], kept: &Name) {
        let mut path = self.path_shown(Some(parent));
        path.push(String::from_utf8_lossy(name).into_owned());
        notice(format_args!(
            "{}: a client has changed it, and others here, too: theirs is {}",
            path.join("/"),
            String::from_utf8_lossy(kept.as_bytes())
        ));
    }

    /// Whether an inode is below `lost` alone: no client has it any more. A client may have given it another name since.
    pub(super) fn is_lost(&self, inode: u64) -> bool {
        if !self.collisions.has_lost {
            return false;
        }
        let mut places = self.places.all(inode).peekable();
        places.peek().is_some() && places.all(|place| self.leads_to_lost(place.parent))
    }

    fn leads_to_lost(&self, directory: u64) -> bool {
        let mut at = directory;
        for _ in 0..DEPTH_MAX {
            if at == self.lost_inode {
                return true;
            }
            match self.places.get(at) {
                Some(place) => at = place.parent,
                None => return false,
            }
        }
        false
    }
}

/// A name that is free, as `take` finds by taking it.
pub(super) fn free_name(
    name: &[u8],
    mut take: impl FnMut(&[u8]) -> Result<(), Errno>,
) -> Result<Name, Errno> {
    for number in 1..=TRIES {
        let ending = format!(".conflict-{number}");
        let kept = with_ending(name, &ending)?;
        match take(kept.as_bytes()) {
            Err(Errno::EXIST) => {}
            outcome => return outcome.map(|()| kept),
        }
    }
    Err(Errno::EXIST)
}

fn with_ending(name: &[u8], ending: &str) -> Result<Name, Errno> {
    Name::with_ending(name, ending).map_err(|_| Errno::INVAL)
}

/// The name in `lost` of what an object was to have.
fn lost_name(name: &[u8], log: u64, object: ObjectId) -> Result<Name, Errno> {
    with_ending(name, &lost_end(log, object))
}

fn lost_end(log: u64, object: ObjectId) -> String {
    format!(".lost-{log}-{:x}", object.number())
}

fn copy(mut from: &File, mut to: &File) -> Result<(), Errno> {
    io::Seek::rewind(&mut from)
        .and_then(|()| io::copy(&mut from, &mut to))
        .map(drop)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

fn what_of(change: &Change) -> &'static str {
    match change {
        Change::Create { .. } => "has made it",
        Change::Link { .. } => "has given it another name",
        Change::Remove { .. } => "has removed it",
        Change::Rename { .. } => "has renamed it",
        Change::SetAttributes { .. } => "has changed its attributes",
        Change::Resize { .. } | Change::Write { .. } => "has written it",
        Change::SetExtended { .. } => "has changed an extended attribute",
    }
}
