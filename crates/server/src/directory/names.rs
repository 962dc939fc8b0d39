//! Changes of names.
//!
//! Each can be made once more after a kill: it looks whether it was made. Only one operation at a time is in doubt, so what
//! is found at its names is of before it or of after it.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Statx, Timestamps};
use rustix::io::Errno;
use surmise_lower::Timestamp;
use surmise_remote::object::{Name, ObjectId};
use surmise_remote::operation::{self, Change, NewKind, NewObject, Operation};

use super::attributes::{chown, set_times};
use super::collisions::free_name;
use super::fault::may_end;
use super::make::{Begun, timespec};
use super::places::Place;
use super::rights::{chmod, path_of};
use super::{Directory, NAMELESS, names_in, open_beneath, stat};

const SET_GROUP_ID: u16 = 0o2000;

/// A place whose directory is open.
pub(super) struct Spot<'o> {
    pub(super) directory: Arc<OwnedFd>,
    pub(super) place: Place,
    pub(super) name: &'o Name,
}

impl Spot<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// What is there.
    pub(super) fn look(&self) -> Result<Option<Statx>, Errno> {
        match stat(self.directory.as_fd(), self.bytes()) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl Directory {
    pub(super) fn change_names(
        &mut self,
        operation: &Operation,
        begun: Begun,
    ) -> Result<(), Errno> {
        match &operation.change {
            Change::Create { place, object, new } => {
                self.create(place, *object, new, operation.at, begun)
            }
            Change::Link { object, place } => self.link(*object, place),
            Change::Remove {
                place,
                object,
                directory,
            } => self.remove(place, *object, *directory),
            // Two names of one object: nothing happens (rename(2)).
            Change::Rename {
                object, replaced, ..
            } if replaced.as_ref() == Some(object) => Ok(()),
            Change::Rename {
                from,
                object,
                to,
                replaced,
                exchange: false,
            } => self.rename((from, *object), (to, *replaced), begun),
            Change::Rename {
                from,
                object,
                to,
                replaced,
                exchange: true,
            } => {
                let other = replaced.ok_or(Errno::NOENT)?;
                self.exchange((from, *object), (to, other), begun)
            }
            Change::SetAttributes { .. }
            | Change::Resize { .. }
            | Change::Write { .. }
            | Change::SetExtended { .. } => Ok(()),
        }
    }

    pub(super) fn spot<'o>(&mut self, place: &'o operation::Place) -> Result<Spot<'o>, Errno> {
        let parent = self.inode(place.parent)?;
        Ok(Spot {
            directory: self.open_directory(parent)?,
            place: Place {
                parent,
                name: place.name.clone(),
            },
            name: &place.name,
        })
    }

    fn create(
        &mut self,
        place: &operation::Place,
        id: ObjectId,
        new: &NewObject,
        at: Timestamp,
        begun: Begun,
    ) -> Result<(), Errno> {
        let spot = self.spot(place)?;
        self.create_at(spot, id, new, at, begun)
    }

    pub(super) fn create_at(
        &mut self,
        spot: Spot<'_>,
        id: ObjectId,
        new: &NewObject,
        at: Timestamp,
        begun: Begun,
    ) -> Result<(), Errno> {
        may_end()?;
        let mut made = make_node(&spot, new);
        let mut is_merged = false;
        if made.as_ref().err() == Some(&Errno::EXIST) {
            let found = spot.look()?.ok_or(Errno::EXIST)?;
            // The tree had nothing there, so this is what was begun, or others have made it.
            is_merged = is_directory(&found) && new.kind == NewKind::Directory;
            if is_merged {
                // Two directories of one name become one, which has what is in either.
                self.note_changed_object(id);
            }
            made = match is_merged || (begun == Begun::Maybe && is_fresh(&spot, &found, new)?) {
                true => Ok(None),
                false => {
                    self.set_aside(&spot, &found)?;
                    make_node(&spot, new)
                }
            };
            is_merged &= begun == Begun::No;
        }
        let made = made?;
        let is_open = made.is_some();
        let open = match made {
            Some(file) => file,
            None => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                File::from(open_beneath(spot.directory.as_fd(), spot.bytes(), flags)?)
            }
        };
        let found = stat(open.as_fd(), "")?;
        if !is_open && !is_fresh(&spot, &found, new)? {
            // Others have put something else there since.
            return Err(Errno::STALE);
        }
        if !is_merged {
            give_attributes(spot.directory.as_fd(), &open, &found, new)?;
            may_end()?;
            give_times(&open, is_open, at)?;
        }
        let inode = found.stx_ino;
        // What had this number before is no more.
        self.note_replaced(inode, id);
        self.note_new(inode)?;
        self.forget_inode(inode);
        self.ids.pair(id, inode);
        self.places.set(inode, spot.place);
        self.watch_new(inode, open.as_fd(), new.kind == NewKind::Directory);
        if begun == Begun::No {
            match new.kind {
                NewKind::Regular => drop(self.files.put(inode, Arc::new(open))),
                NewKind::Directory => drop(self.directories.put(inode, Arc::new(open.into()))),
                _ => {}
            }
        }
        Ok(())
    }

    fn link(&mut self, object: ObjectId, place: &operation::Place) -> Result<(), Errno> {
        let inode = self.inode(object)?;
        let spot = self.spot(place)?;
        let there = spot.look()?;
        // Before a kill, or by others.
        let is_it = |found: &Statx| found.stx_ino == inode && self.is_same(&spot, found);
        let is_made = there.as_ref().is_some_and(is_it);
        if let Some(there) = there.filter(|_| !is_made) {
            self.set_aside(&spot, &there)?;
        }
        if !is_made {
            let open = self.open_inode(inode)?;
            self.watch_names(inode, open.as_fd());
            let path = path_of(open.as_fd());
            let follow = AtFlags::SYMLINK_FOLLOW;
            may_end()?;
            rustix::fs::linkat(CWD, path, &*spot.directory, spot.bytes(), follow)?;
        }
        self.places.add(inode, spot.place);
        Ok(())
    }

    fn remove(
        &mut self,
        place: &operation::Place,
        object: ObjectId,
        directory: bool,
    ) -> Result<(), Errno> {
        let spot = self.spot(place)?;
        match spot.look()? {
            Some(found) => {
                if self.ids.inode(object) != Some(found.stx_ino) || !self.is_same(&spot, &found) {
                    // Others have taken the name first, and given it to something else.
                    self.note_changed(spot.place.parent);
                    self.note_changed_object(object);
                } else if directory {
                    may_end()?;
                    rustix::fs::unlinkat(&*spot.directory, spot.bytes(), AtFlags::REMOVEDIR)?;
                    self.lose_directory(object);
                } else {
                    self.lose_name(&spot, object, &found)?;
                }
            }
            // It was made before a kill, or others have done the same, or have moved it.
            None => {
                let inode = self.ids.inode(object);
                let is_elsewhere = inode.is_some_and(|inode| self.open_inode(inode).is_ok());
                if is_elsewhere {
                    self.note_changed(spot.place.parent);
                    self.note_changed_object(object);
                } else if directory {
                    self.lose_directory(object);
                }
            }
        }
        Ok(())
    }

    /// Takes a name from an object that is no directory. One without a name is kept, since clients know it.
    fn lose_name(&mut self, spot: &Spot<'_>, object: ObjectId, found: &Statx) -> Result<(), Errno> {
        let inode = found.stx_ino;
        may_end()?;
        if found.stx_nlink > 1 {
            rustix::fs::unlinkat(&*spot.directory, spot.bytes(), AtFlags::empty())?;
            self.lose_place(inode, &spot.place);
            return Ok(());
        }
        let name = format!("{:016x}", object.number());
        rustix::fs::renameat(&*spot.directory, spot.bytes(), &*self.nameless, &name)?;
        if stat(self.nameless.as_fd(), &*name)?.stx_ino != inode {
            // Others have put theirs there since it was looked at, and that was moved. It goes back.
            let back = |to: &[u8]| {
                let (own, there) = (&*self.nameless, &*spot.directory);
                rustix::fs::renameat_with(own, &*name, there, to, RenameFlags::NOREPLACE)
            };
            if back(spot.bytes()).is_err() {
                free_name(spot.bytes(), back)?;
            }
            return Err(Errno::STALE);
        }
        let name = Name::try_from(name.as_bytes()).map_err(|_| Errno::IO)?;
        let parent = NAMELESS;
        self.places.set(inode, Place { parent, name });
        Ok(())
    }

    fn lose_place(&mut self, inode: u64, place: &Place) {
        if !self.places.remove(inode, place) {
            // It has other names, which are not known yet.
            self.may_walk = true;
        }
    }

    /// A directory that has no name is empty, and the tree has its attributes.
    fn lose_directory(&mut self, object: ObjectId) {
        if let Some(inode) = self.ids.inode(object) {
            self.forget_inode(inode);
        }
        self.gone.insert(object);
    }

    fn rename(
        &mut self,
        (from, object): (&operation::Place, ObjectId),
        (to, replaced): (&operation::Place, Option<ObjectId>),
        begun: Begun,
    ) -> Result<(), Errno> {
        let inode = self.inode(object)?;
        let (from, to) = (self.spot(from)?, self.spot(to)?);
        match from.look()? {
            Some(found) if found.stx_ino == inode && self.is_same(&from, &found) => {
                let mut flags = RenameFlags::NOREPLACE;
                let mut overwritten = None;
                if let Some(replaced) = replaced
                    && let Some(there) = to.look()?
                {
                    let is_meant = self.ids.inode(replaced) == Some(there.stx_ino)
                        && self.is_same(&to, &there);
                    let kind = FileType::from_raw_mode(there.stx_mode.into());
                    if !is_meant
                        || (kind == FileType::Directory
                            && !is_empty(to.directory.as_fd(), to.bytes())?)
                    {
                        self.set_aside(&to, &there)?;
                    } else if kind != FileType::Directory && there.stx_nlink == 1 {
                        self.lose_name(&to, replaced, &there)?;
                    } else {
                        flags = RenameFlags::empty();
                        overwritten = Some((replaced, kind));
                    }
                } else if replaced.is_none()
                    && let Some(there) = to.look()?
                {
                    self.set_aside(&to, &there)?;
                }
                move_name(&from, &to, flags)?;
                if let Some((replaced, kind)) = overwritten {
                    match kind {
                        FileType::Directory => self.lose_directory(replaced),
                        _ => self.lose_place_of(replaced, &to.place),
                    }
                }
            }
            // It was moved before the kill.
            None if begun == Begun::Maybe => {
                if let Some(replaced) = replaced {
                    self.lose_place_of(replaced, &to.place);
                }
            }
            Some(_) => return Err(Errno::STALE),
            None => return Err(Errno::NOENT),
        }
        self.places.remove(inode, &from.place);
        self.places.add(inode, to.place);
        Ok(())
    }

    /// Something else has taken a name of an object. Without any name that is known, it is looked for when it is needed.
    fn lose_place_of(&mut self, object: ObjectId, place: &Place) {
        if let Some(inode) = self.ids.inode(object)
            && self
                .places
                .get(inode)
                .is_none_or(|place| place.parent != NAMELESS)
        {
            self.lose_place(inode, place);
        }
    }

    fn exchange(
        &mut self,
        (from, object): (&operation::Place, ObjectId),
        (to, other): (&operation::Place, ObjectId),
        begun: Begun,
    ) -> Result<(), Errno> {
        let (one, two) = (self.inode(object)?, self.inode(other)?);
        let (from, to) = (self.spot(from)?, self.spot(to)?);
        let inode_at = |spot: &Spot<'_>| Ok(spot.look()?.map(|found| found.stx_ino));
        match (inode_at(&from)?, inode_at(&to)?) {
            (Some(first), Some(second)) if (first, second) == (one, two) => {
                self.progress.will_exchange(self.made + 1, one)?;
                move_name(&from, &to, RenameFlags::EXCHANGE)?;
            }
            (Some(first), Some(second))
                if (first, second) == (two, one) && begun == Begun::Maybe => {}
            _ => return Err(Errno::STALE),
        }
        self.places.remove(one, &from.place);
        self.places.remove(two, &to.place);
        self.places.add(one, to.place);
        self.places.add(two, from.place);
        Ok(())
    }
}

fn move_name(from: &Spot<'_>, to: &Spot<'_>, flags: RenameFlags) -> Result<(), Errno> {
    may_end()?;
    let (old, new) = (&*from.directory, &*to.directory);
    match rustix::fs::renameat_with(old, from.bytes(), new, to.bytes(), flags) {
        // Some file systems do not know this flag.
        Err(Errno::INVAL) if flags == RenameFlags::NOREPLACE => match to.look()? {
            Some(_) => Err(Errno::EXIST),
            None => rustix::fs::renameat(old, from.bytes(), new, to.bytes()),
        },
        outcome => outcome,
    }
}

/// Makes an object; a regular file is then open for reading and writing.
fn make_node(spot: &Spot<'_>, new: &NewObject) -> Result<Option<File>, Errno> {
    let (directory, name) = (&*spot.directory, spot.bytes());
    let mode = Mode::from_raw_mode(u32::from(new.permissions & 0o7777));
    let node = |kind, device| rustix::fs::mknodat(directory, name, kind, mode, device);
    match &new.kind {
        NewKind::Regular => {
            let flags =
                OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(directory, name, flags, mode)?;
            return Ok(Some(File::from(file)));
        }
        NewKind::Directory => rustix::fs::mkdirat(directory, name, mode)?,
        NewKind::Symlink(target) => rustix::fs::symlinkat(&target[..], directory, name)?,
        NewKind::Fifo => node(FileType::Fifo, 0)?,
        NewKind::Socket => node(FileType::Socket, 0)?,
        NewKind::CharacterDevice(device) => node(FileType::CharacterDevice, *device)?,
        NewKind::BlockDevice(device) => node(FileType::BlockDevice, *device)?,
    }
    Ok(None)
}

/// Gives a new object its owner, group and permissions, as far as the kernel has given it others.
fn give_attributes(
    parent: BorrowedFd<'_>,
    open: &File,
    found: &Statx,
    new: &NewObject,
) -> Result<(), Errno> {
    let is_link = matches!(new.kind, NewKind::Symlink(_));
    let (mut group, mut permissions) = (new.group, new.permissions & 0o7777);
    let has = found.stx_mode & 0o7777;
    if found.stx_gid != group || (has != permissions && !is_link) {
        let parent = stat(parent, "")?;
        if parent.stx_mode & SET_GROUP_ID != 0 {
            group = parent.stx_gid;
            if new.kind == NewKind::Directory {
                permissions |= SET_GROUP_ID;
            }
        }
    }
    let is_other = |wanted: u32, has: u32| (wanted != has).then_some(wanted);
    let owner = is_other(new.owner, found.stx_uid);
    let other_group = is_other(group, found.stx_gid);
    let moves = owner.is_some() || other_group.is_some();
    if moves {
        may_end()?;
        chown(open.as_fd(), owner, other_group)?;
    }
    // A new owner costs set-id bits.
    if !is_link && (has != permissions || (moves && permissions & 0o6000 != 0)) {
        chmod(open.as_fd(), permissions)?;
    }
    Ok(())
}

/// Gives a new object its times. `is_open` says whether it is open for more than its place.
fn give_times(open: &File, is_open: bool, at: Timestamp) -> Result<(), Errno> {
    let times = Timestamps {
        last_access: timespec(at),
        last_modification: timespec(at),
    };
    match is_open {
        true => rustix::fs::futimens(open, &times),
        false => set_times(open.as_fd(), &times),
    }
}

pub(super) fn is_directory(found: &Statx) -> bool {
    FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory
}

/// Whether a directory, which has a name in another, is empty.
pub(super) fn is_empty(parent: BorrowedFd<'_>, name: &[u8]) -> Result<bool, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match open_beneath(parent, name, flags) {
        Ok(open) => Ok(names_in(open.as_fd())?.is_empty()),
        // The kernel will tell.
        Err(Errno::ACCESS) => Ok(true),
        Err(errno) => Err(errno),
    }
}

/// Whether what has the name of a new object can be the object itself, which was begun before a kill: then there is nothing in
/// it yet that could be lost.
fn is_fresh(spot: &Spot<'_>, found: &Statx, new: &NewObject) -> Result<bool, Errno> {
    let kind = FileType::from_raw_mode(found.stx_mode.into());
    Ok(match &new.kind {
        NewKind::Regular => kind == FileType::RegularFile && found.stx_size == 0,
        NewKind::Directory => kind == FileType::Directory,
        NewKind::Symlink(target) => {
            kind == FileType::Symlink && {
                let led = rustix::fs::readlinkat(&*spot.directory, spot.bytes(), Vec::new())?;
                led.as_bytes() == target
            }
        }
        NewKind::Fifo => kind == FileType::Fifo,
        NewKind::Socket => kind == FileType::Socket,
        NewKind::CharacterDevice(_) => kind == FileType::CharacterDevice,
        NewKind::BlockDevice(_) => kind == FileType::BlockDevice,
    })
}
