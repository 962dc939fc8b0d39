//! Encoding: one answer into the bytes of one write to the device.

use std::io::{self, IoSlice};

use rustix::io::Errno;
use zerocopy::{Immutable, IntoBytes};

use crate::abi::output;
use crate::{Entry, FileLock, KnownAttributes, Lookup, OpenReply, Postponed, Statistics};

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
    is_postponed: bool,
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
        Self {
            is_postponed: Postponed::is(error),
            ..Self::new(unique, -errno, &[], &[])
        }
    }

    /// Whether it is not to be sent: the request is to be answered later.
    pub(crate) fn is_postponed(&self) -> bool {
        self.is_postponed
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

    pub(crate) fn lock(unique: u64, lock: FileLock) -> Self {
        Self::fixed(unique, &lock.to_wire())
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
            is_postponed: false,
            head,
            head_length,
            data,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Attributes, Timestamp};

    fn bytes(reply: &Reply<'_>) -> Vec<u8> {
        reply
            .segments()
            .iter()
            .flat_map(|segment| segment.to_vec())
            .collect()
    }

    #[track_caller]
    fn header(reply: &Reply<'_>) -> (u32, i32, u64) {
        let bytes = bytes(reply);
        let length = u32::from_ne_bytes(bytes[..4].try_into().unwrap());
        assert_eq!(length as usize, bytes.len());
        let error = i32::from_ne_bytes(bytes[4..8].try_into().unwrap());
        (
            length,
            error,
            u64::from_ne_bytes(bytes[8..16].try_into().unwrap()),
        )
    }

    #[test]
    fn every_reply_tells_its_own_length() {
        let known = KnownAttributes {
            attributes: Attributes::default(),
            lifetime: Duration::ZERO,
        };
        let entry = crate::node::tests::entry(2);
        let open = OpenReply::default();
        assert_eq!(header(&Reply::done(5)), (16, 0, 5));
        assert_eq!(header(&Reply::entry(5, entry)), (144, 0, 5));
        assert_eq!(header(&Reply::attributes(5, known)), (120, 0, 5));
        assert_eq!(header(&Reply::statx(5, known)), (304, 0, 5));
        assert_eq!(header(&Reply::open(5, open)), (32, 0, 5));
        assert_eq!(header(&Reply::create(5, (entry, open))), (160, 0, 5));
        assert_eq!(
            header(&Reply::statistics(5, Statistics::default())),
            (96, 0, 5)
        );
        assert_eq!(header(&Reply::count(5, 1)), (24, 0, 5));
        assert_eq!(header(&Reply::wide_count(5, 1)), (24, 0, 5));
        assert_eq!(header(&Reply::offset(5, 1)), (24, 0, 5));
        assert_eq!(header(&Reply::xattr_size(5, 1)), (24, 0, 5));
        assert_eq!(header(&Reply::ioctl(5, b"abcd")), (36, 0, 5));
        assert_eq!(header(&Reply::data(5, b"abc")), (19, 0, 5));
    }

    #[test]
    fn an_error_is_an_errno_that_the_kernel_takes() {
        let errno = |error| header(&Reply::error(5, &error)).1;
        assert_eq!(errno(Errno::NOENT.into()), -2);
        assert_eq!(errno(io::Error::from_raw_os_error(512)), -5);
        assert_eq!(errno(io::Error::from_raw_os_error(0)), -5);
        assert_eq!(errno(io::Error::from_raw_os_error(-2)), -5);
        assert_eq!(errno(io::Error::other("no errno")), -5);
    }

    #[test]
    fn attributes_lie_where_the_header_says() {
        let time = |seconds| Timestamp {
            seconds,
            nanoseconds: 7,
        };
        let attributes = Attributes {
            ino: 1,
            size: 2,
            blocks: 3,
            block_size: 4096,
            links: 5,
            mode: 0o20_644,
            uid: 6,
            gid: 7,
            device: 0x1230_4567, // major 0x045, minor 0x12367
            accessed: time(-8),
            modified: time(9),
            changed: time(10),
            created: Some(time(11)),
        };
        let known = KnownAttributes {
            attributes,
            lifetime: Duration::MAX,
        };

        let plain = bytes(&Reply::attributes(0, known));
        let u64_at = |at: usize| u64::from_ne_bytes(plain[at..at + 8].try_into().unwrap());
        let u32_at = |at: usize| u32::from_ne_bytes(plain[at..at + 4].try_into().unwrap());
        assert_eq!([16, 32, 40, 48].map(u64_at), [u64::from(u32::MAX), 1, 2, 3]);
        assert_eq!([56, 64, 72].map(u64_at), [-8i64 as u64, 9, 10]);
        assert_eq!([80, 84, 88].map(u32_at), [7, 7, 7]);
        let modes_to_block_size = [92, 96, 100, 104, 108, 112].map(u32_at);
        assert_eq!(modes_to_block_size, [0o20_644, 5, 6, 7, 0x1230_4567, 4096]);

        let wide = bytes(&Reply::statx(0, known));
        let u32_at = |at: usize| u32::from_ne_bytes(wide[at..at + 4].try_into().unwrap());
        let stat = 16 + 32;
        assert_eq!(u32_at(stat), 0xfff, "the birth time is known");
        assert_eq!(u32_at(stat + 28) & 0xffff, 0o20_644);
        assert_eq!(u32_at(stat + 80), 11, "birth follows access");
        assert_eq!([128, 132].map(|at| u32_at(stat + at)), [0x045, 0x12367]);
    }
}
