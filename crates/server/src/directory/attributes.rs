//! Changes of an inode itself. Each says what is to be, so that it can be made again.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FileType, Gid, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags,
};
use rustix::io::Errno;
use surmise_lower::Timestamp;
use surmise_remote::object::{Name, ObjectId};
use surmise_remote::operation::{Change, Operation, SetAttributes};
use surmise_remote::tree::without_set_ids;

use super::fault::may_end;
use super::load::open_quietly;
use super::make::timespec;
use super::rights::{self, chmod, path_of};
use super::{Directory, stat};

const SET_IDS: u16 = 0o6000;

impl Directory {
    pub(super) fn change_inode(&mut self, operation: &Operation) -> Result<(), Errno> {
        match &operation.change {
            Change::SetAttributes { object, set } => self.set_attributes(*object, set),
            Change::Resize {
                object,
                size,
                strip,
            } => self.change_data(*object, *strip, operation.at, |file| {
                rustix::fs::ftruncate(file, *size)
            }),
            Change::Write { data, .. } if data.is_empty() => Ok(()),
            Change::Write {
                object,
                offset,
                data,
                strip,
            } => self.change_data(*object, *strip, operation.at, |file| {
                let written = file.write_all_at(data, *offset);
                written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
            }),
            Change::SetExtended {
                object,
                name,
                value,
            } => self.set_extended(*object, name, value.as_deref()),
            Change::Create { .. }
            | Change::Link { .. }
            | Change::Remove { .. }
            | Change::Rename { .. } => Ok(()),
        }
    }

    fn set_attributes(&mut self, object: ObjectId, set: &SetAttributes) -> Result<(), Errno> {
        if self.gone.contains(&object) {
            return Ok(());
        }
        let inode = self.inode(object)?;
        let open = self.open_inode(inode)?;
        let mut permissions = set.permissions;
        if set.owner.is_some() || set.group.is_some() {
            // The kernel takes set-id bits from what changes its owner; they are to stay.
            let found = stat(open.as_fd(), "")?;
            let is_link = FileType::from_raw_mode(found.stx_mode.into()) == FileType::Symlink;
            if found.stx_mode & SET_IDS != 0 && !is_link {
                permissions = permissions.or(Some(found.stx_mode & 0o7777));
            }
            chown(open.as_fd(), set.owner, set.group)?;
        }
        if let Some(permissions) = permissions {
            chmod(open.as_fd(), permissions & 0o7777)?;
        }
        if set.modified.is_some() {
            self.stamps.remove(&inode);
        }
        if set.accessed.is_some() || set.modified.is_some() {
            let time = |time: Option<Timestamp>| {
                time.map_or(
                    Timespec {
                        tv_sec: 0,
                        tv_nsec: UTIME_OMIT,
                    },
                    timespec,
                )
            };
            let times = Timestamps {
                last_access: time(set.accessed),
                last_modification: time(set.modified),
            };
            set_times(open.as_fd(), &times)?;
        }
        Ok(())
    }

    fn change_data(
        &mut self,
        object: ObjectId,
        strip: bool,
        at: Timestamp,
        change: impl Fn(&File) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let inode = self.inode(object)?;
        let file = self.open_to_write(inode)?;
        if self.take_written(inode) {
            let kept = self.keep_copy(inode);
            if let Err(errno) = kept.and_then(|()| self.overtake(inode, true)) {
                self.note_written(inode);
                return Err(errno);
            }
        }
        let mut permissions = None;
        if strip || self.user.is_some() {
            let found = stat(file.as_fd(), "")?.stx_mode & 0o7777;
            let wanted = if strip { without_set_ids(found) } else { found };
            // The kernel takes these bits itself when an ordinary user writes, also where the client's kernel has left them.
            permissions = (found & SET_IDS != 0).then_some(wanted);
        }
        may_end()?;
        self.overtaken.is_written(inode);
        change(&file)?;
        if let Some(permissions) = permissions {
            match chmod(file.as_fd(), permissions) {
                // An ordinary user has written what another one owns.
                Ok(()) | Err(Errno::PERM) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.stamp(inode, at);
        Ok(())
    }

    fn set_extended(
        &mut self,
        object: ObjectId,
        name: &Name,
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        if self.gone.contains(&object) {
            return Ok(());
        }
        let inode = self.inode(object)?;
        let open = self.open_inode(inode)?;
        may_end()?;
        let (path, name) = (path_of(open.as_fd()), name.as_bytes());
        self.with_bits(open.as_fd(), rights::WRITE, || match value {
            Some(value) => rustix::fs::setxattr(&path, name, value, XattrFlags::empty()),
            None => match rustix::fs::removexattr(&path, name) {
                // It was removed before a kill.
                Err(Errno::NODATA) => Ok(()),
                outcome => outcome,
            },
        })
    }

    fn open_to_write(&mut self, inode: u64) -> Result<Arc<File>, Errno> {
        if let Some(open) = self.files.get(&inode) {
            return Ok(open.clone());
        }
        let open = self.open_inode(inode)?;
        let found = stat(open.as_fd(), "")?;
        if FileType::from_raw_mode(found.stx_mode.into()) != FileType::RegularFile {
            return Err(Errno::INVAL);
        }
        let bits = rights::READ | rights::WRITE;
        let file = self.with_bits(open.as_fd(), bits, || {
            open_quietly(open.as_fd(), OFlags::RDWR)
        });
        let file = match file {
            // An ordinary user may write what another one owns, and not read it.
            Err(Errno::ACCESS) => return Ok(Arc::new(open_quietly(open.as_fd(), OFlags::WRONLY)?)),
            file => Arc::new(file?),
        };
        self.files.put(inode, file.clone());
        Ok(file)
    }
}

pub(super) fn chown(
    open: BorrowedFd<'_>,
    owner: Option<u32>,
    group: Option<u32>,
) -> Result<(), Errno> {
    may_end()?;
    let (owner, group) = (owner.map(Uid::from_raw), group.map(Gid::from_raw));
    rustix::fs::chownat(open, "", owner, group, AtFlags::EMPTY_PATH)
}

pub(super) fn set_times(open: BorrowedFd<'_>, times: &Timestamps) -> Result<(), Errno> {
    may_end()?;
    rustix::fs::utimensat(open, "", times, AtFlags::EMPTY_PATH)
}
