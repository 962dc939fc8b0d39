//! Encoding: one answer into the bytes of one write to the device.

use std::io::{self, IoSlice};

use rustix::io::Errno;
use zerocopy::{Immutable, IntoBytes};

use crate::abi::output;
use crate::{Entry, KnownAttributes, Lookup, OpenReply, Statistics};

/// A header and the largest fixed answer (`fuse_statx_out`).
const HEAD_BYTES_MAX: usize = size_of::<output::OutHeader>() + size_of::<output::StatxOut>();

/// Errnos from here on are the kernel's own; it refuses a reply that carries one, and then
/// nobody would wake the caller.
const ERRNO_END: i32 = 512;

/// One answer: a head held here and data borrowed from the worker's buffer.
#[derive(Debug)]
pub(crate) struct Reply<'b> {
    head: [u8; HEAD_BYTES_MAX],
    head_length: usize,
    data: &'b [u8],
}

impl<'b> Reply<'b> {
    pub(crate) fn done(unique: u64) -> Self {
        Self::new(unique, 0, &[], &[])
    }

    pub(crate) fn error(unique: u64, error: &io::Error) -> Self {
        let errno = error
            .raw_os_error()
            .filter(|errno| (1..ERRNO_END).contains(errno))
            .unwrap_or(Errno::IO.raw_os_error());
        Self::new(unique, -errno, &[], &[])
    }

    pub(crate) fn lookup(unique: u64, lookup: Lookup) -> Self {
        Self::fixed(unique, &lookup.to_wire())
    }

    pub(crate) fn entry(unique: u64, entry: Entry) -> Self {
        Self::fixed(unique, &entry.to_wire())
    }

    pub(crate) fn attributes(unique: u64, known: KnownAttributes) -> Self {
        Self::fixed(unique, &known.to_wire())
    }

    pub(crate) fn statx(unique: u64, known: KnownAttributes) -> Self {
        Self::fixed(unique, &known.to_statx())
    }

    pub(crate) fn open(unique: u64, open: OpenReply) -> Self {
        Self::fixed(unique, &open.to_wire())
    }

    pub(crate) fn create(unique: u64, (entry, open): (Entry, OpenReply)) -> Self {
        Self::fixed(
            unique,
            &output::CreateOut {
                entry: entry.to_wire(),
                open: open.to_wire(),
            },
        )
    }

    pub(crate) fn statistics(unique: u64, statistics: Statistics) -> Self {
        Self::fixed(unique, &statistics.to_wire())
    }

    /// How many bytes were written or copied, where the wire has room for 32 bits.
    pub(crate) fn count(unique: u64, bytes: u32) -> Self {
        Self::fixed(
            unique,
            &output::WriteOut {
                size: bytes,
                padding: 0,
            },
        )
    }

    pub(crate) fn wide_count(unique: u64, bytes_copied: u64) -> Self {
        Self::fixed(unique, &output::CopyFileRangeOut { bytes_copied })
    }

    pub(crate) fn offset(unique: u64, offset: u64) -> Self {
        Self::fixed(unique, &output::LseekOut { offset })
    }

    /// The size of an extended attribute, asked for before its value.
    pub(crate) fn xattr_size(unique: u64, size: u32) -> Self {
        Self::fixed(unique, &output::GetxattrOut { size, padding: 0 })
    }

    pub(crate) fn ioctl(unique: u64, output: &'b [u8]) -> Self {
        Self::new(unique, 0, output::IoctlOut::default().as_bytes(), output)
    }

    pub(crate) fn data(unique: u64, data: &'b [u8]) -> Self {
        Self::new(unique, 0, &[], data)
    }

    pub(crate) fn fixed<T: IntoBytes + Immutable>(unique: u64, body: &T) -> Self {
        Self::new(unique, 0, body.as_bytes(), &[])
    }

    /// What one writev(2) takes.
    pub(crate) fn segments(&self) -> [IoSlice<'_>; 2] {
        [
            IoSlice::new(&self.head[..self.head_length]),
            IoSlice::new(self.data),
        ]
    }

    fn new(unique: u64, error: i32, body: &[u8], data: &'b [u8]) -> Self {
        let body_start = size_of::<output::OutHeader>();
        let head_length = body_start + body.len();
        let len = u32::try_from(head_length + data.len()).expect("no buffer here holds 4 GiB");
        let mut head = [0; HEAD_BYTES_MAX];
        head[..body_start].copy_from_slice(output::OutHeader { len, error, unique }.as_bytes());
        head[body_start..head_length].copy_from_slice(body);
        Self {
            head,
            head_length,
            data,
        }
    }
}
