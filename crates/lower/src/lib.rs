//! What lies under a view: a file system that the view shows and never writes.
//!
//! [`Lower`] is the interface. [`Local`] is the real file system of this host, and `Memory` (a feature) a tree that tests
//! have in memory. A remote directory is meant to be another: an open [`Directory`] or [`OpenFile`] is then an object's
//! id and its lease.
//!
//! # What a view takes for granted
//!
//! - An [`InodeKey`] names one inode while an open directory, an open file or a [`Hold`] holds that inode.
//!   Afterwards the number may be given to a later inode. A view reads only one thing from the key: inodes of
//!   different `device` cannot be linked with each other.
//! - Two equal [`Version`]s say that neither data nor attributes have changed between them. A commit finds
//!   conflicts by comparing them.
//! - Nothing that a view asks for leaves a mark on what it reads, follows a symbolic link, or waits for
//!   the other end of a FIFO.
//! - What was read of a directory after [`Watcher::add`] is true until [`Watcher::changes`] tells
//!   otherwise. Where nothing can be watched it may be outdated at any time.
//!
//! # What a lower side takes for granted
//!
//! - Calls of [`Lower`], [`Directory`] and [`OpenFile`], and [`Watcher::add`], may take long, as on a network. A
//!   view makes these calls without its lock, so that no other call of the view waits for them. Around a commit all
//!   calls of the view wait anyhow, and there the view asks with its lock held.
//! - [`Watcher::remove`], [`Watcher::changes`] and [`Watcher::descriptor`] only look at this host's memory, and so
//!   does the end of a [`Hold`], of an open directory and of an open file. A view makes these calls with its lock
//!   held, so a lower side that would have to wait there leaves the work to a thread of its own.
#![forbid(unsafe_code)]

mod interface;
mod local;
#[cfg(any(test, feature = "memory"))]
mod memory;
mod types;

pub use interface::{
    Change, Directory, Hold, Listed, Lower, OpenFile, Space, WatchId, Watcher, read_full,
};
pub use local::Local;
#[cfg(any(test, feature = "memory"))]
pub use memory::{Hang, Memory, Outside};
pub use types::{Attributes, FileKind, Identity, InodeKey, Timestamp, Version};
