//! Changes to an export. Each names the objects that its maker took the names for, so that the server never
//! does it to others.

use serde::{Deserialize, Serialize};
use surmise_lower::{FileKind, Timestamp};

use crate::object::{Name, ObjectId};

/// A change, with the time at which its maker made it; that is the time that objects get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// When.
    pub at: Timestamp,
    /// What.
    pub change: Change,
}

/// What an operation takes in a message besides its data, at most: two names, and some numbers.
const BYTES_BESIDES: usize = 1024;

impl Operation {
    /// How long it is in a message, at most.
    pub fn bytes(&self) -> usize {
        self.change.data_bytes() + BYTES_BESIDES
    }
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The directory.
    pub parent: ObjectId,
    /// The name in it.
    pub name: Name,
}

/// What changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A new object comes to be (open(2) with `O_CREAT`, mkdir(2), symlink(2), mknod(2)).
    Create {
        /// Its first name, which nothing has.
        place: Place,
        /// Its id, which nothing has had.
        object: ObjectId,
        /// What it is.
        new: NewObject,
    },
    /// An object that is no directory gets one more name (link(2)).
    Link {
        /// The object.
        object: ObjectId,
        /// The name, which nothing has.
        place: Place,
    },
    /// A name goes (unlink(2), rmdir(2)). A directory has to be empty.
    Remove {
        /// The name.
        place: Place,
        /// What it leads to.
        object: ObjectId,
        /// Whether the caller takes it for a directory.
        directory: bool,
    },
    /// A name moves (renameat2(2)).
    Rename {
        /// The name as it is.
        from: Place,
        /// What it leads to.
        object: ObjectId,
        /// The name as it becomes.
        to: Place,
        /// What that leads to so far, and no more afterwards.
        replaced: Option<ObjectId>,
        /// Both names change places instead.
        exchange: bool,
    },
    /// Attributes are set (chmod(2), chown(2), utimensat(2)).
    SetAttributes {
        /// Whose.
        object: ObjectId,
        /// Which.
        set: SetAttributes,
    },
    /// A file gets another size (truncate(2)).
    Resize {
        /// Which file.
        object: ObjectId,
        /// In bytes.
        size: u64,
        /// Whether set-id bits go, as they do when a caller writes that may not set them.
        strip: bool,
    },
    /// Bytes of a file are written; the file grows where they reach beyond its end (pwrite(2)).
    Write {
        /// Which file.
        object: ObjectId,
        /// Where the first byte goes.
        offset: u64,
        /// The bytes.
        #[serde(with = "crate::bytes")]
        data: Vec<u8>,
        /// As of [`Change::Resize`].
        strip: bool,
    },
    /// An extended attribute is set, or removed where there is no value (setxattr(2), removexattr(2)).
    SetExtended {
        /// Whose.
        object: ObjectId,
        /// Its name.
        name: Name,
        /// Its value.
        value: Option<Vec<u8>>,
    },
}

/// A new object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewObject {
    /// What it is.
    pub kind: NewKind,
    /// Permission, set-id and sticky bits.
    pub permissions: u16,
    /// Owner.
    pub owner: u32,
    /// Group; a directory with the set-group-id bit gives its own instead.
    pub group: u32,
}

/// Attributes to set; `None` leaves one as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAttributes {
    /// Permission, set-id and sticky bits.
    pub permissions: Option<u16>,
    /// Owner.
    pub owner: Option<u32>,
    /// Group.
    pub group: Option<u32>,
    /// Last access.
    pub accessed: Option<Timestamp>,
    /// Last change of the content.
    pub modified: Option<Timestamp>,
}

/// What a new object is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewKind {
    /// A regular file without data.
    Regular,
    /// A directory without names.
    Directory,
    /// A symbolic link that leads there.
    Symlink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// A Unix socket's name.
    Socket,
    /// A character device's node, of this device number.
    CharacterDevice(u64),
    /// A block device's node, likewise.
    BlockDevice(u64),
}

impl NewKind {
    /// Its kind.
    pub fn kind(&self) -> FileKind {
        match self {
            Self::Regular => FileKind::Regular,
            Self::Directory => FileKind::Directory,
            Self::Symlink(_) => FileKind::Symlink,
            Self::Fifo => FileKind::Fifo,
            Self::Socket => FileKind::Socket,
            Self::CharacterDevice(_) => FileKind::CharacterDevice,
            Self::BlockDevice(_) => FileKind::BlockDevice,
        }
    }
}

impl Change {
    /// The objects that were there before and that it changes. Its maker has the write lease on each of them. Some may be
    /// named twice.
    pub fn touches(&self) -> Vec<ObjectId> {
        match self {
            Self::Create { place, .. } => vec![place.parent],
            Self::Link { object, place } | Self::Remove { place, object, .. } => {
                vec![place.parent, *object]
            }
            Self::Rename {
                from,
                object,
                to,
                replaced,
                ..
            } => [from.parent, to.parent, *object]
                .into_iter()
                .chain(*replaced)
                .collect(),
            Self::SetAttributes { object, .. }
            | Self::Resize { object, .. }
            | Self::Write { object, .. }
            | Self::SetExtended { object, .. } => vec![*object],
        }
    }

    /// The object that it makes.
    pub fn makes(&self) -> Option<ObjectId> {
        match self {
            Self::Create { object, .. } => Some(*object),
            _ => None,
        }
    }

    /// The names that it is about.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        let (one, other) = match self {
            Self::Create { place, .. } | Self::Link { place, .. } | Self::Remove { place, .. } => {
                (Some(place), None)
            }
            Self::Rename { from, to, .. } => (Some(from), Some(to)),
            Self::SetAttributes { .. }
            | Self::Resize { .. }
            | Self::Write { .. }
            | Self::SetExtended { .. } => (None, None),
        };
        one.into_iter().chain(other)
    }

    /// The object whose content it takes away, in whole or in part: what others have changed there would be lost.
    pub fn takes(&self) -> Option<ObjectId> {
        match self {
            Self::Write { object, .. }
            | Self::Resize { object, .. }
            | Self::Remove { object, .. } => Some(*object),
            Self::Rename {
                replaced,
                exchange: false,
                ..
            } => *replaced,
            _ => None,
        }
    }

    /// How many bytes it carries besides names and numbers.
    pub(crate) fn data_bytes(&self) -> usize {
        match self {
            Self::Create { new, .. } => match &new.kind {
                NewKind::Symlink(target) => target.len(),
                _ => 0,
            },
            Self::Write { data, .. } => data.len(),
            Self::SetExtended { value, .. } => value.as_ref().map_or(0, Vec::len),
            _ => 0,
        }
    }
}
