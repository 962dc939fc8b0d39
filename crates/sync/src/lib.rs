//! What external synchrony rests on (Nightingale et al., *Rethink the Sync*, OSDI 2006): file systems that
//! make changes durable in the order in which they were made.
//!
//! A program that calls fsync(2) may go on at once, if observers outside see nothing of
//! what follows before the change is durable. That takes two things of a file system: one call that makes
//! all changes so far durable, and an order, so that no power loss leaves a later change without the
//! earlier ones. Most file systems do not keep the order: they write a file's data when they like.
//!
//! A [`Driver`] is a way in which one kind of file system keeps both. [`driver_of`] finds the one for a
//! directory, and tells why there is none. A [`Volume`](volume) is a file system in a file that has one,
//! wherever root can mount it.
#![forbid(unsafe_code)]

mod adaptive;
mod committer;
mod descriptors;
mod driver;
mod drivers;
mod epochs;
mod hazards;
mod maps;
mod outlet;
mod places;
mod reasons;
mod sockets;
mod stats;
mod syncer;
mod tally;
mod target;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod volume;
mod wal_index;

pub use driver::{Driver, Guarantee, NoDriver, driver_of};
pub use epochs::{Epoch, Epochs, Promise, Stopped, Trigger};
pub use outlet::{Outlet, PutOff};
pub use reasons::{Counted, Reason, Reasons};
pub use stats::{Commits, HoldTimes, Stats};
pub use syncer::{Options, Scope, Syncer};
