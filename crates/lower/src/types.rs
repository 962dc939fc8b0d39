//! The nouns of a lower side: inodes, their states, and what is known of them.

use std::time::Duration;

use rustix::fs::{FileType, Statx};
use serde::{Deserialize, Serialize};

/// What an inode is; it never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum FileKind {
    /// A file with data.
    Regular = 1,
    /// A directory.
    Directory = 2,
    /// A symbolic link.
    Symlink = 3,
    /// A named pipe.
    Fifo = 4,
    /// A Unix socket's name.
    Socket = 5,
    /// A character device's node.
    CharacterDevice = 6,
    /// A block device's node.
    BlockDevice = 7,
}

impl FileKind {
    /// The kind in a `st_mode`; `None` for bits that Linux does not define.
    pub fn of_mode(mode: u32) -> Option<Self> {
        Some(match FileType::from_raw_mode(mode) {
            FileType::RegularFile => Self::Regular,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice => Self::CharacterDevice,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::Unknown => return None,
        })
    }

    /// The `S_IFMT` bits of this kind.
    pub fn mode_bits(self) -> u32 {
        match self {
            Self::Regular => FileType::RegularFile,
            Self::Directory => FileType::Directory,
            Self::Symlink => FileType::Symlink,
            Self::Fifo => FileType::Fifo,
            Self::Socket => FileType::Socket,
            Self::CharacterDevice => FileType::CharacterDevice,
            Self::BlockDevice => FileType::BlockDevice,
        }
        .as_raw_mode()
    }

    /// The kind with this discriminant, for decoding.
    pub fn from_code(code: u8) -> Option<Self> {
        [
            Self::Regular,
            Self::Directory,
            Self::Symlink,
            Self::Fifo,
            Self::Socket,
            Self::CharacterDevice,
            Self::BlockDevice,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == code)
    }
}

/// A moment, as inodes store it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Timestamp {
    /// Seconds since the epoch; negative before it.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// A nanosecond later.
    #[must_use]
    pub fn next(self) -> Self {
        match self.nanoseconds {
            999_999_999.. => Self {
                seconds: self.seconds.saturating_add(1),
                nanoseconds: 0,
            },
            nanoseconds => Self {
                nanoseconds: nanoseconds + 1,
                ..self
            },
        }
    }

    /// How long ago `earlier` was; nothing for one that is later.
    pub fn since(self, earlier: Self) -> Duration {
        let nanoseconds =
            |time: Self| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds);
        let between = nanoseconds(self) - nanoseconds(earlier);
        Duration::from_nanos(u64::try_from(between.max(0)).unwrap_or(u64::MAX))
    }
}

/// Which real file or directory this is, and in which state: the conflict key of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
    /// Its kind.
    pub kind: FileKind,
    /// `st_size`, in bytes.
    pub size: u64,
    /// Last change of its data.
    pub modified: Timestamp,
    /// Last change of its inode.
    pub changed: Timestamp,
}

impl Identity {
    /// Whether `other` is the same inode, in whatever state.
    pub fn same_inode(&self, other: &Self) -> bool {
        self.key() == other.key() && self.kind == other.kind
    }

    /// In which state it is.
    pub fn version(&self) -> Version {
        let times = [self.modified, self.changed];
        Version {
            size: self.size,
            seconds: times.map(|time| time.seconds),
            nanoseconds: times.map(|time| time.nanoseconds),
        }
    }

    /// What names the inode.
    pub fn key(&self) -> InodeKey {
        InodeKey {
            device: self.device,
            inode: self.inode,
        }
    }
}

/// What names an inode of a lower side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InodeKey {
    /// Which file system it is on: `st_dev` on this host.
    pub device: u64,
    /// Which inode there: `st_ino` on this host.
    pub inode: u64,
}

/// The state of an inode: while it stays so, neither its data nor its attributes have changed. In 32 bytes,
/// since a view may remember one of every file that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    size: u64,
    /// Last modification and last change, in seconds and in nanoseconds.
    seconds: [i64; 2],
    nanoseconds: [u32; 2],
}

impl Version {
    /// Which inode is, or was, in this state.
    pub fn of(&self, key: InodeKey, kind: FileKind) -> Identity {
        let time = |index: usize| Timestamp {
            seconds: self.seconds[index],
            nanoseconds: self.nanoseconds[index],
        };
        Identity {
            device: key.device,
            inode: key.inode,
            kind,
            size: self.size,
            modified: time(0),
            changed: time(1),
        }
    }
}

/// What stat(2) and statx(2) tell of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Which real inode, and in which state. For nodes that exist only in the view: device of the
    /// file system they belong to and the view's own inode number.
    pub identity: Identity,
    /// Permission, set-id and sticky bits: `st_mode & 07777`.
    pub permissions: u16,
    /// Number of names.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node, in the encoding of makedev(3).
    pub special: u64,
    /// Allocated blocks of 512 bytes.
    pub blocks: u64,
    /// Preferred size of reads and writes, in bytes.
    pub block_size: u32,
    /// Last access.
    pub accessed: Timestamp,
    /// Birth, where the file system keeps it.
    pub created: Option<Timestamp>,
    /// Whether something is mounted on it, so that its name can be neither moved nor removed.
    pub is_mount_point: bool,
}

impl Attributes {
    /// From statx(2); `None` when the kind is one that Linux does not define.
    pub fn of_statx(statx: &Statx) -> Option<Self> {
        let time = |stamp: rustix::fs::StatxTimestamp| Timestamp {
            seconds: stamp.tv_sec,
            nanoseconds: stamp.tv_nsec,
        };
        let has_birth = statx.stx_mask & rustix::fs::StatxFlags::BTIME.bits() != 0;
        Some(Self {
            identity: Identity {
                device: rustix::fs::makedev(statx.stx_dev_major, statx.stx_dev_minor),
                inode: statx.stx_ino,
                kind: FileKind::of_mode(statx.stx_mode.into())?,
                size: statx.stx_size,
                modified: time(statx.stx_mtime),
                changed: time(statx.stx_ctime),
            },
            permissions: statx.stx_mode & 0o7777,
            links: statx.stx_nlink,
            uid: statx.stx_uid,
            gid: statx.stx_gid,
            special: rustix::fs::makedev(statx.stx_rdev_major, statx.stx_rdev_minor),
            blocks: statx.stx_blocks,
            block_size: statx.stx_blksize,
            accessed: time(statx.stx_atime),
            created: has_birth.then(|| time(statx.stx_btime)),
            is_mount_point: statx
                .stx_attributes
                .contains(rustix::fs::StatxAttributes::MOUNT_ROOT),
        })
    }

    /// `st_mode`.
    pub fn mode(&self) -> u32 {
        self.identity.kind.mode_bits() | u32::from(self.permissions)
    }
}
