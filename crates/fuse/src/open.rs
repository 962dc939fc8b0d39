//! Opening files and moving their data.

use crate::BackingId;
use crate::abi::{flags::fopen, output};

/// An open of something that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// The `O_*` flags of open(2). `O_CREAT`, `O_EXCL` and `O_NOCTTY` are never among them, and
    /// `O_TRUNC` only if [`ATOMIC_O_TRUNC`](crate::Capabilities::ATOMIC_O_TRUNC) was agreed.
    pub flags: u32,
    /// Truncating drops set-id bits and `security.capability` too.
    pub kill_privileges: bool,
}

/// A creation that also opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Create {
    /// The `O_*` flags of open(2).
    pub flags: u32,
    /// Type and permissions; the umask is already applied unless
    /// [`DONT_MASK`](crate::Capabilities::DONT_MASK) was agreed.
    pub mode: u32,
    /// The caller's umask.
    pub umask: u32,
    /// Should the file exist and be truncated, drop set-id bits too.
    pub kill_privileges: bool,
}

/// An opened file or directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenReply {
    /// What requests through this open file carry; the file system's to choose.
    pub handle: u64,
    /// Keep what the page cache already holds.
    pub keep_cache: bool,
    /// Go around the page cache.
    pub direct_io: bool,
    /// Let direct writes to the file run in parallel.
    pub parallel_direct_writes: bool,
    /// Close without FLUSH.
    pub no_flush: bool,
    /// The file has no position to seek to.
    pub not_seekable: bool,
    /// Let the kernel cache this directory's listing.
    pub cache_directory: bool,
    /// Reads, writes and mappings go to this file without a message; its pages are cached as its
    /// own, so nothing else here but `handle` and `no_flush` counts.
    ///
    /// As long as one file of a node is open in this way, all are to be, and with the same backing
    /// (`EIO` otherwise).
    pub backing: Option<BackingId>,
}

impl OpenReply {
    pub(crate) fn to_wire(self) -> output::OpenOut {
        let is_passed = self.backing.is_some();
        let open_flags = [
            (is_passed, fopen::PASSTHROUGH),
            (self.keep_cache && !is_passed, fopen::KEEP_CACHE),
            (self.direct_io, fopen::DIRECT_IO),
            (self.parallel_direct_writes, fopen::PARALLEL_DIRECT_WRITES),
            (self.no_flush, fopen::NOFLUSH),
            (self.not_seekable, fopen::NONSEEKABLE),
            (self.cache_directory, fopen::CACHE_DIR),
        ]
        .into_iter()
        .filter(|(wanted, _)| *wanted)
        .fold(0, |all, (_, flag)| all | flag);
        output::OpenOut {
            fh: self.handle,
            open_flags,
            backing_id: self.backing.map_or(0, BackingId::number),
        }
    }
}

/// A write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<'a> {
    /// Where, in bytes from the start.
    pub offset: u64,
    /// What, borrowed from the request.
    pub data: &'a [u8],
    /// The status flags of the open file (`O_APPEND` and its like) as they are now: fcntl(2) may have changed
    /// them since it was opened. 0 for a page written back.
    pub flags: u32,
    /// A page written back (through a shared mapping, say): there is no caller, and the handle
    /// is that of any file open for writing.
    pub from_cache: bool,
    /// Drop set-id bits and `security.capability` too.
    pub kill_privileges: bool,
}

/// A copy from an open file to another (copy_file_range(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRange {
    /// Where to read, in bytes from the start.
    pub from_offset: u64,
    /// The node to write.
    pub to_node: u64,
    /// The open file to write.
    pub to_handle: u64,
    /// Where to write, in bytes from the start.
    pub to_offset: u64,
    /// At most this many bytes.
    pub length: u64,
    /// The call's flags; none are defined yet.
    pub flags: u64,
}

/// A device-specific call (ioctl(2)) whose sizes are encoded in its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ioctl<'a> {
    /// The command, `_IOC` encoded.
    pub command: u32,
    /// The caller's pointer or number.
    pub argument: u64,
    /// What the pointer leads to, if the command says that it reads.
    pub input: &'a [u8],
}
