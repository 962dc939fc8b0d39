//! The view: a domain's copy-on-write picture of the whole file system.
//!
//! Three parts. The **name map** ([`Map`]) is the fold of a log of [`Operation`]s and says what every
//! name and inode has become. The **object store** holds the data of files that the domain wrote,
//! one plain file each; of a large file, what it changed. The **lower** side is the real file system,
//! which the view only reads ([`surmise_lower::Lower`]). [`View`] joins them and answers the file-system calls; [`serve`] speaks
//! FUSE for it.
//!
//! Owners, modes, links, directories and nodes live in the log alone, so an ordinary user's view can
//! hold what that user could not create, and a state directory holds nothing set-uid.
#![forbid(unsafe_code)]

mod borrowed;
mod codec;
mod copies;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod kernel;
mod known;
mod listed;
mod listers;
mod map;
mod reads;
mod record;
mod shell;
mod store;
mod types;
mod view;
mod watch;

pub use borrowed::{Borrowed, Run};
pub use codec::Malformed;
pub use kernel::{Notifier, Server};
pub use map::{Binding, Inconsistent, Map, Node, Origin, Resolution, Table, Touched};
pub use reads::{Read, ReadsUnknown, load_reads};
pub use record::{Operation, Record};
pub use shell::serve;
pub use store::ObjectStore;
pub use types::{
    Attributes, FileKind, Identity, InodeKey, Lifetime, MarkId, NodeId, ObjectId, Timestamp,
};
pub use view::{
    DirectoryEntry, End, Entry, LoadError, Look, Manner, NewNode, OpenDirectory, OpenHow, Opened,
    RenameMode, Salvaged, SetAttributes, Share, Stale, StaleEntry, Target, Touches, View,
    ViewConfig, Way, load, salvage,
};
