//! What a request asks for, borrowing names and data from its bytes.

use std::ffi::OsStr;

use zerocopy::FromBytes;

use crate::{
    Capabilities, CopyRange, Create, FileLock, Ioctl, Open, RenameFlags, SetAttributes, Write,
    abi::input,
};

/// One operation. The request's node is the object, or the directory in which a name lies.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    missing_docs,
    reason = "the fields are the arguments of `FileSystem`'s methods, or flags"
)]
pub enum Operation<'a> {
    /// The handshake, first of all requests.
    Init(Init),
    /// A name's node.
    Lookup { name: &'a OsStr },
    /// References given back; has no reply.
    Forget(Forgets<'a>),
    /// Attributes.
    Getattr { handle: Option<u64> },
    /// Attributes and birth time; `mask` holds `STATX_*`.
    Statx { handle: Option<u64>, mask: u32 },
    /// Changes to attributes.
    Setattr(SetAttributes),
    /// The target of a symbolic link.
    Readlink,
    /// A new symbolic link.
    Symlink { name: &'a OsStr, target: &'a OsStr },
    /// A new file, device, pipe or socket.
    Mknod {
        name: &'a OsStr,
        mode: u32,
        umask: u32,
        device: u32,
    },
    /// A new directory.
    Mkdir {
        name: &'a OsStr,
        mode: u32,
        umask: u32,
    },
    /// A name removed.
    Unlink { name: &'a OsStr },
    /// An empty directory removed.
    Rmdir { name: &'a OsStr },
    /// A name moved, replaced or exchanged.
    Rename {
        name: &'a OsStr,
        new_parent: u64,
        new_name: &'a OsStr,
        flags: RenameFlags,
    },
    /// Another name, in the request's node, for `node`.
    Link { node: u64, new_name: &'a OsStr },
    /// A file opened.
    Open(Open),
    /// The file system's size and use.
    Statfs,
    /// An operation on extended attributes.
    Xattr(XattrOperation<'a>),
    /// A directory opened.
    Opendir(Open),
    /// A permission check; `mask` as in access(2).
    Access { mask: u32 },
    /// A file created and opened.
    Create { name: &'a OsStr, create: Create },
    /// A file without a name (`O_TMPFILE`) created and opened.
    Tmpfile(Create),
    /// A signal reached the caller of another request.
    Interrupt {
        /// For whose caller.
        request: u64,
    },
    /// The file system is going away.
    Destroy,
    /// Data that a notification had asked for; has no reply.
    NotifyReply,
    /// The whole file system made durable.
    Syncfs,
    /// An operation through an open file or directory.
    Through {
        handle: u64,
        operation: HandleOperation<'a>,
    },
    /// Nothing known here.
    Unsupported { opcode: u32 },
}

/// What is asked of an object's extended attributes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(
    missing_docs,
    reason = "the fields are the arguments of `FileSystem`'s methods, or flags"
)]
pub enum XattrOperation<'a> {
    /// An extended attribute set; `flags` holds `XATTR_*`.
    Set {
        name: &'a OsStr,
        value: &'a [u8],
        flags: u32,
        kill_set_group_id: bool,
    },
    /// An extended attribute; size 0 asks for its size.
    Get { name: &'a OsStr, size: u32 },
    /// The names of extended attributes; size 0 asks for their size.
    List { size: u32 },
    /// An extended attribute removed.
    Remove { name: &'a OsStr },
}

/// What is asked for through an open file or directory. Handles are 0 if opens are free of
/// messages.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(
    missing_docs,
    reason = "the fields are the arguments of `FileSystem`'s methods, or flags"
)]
pub enum HandleOperation<'a> {
    /// Data read.
    Read { offset: u64, size: u32 },
    /// Data written.
    Write(Write<'a>),
    /// The last close of an open file.
    Release {
        flags: u32,
        flock_owner: Option<u64>,
    },
    /// A file made durable.
    Fsync { data_only: bool },
    /// One close of an open file.
    Flush { lock_owner: u64 },
    /// A listing.
    Readdir { offset: u64, size: u32 },
    /// A listing that looks its names up.
    Readdirplus { offset: u64, size: u32 },
    /// The last close of an open directory.
    Releasedir { flags: u32 },
    /// A directory made durable.
    Fsyncdir { data_only: bool },
    /// What is in the way of a lock.
    Getlk(FileLock),
    /// A lock set or lifted.
    Setlk { lock: FileLock, waits: bool },
    /// A device-specific call.
    Ioctl { ioctl: Ioctl<'a>, output_size: u32 },
    /// Space allocated or freed; `mode` as in fallocate(2).
    Fallocate { offset: u64, length: u64, mode: u32 },
    /// The next data or hole; `whence` as in lseek(2).
    Lseek { offset: i64, whence: u32 },
    /// Data copied between files; `wide` asks for a 64-bit count.
    CopyFileRange { copy: CopyRange, wide: bool },
}

/// The kernel's half of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init {
    /// The kernel's major version of the protocol.
    pub major: u32,
    /// The kernel's minor version.
    pub minor: u32,
    /// The most that the kernel reads ahead, in bytes.
    pub readahead_bytes_max: u32,
    /// What the kernel offers.
    pub capabilities: Capabilities,
}

/// References given back: pairs of node and count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgets<'a> {
    single: Option<(u64, u64)>,
    /// Whole `fuse_forget_one`s.
    batch: &'a [u8],
}

impl<'a> Forgets<'a> {
    pub(super) fn single(node: u64, lookups: u64) -> Self {
        Self {
            single: Some((node, lookups)),
            batch: &[],
        }
    }

    pub(super) fn batch(records: &'a [u8]) -> Self {
        Self {
            single: None,
            batch: records,
        }
    }
}

impl Iterator for Forgets<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(single) = self.single.take() {
            return Some(single);
        }
        let (one, rest) = input::ForgetOne::read_from_prefix(self.batch).ok()?;
        self.batch = rest;
        Some((one.nodeid, one.nlookup))
    }
}
