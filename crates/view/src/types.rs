//! The nouns of the view: nodes, objects, marks, and how long what is told of them holds.

use std::time::Duration;

pub use surmise_lower::{Attributes, FileKind, Identity, InodeKey, Timestamp, Version};

/// One inode of the view. Stable for the life of the domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The root directory; the kernel's FUSE client knows it by the same number.
    pub const ROOT: Self = Self(1);
}

/// One file of the object store: the data of a regular file that the domain wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u64);

/// What a process changes from some moment on, and what can be undone of it. A running view uses no number twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MarkId(pub u64);

/// How long a client may believe what it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// Only this domain can change it.
    Forever,
    /// Somebody outside may change it, and that is heard of, but for what no watch tells.
    Watched,
    /// Somebody outside may change it.
    Brief,
    /// Not at all: the domain changes it without a message, or it is to be told whenever it is asked for.
    Never,
}

impl Lifetime {
    /// In time. Outside changes to files that the domain has not touched show within a second.
    pub fn duration(self) -> Duration {
        match self {
            Self::Forever => Duration::MAX,
            Self::Watched => Duration::from_secs(60),
            Self::Brief => Duration::from_secs(1),
            Self::Never => Duration::ZERO,
        }
    }
}
