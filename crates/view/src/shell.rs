//! The FUSE shell: each request turned into a call of the view, each answer into a reply. It decides
//! nothing.

mod device;
mod entry;
mod listing;
mod opening;
mod privileges;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use entry::{entry_of, known};
use listing::{Page, listed, remaining};
use rustix::fs::OFlags;
use rustix::io::Errno;
use surmise_fuse as fuse;
use surmise_fuse::{Caller, FileSystem, KnownAttributes, OpenReply};

use crate::kernel::Server;
use crate::listers::Detail;
use crate::types::{FileKind, Lifetime, NodeId, Timestamp};
use crate::view::{Entry, NewNode, RenameMode, SetAttributes, View};

/// Serves a view on a mounted FUSE device until it is unmounted.
///
/// # Errors
/// What reading the device or writing a reply failed with.
pub fn serve(view: &View, device: OwnedFd, threads: usize) -> io::Result<()> {
    Server::new(device, threads).serve(view)
}

impl FileSystem for View {
    fn lookup(&self, _: Caller, parent: u64, name: &OsStr) -> io::Result<fuse::Lookup> {
        Ok(match Self::lookup(self, NodeId(parent), name)? {
            Ok(entry) => {
                if entry.attributes.identity.kind != FileKind::Directory {
                    self.listers().looked_up_in(NodeId(parent));
                }
                fuse::Lookup::Found(entry_of(&entry))
            }
            Err(lifetime) => {
                if lifetime != Lifetime::Forever {
                    self.listers().absent_in(NodeId(parent));
                }
                fuse::Lookup::Absent {
                    lifetime: lifetime.duration(),
                }
            }
        })
    }

    fn forget(&self, node: u64, lookups: u64) {
        Self::forget(self, NodeId(node), lookups);
    }

    fn getattr(&self, _: Caller, node: u64, _: Option<u64>) -> io::Result<KnownAttributes> {
        self.listers().looked_at(NodeId(node));
        Ok(known(&self.attributes(NodeId(node))?))
    }

    fn statx(
        &self,
        _: Caller,
        node: u64,
        _: Option<u64>,
        _mask: u32,
    ) -> io::Result<KnownAttributes> {
        self.listers().looked_at(NodeId(node));
        Ok(known(&self.attributes_and_birth(NodeId(node))?))
    }

    fn setattr(
        &self,
        caller: Caller,
        node: u64,
        changes: &fuse::SetAttributes,
    ) -> io::Result<KnownAttributes> {
        let time = |time: fuse::TimeToSet| match time {
            fuse::TimeToSet::Now => self.now(),
            fuse::TimeToSet::At(time) => Timestamp {
                seconds: time.seconds,
                nanoseconds: time.nanoseconds,
            },
        };
        let set = SetAttributes {
            size: changes.size,
            permissions: changes.mode.map(permissions),
            uid: changes.uid,
            gid: changes.gid,
            accessed: changes.accessed.map(time),
            modified: changes.modified.map(time),
            drop_privileges: privileges::dropped_by_setattr(caller, changes),
        };
        self.listers().looked_at(NodeId(node));
        Ok(known(&self.set_attributes(NodeId(node), set)?))
    }

    fn readlink(&self, _: Caller, node: u64) -> io::Result<OsString> {
        self.read_link(NodeId(node))
    }

    fn symlink(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        target: &OsStr,
    ) -> io::Result<fuse::Entry> {
        let new = NewNode {
            permissions: 0o777,
            target: target.to_owned(),
            ..new_node(FileKind::Symlink, 0, caller)
        };
        let created = Self::create(self, NodeId(parent), name, new)?;
        Ok(entry_of(&created))
    }

    fn mknod(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
    ) -> io::Result<fuse::Entry> {
        let kind = FileKind::of_mode(mode).ok_or(Errno::INVAL)?;
        let new = NewNode {
            special: device::special(device),
            ..new_node(kind, mode, caller)
        };
        let created = Self::create(self, NodeId(parent), name, new)?;
        Ok(entry_of(&created))
    }

    fn mkdir(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        mode: u32,
        _umask: u32,
    ) -> io::Result<fuse::Entry> {
        let new = new_node(FileKind::Directory, mode, caller);
        let created = Self::create(self, NodeId(parent), name, new)?;
        Ok(entry_of(&created))
    }

    fn unlink(&self, _: Caller, parent: u64, name: &OsStr) -> io::Result<()> {
        self.listers().looked_up_in(NodeId(parent));
        Self::unlink(self, NodeId(parent), name)
    }

    fn rmdir(&self, _: Caller, parent: u64, name: &OsStr) -> io::Result<()> {
        self.remove_directory(NodeId(parent), name)
    }

    fn rename(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        new_parent: u64,
        new_name: &OsStr,
        flags: fuse::RenameFlags,
    ) -> io::Result<()> {
        use fuse::RenameFlags as Flags;
        let mode = match flags - Flags::WHITEOUT {
            Flags::EXCHANGE => RenameMode::Exchange,
            Flags::NOREPLACE => RenameMode::NoReplace,
            none if none.is_empty() => RenameMode::Replace,
            _ => return Err(Errno::INVAL.into()),
        };
        let (from, to) = ((NodeId(parent), name), (NodeId(new_parent), new_name));
        if flags.contains(Flags::WHITEOUT) {
            let whiteout = new_node(FileKind::CharacterDevice, 0, caller);
            return self.rename_leaving(from, to, mode, whiteout);
        }
        Self::rename(self, from, to, mode)
    }

    fn link(
        &self,
        _: Caller,
        node: u64,
        new_parent: u64,
        new_name: &OsStr,
    ) -> io::Result<fuse::Entry> {
        let linked = Self::link(self, NodeId(node), NodeId(new_parent), new_name)?;
        Ok(entry_of(&linked))
    }

    fn serves(&self, _: u64, caller: Caller) {
        Self::serves(self, caller.pid);
    }

    fn may_resume(&self) -> bool {
        self.is_decided()
    }

    fn init(&self, negotiated: &fuse::Negotiated, kernel: fuse::Notifier) {
        self.meet(kernel, negotiated);
    }

    fn open(&self, caller: Caller, node: u64, open: fuse::Open) -> io::Result<OpenReply> {
        self.listers().looked_at(NodeId(node));
        let how = opening::how(caller, open.flags, open.kill_privileges);
        Ok(opening::reply(self.open_file(NodeId(node), how)?))
    }

    fn create(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        create: fuse::Create,
    ) -> io::Result<(fuse::Entry, OpenReply)> {
        let new = new_node(FileKind::Regular, create.mode, caller);
        match Self::create(self, NodeId(parent), name, new) {
            Ok(entry) => self.created(caller, entry, create),
            // Somebody outside made the file since the kernel last asked.
            Err(error)
                if error.raw_os_error() == Some(Errno::EXIST.raw_os_error())
                    && create.flags & OFlags::EXCL.bits() == 0 =>
            {
                self.open_newcomer(caller, NodeId(parent), name, create)
            }
            Err(error) => Err(error),
        }
    }

    fn tmpfile(
        &self,
        caller: Caller,
        parent: u64,
        create: fuse::Create,
    ) -> io::Result<(fuse::Entry, OpenReply)> {
        let new = new_node(FileKind::Regular, create.mode, caller);
        let entry = self.create_nameless(NodeId(parent), new)?;
        self.created(caller, entry, create)
    }

    fn release(&self, node: u64, handle: u64, _: u32, _: Option<u64>) -> io::Result<()> {
        let (number, was_passed) = (opening::number(handle), opening::was_passed(handle));
        self.close_file(NodeId(node), number, was_passed);
        Ok(())
    }

    fn read(
        &self,
        _: Caller,
        node: u64,
        _: u64,
        offset: u64,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        Self::read(self, NodeId(node), offset, buffer)
    }

    fn write(
        &self,
        caller: Caller,
        node: u64,
        _: u64,
        write: fuse::Write<'_>,
    ) -> io::Result<usize> {
        let kill = privileges::dropped_by_change(caller, write.kill_privileges);
        Self::write(self, NodeId(node), write.offset, write.data, kill)?;
        Ok(write.data.len())
    }

    fn statfs(&self, _: Caller, node: u64) -> io::Result<fuse::Statistics> {
        let real = self.file_system(NodeId(node))?;
        let short = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Ok(fuse::Statistics {
            blocks: real.blocks,
            blocks_free: real.blocks_free,
            blocks_available: real.blocks_available,
            files: real.files,
            files_free: real.files_free,
            block_size: short(real.block_size),
            name_bytes_max: short(real.name_bytes_max),
            fragment_size: short(real.fragment_size),
        })
    }

    fn setxattr(
        &self,
        _: Caller,
        node: u64,
        name: &OsStr,
        value: &[u8],
        flags: u32,
        _kill_set_group_id: bool,
    ) -> io::Result<()> {
        self.set_xattr(NodeId(node), name, value, flags)
    }

    fn getxattr(&self, _: Caller, node: u64, name: &OsStr, buffer: &mut [u8]) -> io::Result<usize> {
        fill(&self.xattr(NodeId(node), name)?, buffer)
    }

    fn listxattr(&self, _: Caller, node: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut names = Vec::new();
        for name in self.xattr_names(NodeId(node))? {
            names.extend_from_slice(name.as_bytes());
            names.push(0);
        }
        fill(&names, buffer)
    }

    fn removexattr(&self, _: Caller, node: u64, name: &OsStr) -> io::Result<()> {
        self.remove_xattr(NodeId(node), name)
    }

    fn opendir(&self, caller: Caller, node: u64, _: fuse::Open) -> io::Result<OpenReply> {
        let opened = self.open_directory(NodeId(node))?;
        let keep_cache =
            opened.is_unchanged && self.listers().may_remember(caller.pid, NodeId(node));
        Ok(OpenReply {
            handle: opened.handle,
            keep_cache,
            cache_directory: true,
            ..OpenReply::default()
        })
    }

    fn readdir(
        &self,
        _: Caller,
        node: u64,
        handle: u64,
        offset: u64,
        sink: &mut fuse::DirectorySink<'_>,
    ) -> io::Result<()> {
        let listing = self.read_directory(NodeId(node), handle, offset == 0)?;
        let mut files = 0;
        for (index, entry) in remaining(&listing, offset) {
            if !sink.add(listed(index, entry)) {
                break;
            }
            files += u32::from(entry.kind != Some(FileKind::Directory));
        }
        self.listers().add(NodeId(node), files, None);
        Ok(())
    }

    fn readdirplus(
        &self,
        caller: Caller,
        node: u64,
        handle: u64,
        offset: u64,
        sink: &mut fuse::DirectoryPlusSink<'_>,
    ) -> io::Result<()> {
        let directory = NodeId(node);
        let listing = self.read_directory(directory, handle, offset == 0)?;
        let mut page = match offset {
            0 => Page::telling(self.listers().begin(caller.pid, directory)),
            // The kernel asks for attributes of later names where earlier ones were looked up.
            _ => Page::telling(Detail::Attributes),
        };
        for (index, entry) in remaining(&listing, offset) {
            if !sink.has_room(&entry.name) {
                break;
            }
            let found = match page.tells(entry) {
                // One name that can't be read must not hide the others; a later lookup tells why.
                true => Self::lookup(self, directory, &entry.name).ok(),
                false => None,
            };
            let found = found.and_then(Result::ok).map(|found| page.tell(found));
            if !sink.add(listed(index, entry), found.as_ref().map(entry_of)) {
                break;
            }
        }
        self.listers().add(directory, page.files, page.probe);
        Ok(())
    }

    fn releasedir(&self, _: u64, handle: u64, _: u32) -> io::Result<()> {
        self.close_directory(handle);
        Ok(())
    }

    fn fallocate(
        &self,
        _: Caller,
        node: u64,
        _: u64,
        offset: u64,
        length: u64,
        mode: u32,
    ) -> io::Result<()> {
        self.allocate(NodeId(node), offset, length, mode)
    }

    fn lseek(&self, _: Caller, node: u64, _: u64, offset: i64, whence: u32) -> io::Result<u64> {
        /// `SEEK_HOLE`; the kernel asks only for it and `SEEK_DATA`.
        const HOLE: u32 = 4;
        let offset = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
        self.seek(NodeId(node), offset, whence == HOLE)
    }

    fn copy_file_range(
        &self,
        _: Caller,
        node: u64,
        _: u64,
        copy: fuse::CopyRange,
    ) -> io::Result<u64> {
        let from = (NodeId(node), copy.from_offset);
        let to = (NodeId(copy.to_node), copy.to_offset);
        Ok(self.copy_range(from, to, copy.length)? as u64)
    }
}

impl View {
    fn open_newcomer(
        &self,
        caller: Caller,
        parent: NodeId,
        name: &OsStr,
        create: fuse::Create,
    ) -> io::Result<(fuse::Entry, OpenReply)> {
        let Ok(entry) = Self::lookup(self, parent, name)? else {
            return Err(Errno::STALE.into());
        };
        let how = opening::how(caller, create.flags, create.kill_privileges);
        let opened = self.open_file(entry.node, how)?;
        Ok(opening::replies(entry, how, opened))
    }

    fn created(
        &self,
        caller: Caller,
        entry: Entry,
        create: fuse::Create,
    ) -> io::Result<(fuse::Entry, OpenReply)> {
        let how = opening::how(caller, create.flags, create.kill_privileges);
        let opened = self.open_created(entry.node, how)?;
        Ok(opening::replies(entry, how, opened))
    }
}

fn new_node(kind: FileKind, mode: u32, caller: Caller) -> NewNode {
    NewNode {
        kind,
        permissions: permissions(mode),
        uid: caller.uid,
        gid: caller.gid,
        special: 0,
        target: OsString::new(),
    }
}

fn permissions(mode: u32) -> u16 {
    // Twelve bits fit.
    (mode & 0o7777) as u16
}

/// As getxattr(2) answers: the value, or its length where no buffer is given.
fn fill(value: &[u8], buffer: &mut [u8]) -> io::Result<usize> {
    if buffer.is_empty() {
        return Ok(value.len());
    }
    let room = buffer.get_mut(..value.len()).ok_or(Errno::RANGE)?;
    room.copy_from_slice(value);
    Ok(value.len())
}
