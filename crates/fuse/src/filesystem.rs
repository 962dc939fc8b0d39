//! What a file system answers.

use std::ffi::{OsStr, OsString};
use std::io;

use rustix::io::Errno;

use crate::{
    Caller, CopyRange, Create, DirectoryPlusSink, DirectorySink, Entry, FileLock, Ioctl,
    KnownAttributes, Lookup, Negotiated, Notifier, Open, OpenReply, RenameFlags, SetAttributes,
    Statistics, Write,
};

/// The operations, each called from any worker thread, several at once.
///
/// A method must return in bounded time: its caller sleeps until then, deaf even to `SIGKILL`.
/// What the references of an [`Entry`] mean, and what `ENOSYS` does, is told at the crate's root.
/// Names are single components, never empty, `.` or `..`, and without a slash.
pub trait FileSystem: Send + Sync {
    /// The handshake is over; called once, before anything else.
    fn init(&self, negotiated: &Negotiated, kernel: Notifier) {
        let _ = (negotiated, kernel);
    }

    /// Whether requests that were [`Postponed`](crate::Postponed) can be answered by now. Asked whenever one
    /// begins to wait, since what it waits for may have come meanwhile; while this says so they are tried
    /// again and again. Whoever postpones has to know; nobody else is asked.
    fn may_resume(&self) -> bool {
        false
    }

    /// The method that this thread calls next answers the request of this number and caller, also where the method is not
    /// told of the caller.
    fn serves(&self, request: u64, caller: Caller) {
        let _ = (request, caller);
    }

    /// A signal has come for the caller of a request. The kernel says so once a request, and goes on to wait: a method that
    /// waits long may fail with `EINTR` where the signal ends the caller. `ENOSYS` stops the kernel from saying so.
    fn interrupted(&self, request: u64) -> io::Result<()> {
        let _ = request;
        unsupported()
    }

    /// The node that `name` in `parent` leads to: one more reference to it.
    fn lookup(&self, caller: Caller, parent: u64, name: &OsStr) -> io::Result<Lookup>;

    /// Gives back `lookups` references to `node`. At zero the kernel knows it no more.
    fn forget(&self, node: u64, lookups: u64) {
        let _ = (node, lookups);
    }

    /// A node's attributes; through an open file if `handle` names one.
    fn getattr(
        &self,
        caller: Caller,
        node: u64,
        handle: Option<u64>,
    ) -> io::Result<KnownAttributes>;

    /// The same with the birth time; asked for only if a program wants that (`STATX_BTIME`).
    fn statx(
        &self,
        caller: Caller,
        node: u64,
        handle: Option<u64>,
        mask: u32,
    ) -> io::Result<KnownAttributes> {
        let _ = mask;
        self.getattr(caller, node, handle)
    }

    /// Changes attributes and returns them all. Permission to do so is already checked if the
    /// mount has `default_permissions`.
    fn setattr(
        &self,
        caller: Caller,
        node: u64,
        changes: &SetAttributes,
    ) -> io::Result<KnownAttributes> {
        let _ = (caller, node, changes);
        unsupported()
    }

    /// A symbolic link's target.
    fn readlink(&self, caller: Caller, node: u64) -> io::Result<OsString> {
        let _ = (caller, node);
        unsupported()
    }

    /// Makes a symbolic link.
    fn symlink(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        target: &OsStr,
    ) -> io::Result<Entry> {
        let _ = (caller, parent, name, target);
        unsupported()
    }

    /// Makes a file, pipe, socket or device node. `mode` has the type, and the umask applied
    /// unless [`DONT_MASK`](crate::Capabilities::DONT_MASK) was agreed; `device` is encoded as in
    /// [`Attributes::device`](crate::Attributes::device).
    fn mknod(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
    ) -> io::Result<Entry> {
        let _ = (caller, parent, name, mode, umask, device);
        unsupported()
    }

    /// Makes a directory. `mode` lacks the type; the umask as for [`mknod`](Self::mknod).
    fn mkdir(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        mode: u32,
        umask: u32,
    ) -> io::Result<Entry> {
        let _ = (caller, parent, name, mode, umask);
        unsupported()
    }

    /// Removes a name that is not a directory's.
    fn unlink(&self, caller: Caller, parent: u64, name: &OsStr) -> io::Result<()> {
        let _ = (caller, parent, name);
        unsupported()
    }

    /// Removes an empty directory.
    fn rmdir(&self, caller: Caller, parent: u64, name: &OsStr) -> io::Result<()> {
        let _ = (caller, parent, name);
        unsupported()
    }

    /// Moves a name, replacing what the new name led to, or as `flags` say. Unknown flags are
    /// for the file system to refuse.
    fn rename(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        new_parent: u64,
        new_name: &OsStr,
        flags: RenameFlags,
    ) -> io::Result<()> {
        let _ = (caller, parent, name, new_parent, new_name, flags);
        unsupported()
    }

    /// Gives `node` another name: one more reference to it.
    fn link(
        &self,
        caller: Caller,
        node: u64,
        new_parent: u64,
        new_name: &OsStr,
    ) -> io::Result<Entry> {
        let _ = (caller, node, new_parent, new_name);
        unsupported()
    }

    /// Opens a file. `ENOSYS` makes all later opens free of messages and of
    /// [`release`](Self::release); handles are then 0.
    fn open(&self, caller: Caller, node: u64, open: Open) -> io::Result<OpenReply> {
        let _ = (caller, node, open);
        unsupported()
    }

    /// Fills `buffer` from the file and returns how much: less only at the end of the file. The
    /// buffer is the worker's own and holds old bytes.
    fn read(
        &self,
        caller: Caller,
        node: u64,
        handle: u64,
        offset: u64,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        let _ = (caller, node, handle, offset, buffer);
        unsupported()
    }

    /// Writes and returns how many bytes it took.
    fn write(&self, caller: Caller, node: u64, handle: u64, write: Write<'_>) -> io::Result<usize> {
        let _ = (caller, node, handle, write);
        unsupported()
    }

    /// The file system's size and use.
    fn statfs(&self, caller: Caller, node: u64) -> io::Result<Statistics> {
        let _ = (caller, node);
        unsupported()
    }

    /// One descriptor of an open file is closed (others may remain). All locks of fcntl(2) go that `lock_owner` has on the
    /// node.
    fn flush(&self, caller: Caller, node: u64, handle: u64, lock_owner: u64) -> io::Result<()> {
        let _ = (caller, node, handle, lock_owner);
        unsupported()
    }

    /// The last descriptor and mapping of an open file are gone; and so are its locks, of which the kernel names that of
    /// flock(2) alone. Nobody sees an error.
    fn release(
        &self,
        node: u64,
        handle: u64,
        flags: u32,
        flock_owner: Option<u64>,
    ) -> io::Result<()> {
        let _ = (node, handle, flags, flock_owner);
        Ok(())
    }

    /// A lock that is in the way of this one, or one of the kind [`LockKind::None`](crate::LockKind::None). Asked only if
    /// [`POSIX_LOCKS`](crate::Capabilities::POSIX_LOCKS) was agreed.
    fn getlk(
        &self,
        caller: Caller,
        node: u64,
        handle: u64,
        lock: FileLock,
    ) -> io::Result<FileLock> {
        let _ = (caller, node, handle, lock);
        unsupported()
    }

    /// Sets or lifts a lock. Where another is in the way, it fails with `EAGAIN`; one that waits is
    /// [`Postponed`](crate::Postponed) instead, and fails with `EINTR` once it is [`interrupted`](Self::interrupted). Asked only
    /// if [`POSIX_LOCKS`](crate::Capabilities::POSIX_LOCKS) or [`FLOCK_LOCKS`](crate::Capabilities::FLOCK_LOCKS) was agreed.
    fn setlk(
        &self,
        caller: Caller,
        node: u64,
        handle: u64,
        lock: FileLock,
        waits: bool,
    ) -> io::Result<()> {
        let _ = (caller, node, handle, lock, waits);
        unsupported()
    }

    /// Makes a file durable; without most attributes if `data_only`.
    fn fsync(&self, caller: Caller, node: u64, handle: u64, data_only: bool) -> io::Result<()> {
        let _ = (caller, node, handle, data_only);
        unsupported()
    }

    /// Sets an extended attribute; `flags` are `XATTR_CREATE` and `XATTR_REPLACE`.
    /// `kill_set_group_id`: it is an ACL whose change drops the set-group-id bit.
    fn setxattr(
        &self,
        caller: Caller,
        node: u64,
        name: &OsStr,
        value: &[u8],
        flags: u32,
        kill_set_group_id: bool,
    ) -> io::Result<()> {
        let _ = (caller, node, name, value, flags, kill_set_group_id);
        unsupported()
    }

    /// Fills `buffer` with an extended attribute and returns its length, or fails with `ERANGE`
    /// if the buffer is too small. The buffer is never empty: for a program that only asks for
    /// the size, it is large enough for any value.
    fn getxattr(
        &self,
        caller: Caller,
        node: u64,
        name: &OsStr,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        let _ = (caller, node, name, buffer);
        unsupported()
    }

    /// Fills `buffer`, as [`getxattr`](Self::getxattr) does, with the names of all extended
    /// attributes, each ended by a zero byte.
    fn listxattr(&self, caller: Caller, node: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let _ = (caller, node, buffer);
        unsupported()
    }

    /// Removes an extended attribute.
    fn removexattr(&self, caller: Caller, node: u64, name: &OsStr) -> io::Result<()> {
        let _ = (caller, node, name);
        unsupported()
    }

    /// Opens a directory. `ENOSYS` makes all later opendirs free of messages and of
    /// [`releasedir`](Self::releasedir); handles are then 0 and the listing cached.
    fn opendir(&self, caller: Caller, node: u64, open: Open) -> io::Result<OpenReply> {
        let _ = (caller, node, open);
        unsupported()
    }

    /// Lists a directory from `offset`: 0, or the `next_offset` of a name given earlier. `.` and
    /// `..` belong to it.
    fn readdir(
        &self,
        caller: Caller,
        node: u64,
        handle: u64,
        offset: u64,
        sink: &mut DirectorySink<'_>,
    ) -> io::Result<()> {
        let _ = (caller, node, handle, offset, sink);
        unsupported()
    }

    /// Lists a directory and looks its names up. An error counts only if no name was added.
    fn readdirplus(
        &self,
        caller: Caller,
        node: u64,
        handle: u64,
        offset: u64,
        sink: &mut DirectoryPlusSink<'_>,
    ) -> io::Result<()> {
        let _ = (caller, node, handle, offset, sink);
        unsupported()
    }

    /// The last descriptor of an open directory is gone. Nobody sees an error.
    fn releasedir(&self, node: u64, handle: u64, flags: u32) -> io::Result<()> {
        let _ = (node, handle, flags);
        Ok(())
    }

    /// Makes a directory durable.
    fn fsyncdir(&self, caller: Caller, node: u64, handle: u64, data_only: bool) -> io::Result<()> {
        let _ = (caller, node, handle, data_only);
        unsupported()
    }

    /// Checks permission as access(2) does; not asked if the mount has `default_permissions`.
    fn access(&self, caller: Caller, node: u64, mask: u32) -> io::Result<()> {
        let _ = (caller, node, mask);
        unsupported()
    }

    /// Makes a regular file, or takes the one that is there, and opens it: one more reference.
    fn create(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        create: Create,
    ) -> io::Result<(Entry, OpenReply)> {
        let _ = (caller, parent, name, create);
        unsupported()
    }

    /// Makes a regular file without a name and opens it (`O_TMPFILE`): one more reference.
    fn tmpfile(
        &self,
        caller: Caller,
        parent: u64,
        create: Create,
    ) -> io::Result<(Entry, OpenReply)> {
        let _ = (caller, parent, create);
        unsupported()
    }

    /// Answers a device-specific call: fills `output` and returns how much of it.
    fn ioctl(
        &self,
        caller: Caller,
        node: u64,
        handle: u64,
        ioctl: Ioctl<'_>,
        output: &mut [u8],
    ) -> io::Result<usize> {
        let _ = (caller, node, handle, ioctl, output);
        Err(Errno::NOTTY.into())
    }

    /// Allocates or frees space; `mode` as in fallocate(2).
    fn fallocate(
        &self,
        caller: Caller,
        node: u64,
        handle: u64,
        offset: u64,
        length: u64,
        mode: u32,
    ) -> io::Result<()> {
        let _ = (caller, node, handle, offset, length, mode);
        unsupported()
    }

    /// Finds the next data or hole; `whence` is `SEEK_DATA` or `SEEK_HOLE`.
    fn lseek(
        &self,
        caller: Caller,
        node: u64,
        handle: u64,
        offset: i64,
        whence: u32,
    ) -> io::Result<u64> {
        let _ = (caller, node, handle, offset, whence);
        unsupported()
    }

    /// Copies between two files and returns how many bytes.
    fn copy_file_range(
        &self,
        caller: Caller,
        node: u64,
        handle: u64,
        copy: CopyRange,
    ) -> io::Result<u64> {
        let _ = (caller, node, handle, copy);
        unsupported()
    }

    /// Makes everything durable. Linux asks only file systems that it trusts (virtiofs), so far.
    fn syncfs(&self, caller: Caller, node: u64) -> io::Result<()> {
        let _ = (caller, node);
        unsupported()
    }
}

fn unsupported<T>() -> io::Result<T> {
    Err(Errno::NOSYS.into())
}
