//! What the kernel offers in the handshake and what a session takes of it.

use bitflags::bitflags;

bitflags! {
    /// A set of handshake flags (`FUSE_*` of linux/fuse.h; the upper half travels in `flags2`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Capabilities: u64 {
        /// Several reads of one file may be under way at once.
        const ASYNC_READ = 1 << 0;
        /// The server keeps the locks of fcntl(2); otherwise the kernel does, for each mount by itself.
        const POSIX_LOCKS = 1 << 1;
        /// OPEN truncates by itself when `O_TRUNC` is among its flags.
        const ATOMIC_O_TRUNC = 1 << 3;
        /// A write may be larger than one page.
        const BIG_WRITES = 1 << 5;
        /// The server applies the umask, not the kernel.
        const DONT_MASK = 1 << 6;
        /// The server keeps the locks of flock(2).
        const FLOCK_LOCKS = 1 << 10;
        /// The kernel drops cached data when a file's size or modification time changed.
        const AUTO_INVAL_DATA = 1 << 12;
        /// READDIRPLUS exists: a listing that also looks its names up.
        const DO_READDIRPLUS = 1 << 13;
        /// The kernel uses READDIRPLUS only where lookups follow listings.
        const READDIRPLUS_AUTO = 1 << 14;
        /// Direct reads and writes may be under way in parallel.
        const ASYNC_DIO = 1 << 15;
        /// Writes stay in the page cache until written back.
        const WRITEBACK_CACHE = 1 << 16;
        /// `ENOSYS` to OPEN makes every later open free of messages. Wanting it drops
        /// [`ATOMIC_O_TRUNC`](Self::ATOMIC_O_TRUNC): nobody would truncate.
        const NO_OPEN_SUPPORT = 1 << 17;
        /// Lookups and listings of one directory may run in parallel.
        const PARALLEL_DIROPS = 1 << 18;
        /// The kernel checks POSIX ACLs and asks for them as extended attributes.
        const POSIX_ACL = 1 << 20;
        /// A read of the device after an abort fails with `ECONNABORTED`, not `ENODEV`.
        const ABORT_ERROR = 1 << 21;
        /// A request may carry more than 32 pages.
        const MAX_PAGES = 1 << 22;
        /// The kernel caches the targets of symbolic links.
        const CACHE_SYMLINKS = 1 << 23;
        /// `ENOSYS` to OPENDIR makes every later opendir free of messages.
        const NO_OPENDIR_SUPPORT = 1 << 24;
        /// Cached data is dropped only when the server says so.
        const EXPLICIT_INVAL_DATA = 1 << 25;
        /// The server drops set-id bits and capabilities where a request says so.
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        /// SETXATTR carries flags of its own.
        const SETXATTR_EXT = 1 << 29;
        /// The upper half of this set exists.
        const INIT_EXT = 1 << 30;
        /// A name can be made to expire without being dropped ([`Notifier`](crate::Notifier)). The
        /// kernel only tells; it is not asked for.
        const HAS_EXPIRE_ONLY = 1 << 35;
        /// Files opened for direct I/O may be mapped shared.
        const DIRECT_IO_ALLOW_MMAP = 1 << 36;
        /// An open may be answered with a file that the kernel reads and writes by itself
        /// ([`Notifier::register`](crate::Notifier::register)).
        const PASSTHROUGH = 1 << 37;
    }
}

impl Capabilities {
    /// What a copy-on-write view of local files wants: few messages, and data that only the
    /// view itself changes.
    pub const LOCAL_VIEW: Self = Self::ASYNC_READ
        .union(Self::ATOMIC_O_TRUNC)
        .union(Self::BIG_WRITES)
        .union(Self::DO_READDIRPLUS)
        .union(Self::READDIRPLUS_AUTO)
        .union(Self::ASYNC_DIO)
        .union(Self::PARALLEL_DIROPS)
        .union(Self::MAX_PAGES)
        .union(Self::CACHE_SYMLINKS)
        .union(Self::EXPLICIT_INVAL_DATA)
        .union(Self::HANDLE_KILLPRIV_V2)
        .union(Self::SETXATTR_EXT)
        .union(Self::INIT_EXT)
        .union(Self::DIRECT_IO_ALLOW_MMAP);

    /// What a file system wants whose data others may change and lock, too: as [`Self::LOCAL_VIEW`], but the kernel compares size
    /// and modification time whenever it has asked for attributes anew, and asks for locks.
    pub const SHARED: Self = Self::LOCAL_VIEW
        .difference(Self::EXPLICIT_INVAL_DATA)
        .union(Self::AUTO_INVAL_DATA)
        .union(Self::POSIX_LOCKS)
        .union(Self::FLOCK_LOCKS);

    /// Joins the two words of the wire; the upper one counts only with `INIT_EXT`.
    pub(crate) fn from_wire(flags: u32, flags2: u32) -> Self {
        let low = Self::from_bits_retain(u64::from(flags));
        if low.contains(Self::INIT_EXT) {
            low | Self::from_bits_retain(u64::from(flags2) << 32)
        } else {
            low
        }
    }

    /// Splits into `flags` and `flags2`.
    pub(crate) fn to_wire(self) -> (u32, u32) {
        let bits = self.bits();
        (bits as u32, (bits >> 32) as u32)
    }
}
