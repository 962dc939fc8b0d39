//! Attributes of an object and of the file system, and changes to them.

use std::time::Duration;

use crate::abi::{flags, output};

/// The longest lifetime sent, in seconds (136 years): "for ever" without any risk that a sum in
/// the kernel wraps around.
const LIFETIME_MAX_S: u64 = u32::MAX as u64;

/// A time in the kernel's form: `nanoseconds` (below 10^9) count forward, also before 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Whole seconds since 1970.
    pub seconds: i64,
    /// The rest, below 10^9.
    pub nanoseconds: u32,
}

impl Timestamp {
    fn to_statx(self) -> output::SxTime {
        output::SxTime {
            tv_sec: self.seconds,
            tv_nsec: self.nanoseconds,
            reserved: 0,
        }
    }
}

/// What stat(2) and statx(2) tell of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The inode number that programs see; not the node.
    pub ino: u64,
    /// Size in bytes.
    pub size: u64,
    /// Space taken, in units of 512 bytes.
    pub blocks: u64,
    /// Preferred size of a read or write in bytes.
    pub block_size: u32,
    /// Number of names.
    pub links: u32,
    /// Type and permissions, as in `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Which device a device node stands for, in the kernel's encoding: `minor & 0xff`, then 12
    /// bits of major, then the rest of minor.
    pub device: u32,
    /// Last access.
    pub accessed: Timestamp,
    /// Last change of the data.
    pub modified: Timestamp,
    /// Last change of data or attributes.
    pub changed: Timestamp,
    /// Birth time, where known; only statx(2) tells it.
    pub created: Option<Timestamp>,
}

impl Attributes {
    pub(crate) fn to_wire(self) -> output::Attr {
        output::Attr {
            ino: self.ino,
            size: self.size,
            blocks: self.blocks,
            // The wire calls seconds unsigned and the kernel reads them as signed.
            atime: self.accessed.seconds as u64,
            mtime: self.modified.seconds as u64,
            ctime: self.changed.seconds as u64,
            atimensec: self.accessed.nanoseconds,
            mtimensec: self.modified.nanoseconds,
            ctimensec: self.changed.nanoseconds,
            mode: self.mode,
            nlink: self.links,
            uid: self.uid,
            gid: self.gid,
            rdev: self.device,
            blksize: self.block_size,
            flags: 0,
        }
    }

    fn to_statx(self) -> output::Statx {
        let born = if self.created.is_some() {
            flags::STATX_BTIME
        } else {
            0
        };
        output::Statx {
            mask: flags::STATX_BASIC_STATS | born,
            blksize: self.block_size,
            nlink: self.links,
            uid: self.uid,
            gid: self.gid,
            // Type and permissions fit 16 bits; `st_mode` has no others.
            mode: self.mode as u16,
            ino: self.ino,
            size: self.size,
            blocks: self.blocks,
            atime: self.accessed.to_statx(),
            btime: self.created.unwrap_or_default().to_statx(),
            ctime: self.changed.to_statx(),
            mtime: self.modified.to_statx(),
            rdev_major: (self.device >> 8) & 0xfff,
            rdev_minor: (self.device & 0xff) | ((self.device >> 12) & !0xff),
            ..Default::default()
        }
    }
}

/// Attributes, with how long the kernel may rely on them without asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownAttributes {
    /// The attributes.
    pub attributes: Attributes,
    /// How long they hold; [`Duration::MAX`] is for ever.
    pub lifetime: Duration,
}

impl KnownAttributes {
    pub(crate) fn to_wire(self) -> output::AttrOut {
        let (attr_valid, attr_valid_nsec) = seconds_and_nanoseconds(self.lifetime);
        let attr = self.attributes.to_wire();
        output::AttrOut {
            attr_valid,
            attr_valid_nsec,
            dummy: 0,
            attr,
        }
    }

    pub(crate) fn to_statx(self) -> output::StatxOut {
        let (attr_valid, attr_valid_nsec) = seconds_and_nanoseconds(self.lifetime);
        let stat = self.attributes.to_statx();
        output::StatxOut {
            attr_valid,
            attr_valid_nsec,
            stat,
            ..Default::default()
        }
    }
}

/// A lifetime as the wire has it, cut to [`LIFETIME_MAX_S`].
pub(crate) fn seconds_and_nanoseconds(lifetime: Duration) -> (u64, u32) {
    let shown = lifetime.min(Duration::from_secs(LIFETIME_MAX_S));
    (shown.as_secs(), shown.subsec_nanos())
}

/// Changes to an object's attributes; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Truncate or extend to this many bytes.
    pub size: Option<u64>,
    /// Type (unchanged) and permissions.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Last access.
    pub accessed: Option<TimeToSet>,
    /// Last change of the data.
    pub modified: Option<TimeToSet>,
    /// Last change of data or attributes; only a write-back cache sends it.
    pub changed: Option<Timestamp>,
    /// Drop set-id bits and `security.capability` too.
    pub kill_privileges: bool,
    /// The open file through which the change comes, if any.
    pub handle: Option<u64>,
}

/// A time that a change sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeToSet {
    /// The present, by the file system's own clock.
    Now,
    /// This time.
    At(Timestamp),
}

/// What statfs(2) tells of the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// All space, in units of `fragment_size`.
    pub blocks: u64,
    /// Free space.
    pub blocks_free: u64,
    /// Free space that is not reserved for root.
    pub blocks_available: u64,
    /// Inodes.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
    /// Preferred size of a transfer in bytes.
    pub block_size: u32,
    /// Longest name in bytes.
    pub name_bytes_max: u32,
    /// The unit of `blocks` in bytes.
    pub fragment_size: u32,
}

impl Statistics {
    pub(crate) fn to_wire(self) -> output::StatfsOut {
        output::StatfsOut {
            blocks: self.blocks,
            bfree: self.blocks_free,
            bavail: self.blocks_available,
            files: self.files,
            ffree: self.files_free,
            bsize: self.block_size,
            namelen: self.name_bytes_max,
            frsize: self.fragment_size,
            ..Default::default()
        }
    }
}
