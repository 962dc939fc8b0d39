//! The FUSE protocol for one file system: requests decoded, replies encoded, one device loop.
//!
//! A [`FileSystem`] answers operations; a [`Session`] reads requests from a mounted `/dev/fuse`
//! descriptor, calls it, and writes the replies. Nothing here mounts, and nothing here knows what
//! a file is: nodes and handles are numbers that the file system chose.
//!
//! *Nodes and inode numbers are apart.* A node (`u64`, the root is [`ROOT`]) is what the kernel
//! names in requests and counts references to; [`Attributes::ino`] is what a program sees in
//! `st_ino`. A file system may reuse neither, either or both.
//!
//! *References.* Every [`Entry`] that reaches the kernel (lookup, creation, link, and each entry of
//! a [`readdirplus`](FileSystem::readdirplus) that its sink took) is one reference to its node,
//! until [`forget`](FileSystem::forget) gives it back. At unmount the rest vanish unsaid.
//!
//! *Errors* are [`std::io::Error`]s made from raw errnos; one without an errno becomes `EIO`.
//! `ENOSYS`, the default of most operations, is remembered by the kernel: it then does without
//! (flush, fsync, access: success; listxattr, fallocate: `EOPNOTSUPP`; statx, lseek: by other
//! means). [`Postponed`] is none: such a request is answered later.
//!
//! Modelled on Linux 6.18 (protocol 7.45); served from Linux 5.4 on.
#![forbid(unsafe_code)]

mod abi;
mod attributes;
mod backing;
mod capabilities;
mod directory;
mod dispatch;
mod filesystem;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod lock;
mod node;
mod notify;
mod open;
mod postponed;
mod reply;
mod request;
mod session;
mod tally;
mod together;

pub use attributes::{
    Attributes, KnownAttributes, SetAttributes, Statistics, TimeToSet, Timestamp,
};
pub use backing::{Backing, BackingId};
pub use capabilities::Capabilities;
pub use directory::{DirectoryEntry, DirectoryPlusSink, DirectorySink};
pub use filesystem::FileSystem;
pub use handshake::{Config, Negotiated};
pub use lock::{FileLock, LockKind};
pub use node::{Caller, Entry, Lookup, ROOT, RenameFlags};
pub use notify::Notifier;
pub use open::{CopyRange, Create, Ioctl, Open, OpenReply, Write};
pub use postponed::Postponed;
pub use request::{
    DecodeError, Forgets, HandleOperation, Init, Operation, Request, XattrOperation,
};
pub use session::{ServeError, Session};
pub use together::CallersProcesses;
