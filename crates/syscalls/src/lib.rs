//! Every x86-64 system call of Linux 6.18 as one row of data.
//!
//! A [`Row`] says what a call is (number, [`Syscall`], argument [`Shape`]s) and what happens to it while
//! something is undecided: one [`Disposition`] for each [`Kind`] of assumption, the [`Handler`]
//! that serves it, and why. Where the answer depends on an argument, the row carries
//! [`Exception`]s. This crate decides nothing by itself: the filter, the supervisor and
//! `surmise syscalls` all read the same rows.
//!
//! # What the columns mean
//!
//! * **consent**: nobody inside can end a wait, so a call is contained (Allow), held, or refused.
//! * **prediction**: decided soon. What a checkpoint restores is Allow; what observes or modifies
//!   an object is Track; what leaves is Hold; everything hard is Wait, which is always correct.
//! * **epoch**: a watermark over one volume. Whatever leaves waits for all that was modified
//!   before it, whoever modified it; so observing needs no tracking and is Allow. A modification,
//!   or a request for durability, is Track; output is Hold; what shows state outside by a way
//!   that cannot be held is Wait, and starts the commit.
//!
//! ```
//! use surmise_syscalls::{Disposition, Errno, Kind, Syscall, row_of};
//!
//! let mount = row_of(Syscall::Mount);
//! assert_eq!(mount.number(), 165);
//! assert_eq!(mount.disposition(Kind::Consent), Disposition::Refuse(Errno::Perm));
//! ```
#![forbid(unsafe_code)]

mod by_name;
mod disposition;
mod errno;
mod handler;
mod reach;
mod row;
mod shape;
mod syscall;
mod table;

pub use by_name::ByName;
pub use disposition::{Disposition, Kind, disposition_of_unknown};
pub use errno::Errno;
pub use handler::Handler;
pub use reach::Reach;
pub use row::{Exception, Row};
pub use shape::Shape;
pub use syscall::Syscall;
pub use table::{row_named, row_numbered, row_of, rows};
