//! What /proc tells of processes and threads (proc(5)), one concept a file.
//!
//! An [`Entry`] is read with functions of this module only. They read files that the kernel fills by itself:
//! others (`cmdline`, `environ`) are in the task's memory, which may have to come from the view.
//!
//! The readers are narrow ones of our own. Names and paths may be any bytes, and each call of a task that is heard
//! may cost a look. The library for this, procfs, fails on names that are not UTF-8, cuts a name off at a colon and a
//! path at a space, and parses all 50 fields of a status into a map of strings to tell one of them.

mod call;
mod entry;
mod ids;
mod layout;
mod limit;
mod link;
mod maps;
mod mounts;
mod name;
mod namespace;
mod opened;
mod stat;
mod state;
mod status;
pub(crate) mod tasks;
mod unix;

pub use call::{Call, Doing, doing};
pub(crate) use entry::or_gone;
pub use entry::{Entry, is_gone};
pub use ids::{Ids, ids};
pub use layout::{Layout, layout};
pub use limit::hard_limit;
pub use link::{Link, each_link};
pub use maps::{Map, Maps};
pub use mounts::{Mount, MountError};
pub use name::name;
pub use namespace::namespace;
pub use opened::{Opened, opened};
pub use stat::Stat;
pub use state::state;
pub use status::Status;
pub use tasks::{Task, children, processes, tasks, threads};
pub use unix::{UnixSocket, unix_sockets};
