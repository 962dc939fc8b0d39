//! One request to one method of the file system, and its result to one reply.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;

use crate::reply::Reply;
use crate::{
    Caller, DirectoryPlusSink, DirectorySink, FileSystem, Forgets, HandleOperation,
    Operation as Op, Request, XattrOperation,
};

/// The longest target of a symbolic link that the kernel takes, in bytes.
const TARGET_BYTES_MAX: usize = 4095;

/// Has `fs` answer; `None` where the protocol has no reply. `buffer` is for the reply's data.
pub(crate) fn answer<'b, F: FileSystem + ?Sized>(
    fs: &F,
    request: Request<'_>,
    buffer: &'b mut [u8],
) -> Option<Reply<'b>> {
    let Request {
        unique,
        caller,
        node,
        operation,
    } = request;
    fs.serves(unique, caller);
    let to = Answer { unique, buffer };
    Some(match operation {
        Op::Forget(forgets) => return forget(fs, forgets),
        Op::NotifyReply => return None,
        Op::Init(_) => to.error(Errno::PROTO),
        Op::Interrupt { request } => match fs.interrupted(request) {
            Ok(()) => return None,
            Err(error) => to.done(Err(error)),
        },
        Op::Unsupported { .. } => to.error(Errno::NOSYS),
        Op::Destroy => to.done(Ok(())),
        Op::Lookup { name } => to.with(fs.lookup(caller, node, name), Reply::lookup),
        Op::Getattr { handle } => to.with(fs.getattr(caller, node, handle), Reply::attributes),
        Op::Statx { handle, mask } => to.with(fs.statx(caller, node, handle, mask), Reply::statx),
        Op::Setattr(changes) => to.with(fs.setattr(caller, node, &changes), Reply::attributes),
        Op::Readlink => to.target(fs.readlink(caller, node)),
        Op::Symlink { name, target } => {
            to.with(fs.symlink(caller, node, name, target), Reply::entry)
        }
        Op::Mknod {
            name,
            mode,
            umask,
            device,
        } => to.with(
            fs.mknod(caller, node, name, mode, umask, device),
            Reply::entry,
        ),
        Op::Mkdir { name, mode, umask } => {
            to.with(fs.mkdir(caller, node, name, mode, umask), Reply::entry)
        }
        Op::Unlink { name } => to.done(fs.unlink(caller, node, name)),
        Op::Rmdir { name } => to.done(fs.rmdir(caller, node, name)),
        Op::Rename {
            name,
            new_parent,
            new_name,
            flags,
        } => to.done(fs.rename(caller, node, name, new_parent, new_name, flags)),
        Op::Link {
            node: old,
            new_name,
        } => to.with(fs.link(caller, old, node, new_name), Reply::entry),
        Op::Create { name, create } => {
            to.with(fs.create(caller, node, name, create), Reply::create)
        }
        Op::Tmpfile(create) => to.with(fs.tmpfile(caller, node, create), Reply::create),
        Op::Statfs => to.with(fs.statfs(caller, node), Reply::statistics),
        Op::Syncfs => to.done(fs.syncfs(caller, node)),
        Op::Access { mask } => to.done(fs.access(caller, node, mask)),
        Op::Xattr(operation) => xattr(fs, caller, node, operation, to),
        Op::Open(open) => to.with(fs.open(caller, node, open), Reply::open),
        Op::Opendir(open) => to.with(fs.opendir(caller, node, open), Reply::open),
        Op::Through { handle, operation } => through(fs, caller, (node, handle), operation, to),
    })
}

fn xattr<'b, F: FileSystem + ?Sized>(
    fs: &F,
    caller: Caller,
    node: u64,
    operation: XattrOperation<'_>,
    to: Answer<'b>,
) -> Reply<'b> {
    use XattrOperation as Op;
    match operation {
        Op::Set {
            name,
            value,
            flags,
            kill_set_group_id: kill,
        } => to.done(fs.setxattr(caller, node, name, value, flags, kill)),
        Op::Get { name, size } => to.xattr(size, |out| fs.getxattr(caller, node, name, out)),
        Op::List { size } => to.xattr(size, |out| fs.listxattr(caller, node, out)),
        Op::Remove { name } => to.done(fs.removexattr(caller, node, name)),
    }
}

fn through<'b, F: FileSystem + ?Sized>(
    fs: &F,
    caller: Caller,
    (node, handle): (u64, u64),
    operation: HandleOperation<'_>,
    to: Answer<'b>,
) -> Reply<'b> {
    use HandleOperation as Op;
    match operation {
        Op::Read { offset, size } => {
            to.filled(size, |out| fs.read(caller, node, handle, offset, out))
        }
        Op::Write(write) => to.with(
            fs.write(caller, node, handle, write).and_then(narrow),
            Reply::count,
        ),
        Op::Flush { lock_owner } => to.done(fs.flush(caller, node, handle, lock_owner)),
        Op::Release { flags, flock_owner } => to.done(fs.release(node, handle, flags, flock_owner)),
        Op::Getlk(lock) => to.with(fs.getlk(caller, node, handle, lock), Reply::lock),
        Op::Setlk { lock, waits } => to.done(fs.setlk(caller, node, handle, lock, waits)),
        Op::Fsync { data_only } => to.done(fs.fsync(caller, node, handle, data_only)),
        Op::Readdir { offset, size } => to.filled(size, |out| {
            let mut sink = DirectorySink::new(out);
            let listed = fs.readdir(caller, node, handle, offset, &mut sink);
            taken(sink.into_used(), listed)
        }),
        Op::Readdirplus { offset, size } => to.filled(size, |out| {
            let mut sink = DirectoryPlusSink::new(out);
            let listed = fs.readdirplus(caller, node, handle, offset, &mut sink);
            taken(sink.into_used(), listed)
        }),
        Op::Releasedir { flags } => to.done(fs.releasedir(node, handle, flags)),
        Op::Fsyncdir { data_only } => to.done(fs.fsyncdir(caller, node, handle, data_only)),
        Op::Ioctl { ioctl, output_size } => to.ioctl(output_size, |out| {
            fs.ioctl(caller, node, handle, ioctl, out)
        }),
        Op::Fallocate {
            offset,
            length,
            mode,
        } => to.done(fs.fallocate(caller, node, handle, offset, length, mode)),
        Op::Lseek { offset, whence } => to.with(
            fs.lseek(caller, node, handle, offset, whence),
            Reply::offset,
        ),
        Op::CopyFileRange { copy, wide: true } => to.with(
            fs.copy_file_range(caller, node, handle, copy),
            Reply::wide_count,
        ),
        Op::CopyFileRange { copy, wide: false } => {
            let copied = fs.copy_file_range(caller, node, handle, copy);
            to.with(copied.and_then(narrow), Reply::count)
        }
    }
}

fn forget<'b, F: FileSystem + ?Sized>(fs: &F, forgets: Forgets<'_>) -> Option<Reply<'b>> {
    for (node, lookups) in forgets {
        fs.forget(node, lookups);
    }
    None
}

/// A listing that failed midway still delivers what it took: those entries are references.
fn taken(used: usize, listed: io::Result<()>) -> io::Result<usize> {
    if used > 0 {
        Ok(used)
    } else {
        listed.map(|()| 0)
    }
}

/// A count for a reply that has 32 bits of room for it.
fn narrow(count: impl TryInto<u32>) -> io::Result<u32> {
    count.try_into().map_err(|_| Errno::OVERFLOW.into())
}

/// Where a reply goes, and the buffer for its data.
struct Answer<'b> {
    unique: u64,
    buffer: &'b mut [u8],
}

impl<'b> Answer<'b> {
    fn error(self, errno: Errno) -> Reply<'b> {
        Reply::error(self.unique, &errno.into())
    }

    fn done(self, result: io::Result<()>) -> Reply<'b> {
        self.with(result, |unique, ()| Reply::done(unique))
    }

    fn with<T>(self, result: io::Result<T>, encode: fn(u64, T) -> Reply<'b>) -> Reply<'b> {
        match result {
            Ok(value) => encode(self.unique, value),
            Err(error) => Reply::error(self.unique, &error),
        }
    }

    /// Data of at most `size` bytes.
    fn filled(self, size: u32, fill: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> Reply<'b> {
        let unique = self.unique;
        match self.fill(size, fill) {
            Ok(data) => Reply::data(unique, data),
            Err(error) => Reply::error(unique, &error),
        }
    }

    /// An extended attribute of at most `size` bytes, or its size.
    fn xattr(self, size: u32, fill: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> Reply<'b> {
        let room = u32::try_from(self.buffer.len()).unwrap_or(u32::MAX);
        if size == 0 {
            let unique = self.unique;
            let length = self.fill(room, fill).and_then(|value| narrow(value.len()));
            match length {
                Ok(length) => Reply::xattr_size(unique, length),
                Err(error) => Reply::error(unique, &error),
            }
        } else {
            // The kernel passes on what the program named, which may be any size.
            self.filled(size.min(room), fill)
        }
    }

    fn ioctl(self, size: u32, fill: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> Reply<'b> {
        let unique = self.unique;
        match self.fill(size, fill) {
            Ok(data) => Reply::ioctl(unique, data),
            Err(error) => Reply::error(unique, &error),
        }
    }

    fn target(self, target: io::Result<OsString>) -> Reply<'b> {
        let unique = self.unique;
        let copied = target.and_then(|target| {
            if target.len() > TARGET_BYTES_MAX {
                return Err(Errno::NAMETOOLONG.into());
            }
            let room = &mut self.buffer[..target.len()];
            room.copy_from_slice(target.as_bytes());
            Ok(&*room)
        });
        match copied {
            Ok(data) => Reply::data(unique, data),
            Err(error) => Reply::error(unique, &error),
        }
    }

    fn fill(
        self,
        size: u32,
        fill: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<&'b [u8]> {
        let room = self.buffer.get_mut(..size as usize).ok_or(Errno::INVAL)?;
        let filled = fill(room)?;
        // More than there was room for is a broken file system: the caller learns of it.
        room.get(..filled).ok_or_else(|| Errno::IO.into())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::{Caller, DirectoryEntry, KnownAttributes, Lookup};

    /// A file system that breaks its contract.
    struct Broken;

    impl FileSystem for Broken {
        fn lookup(&self, _: Caller, _: u64, _: &OsStr) -> io::Result<Lookup> {
            Err(Errno::NOENT.into())
        }

        fn getattr(&self, _: Caller, _: u64, _: Option<u64>) -> io::Result<KnownAttributes> {
            Err(io::Error::other("no errno"))
        }

        fn read(&self, _: Caller, _: u64, _: u64, _: u64, buffer: &mut [u8]) -> io::Result<usize> {
            Ok(buffer.len() + 1)
        }

        fn getxattr(&self, _: Caller, _: u64, _: &OsStr, buffer: &mut [u8]) -> io::Result<usize> {
            buffer[..3].copy_from_slice(b"abc");
            Ok(3)
        }

        fn readdir(
            &self,
            _: Caller,
            _: u64,
            _: u64,
            offset: u64,
            sink: &mut DirectorySink<'_>,
        ) -> io::Result<()> {
            let name = OsStr::new("name");
            let entry = DirectoryEntry {
                ino: 1,
                next_offset: 1,
                mode: 0,
                name,
            };
            if offset == 0 && !sink.add(entry) {
                return Ok(());
            }
            Err(Errno::IO.into())
        }
    }

    /// The reply's errno and what follows its header.
    fn reply(operation: Op<'_>) -> Option<(i32, Vec<u8>)> {
        let request = Request {
            unique: 1,
            caller: Caller::default(),
            node: 1,
            operation,
        };
        let mut buffer = [0; 64];
        let reply = answer(&Broken, request, &mut buffer)?;
        let bytes: Vec<u8> = reply
            .segments()
            .iter()
            .flat_map(|segment| segment.to_vec())
            .collect();
        Some((
            i32::from_ne_bytes(bytes[4..8].try_into().unwrap()),
            bytes[16..].to_vec(),
        ))
    }

    fn through(operation: HandleOperation<'_>) -> Option<(i32, Vec<u8>)> {
        reply(Op::Through {
            handle: 1,
            operation,
        })
    }

    #[test]
    fn a_broken_file_system_is_an_error_to_the_caller_only() {
        let error = |errno: Errno| Some((-errno.raw_os_error(), vec![]));
        assert_eq!(
            through(HandleOperation::Read { offset: 0, size: 8 }),
            error(Errno::IO)
        );
        assert_eq!(
            through(HandleOperation::Read {
                offset: 0,
                size: 65
            }),
            error(Errno::INVAL)
        );
        assert_eq!(reply(Op::Getattr { handle: None }), error(Errno::IO));
    }

    #[test]
    fn a_listing_that_fails_midway_delivers_what_it_took() {
        let list = |offset| through(HandleOperation::Readdir { offset, size: 64 }).unwrap();
        let (errno, names) = list(0);
        assert_eq!((errno, names.len()), (0, 32));
        assert_eq!(list(1), (-5, vec![]));
    }

    #[test]
    fn the_size_of_an_attribute_is_that_of_its_value() {
        let name = OsStr::new("user.k");
        let sized = reply(Op::Xattr(XattrOperation::Get { name, size: 0 }));
        assert_eq!(sized, Some((0, [3u32, 0].map(u32::to_ne_bytes).concat())));
        assert_eq!(
            reply(Op::Xattr(XattrOperation::Get { name, size: 1000 })),
            Some((0, b"abc".to_vec()))
        );
    }

    #[test]
    fn forgetting_has_no_reply_and_the_unknown_an_error() {
        assert_eq!(reply(Op::NotifyReply), None);
        assert_eq!(reply(Op::Interrupt { request: 1 }), Some((-38, vec![])));
        assert_eq!(reply(Op::Unsupported { opcode: 99 }), Some((-38, vec![])));
    }
}
