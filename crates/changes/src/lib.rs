//! The set of changes of a view: which names and inodes differ from what is really there.
//!
//! The view's [`Map`](surmise_view::Map) says of each directory which names the domain bound or removed.
//! [`Names`] turns that around: which names lead to a node, which real names an inode loses, and which lost
//! and gained names are one move. [`Changes`] is the list that comes of it, a [`Change`] for each name. A
//! person may decide that some are left out, or that something outside is taken for what the domain found:
//! [`Settled`].
//!
//! This crate neither shows the changes (`surmise-diff`) nor makes them real (`surmise-commit`). Both of
//! those compare them with what is outside now, which they look at through [`real`].
#![forbid(unsafe_code)]

mod changes;
mod names;
pub mod real;
mod settled;

pub use changes::{Change, ChangeKind, Changes};
pub use names::{Entry, Name, Names, depth};
pub use settled::Settled;
