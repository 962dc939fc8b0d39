//! The door for programs: start domains, look at what they did, decide.
//!
//! The `surmise` command is written on this crate, and other Rust programs can be, too. Programs in other
//! languages speak the [`protocol`] with `surmise api`, which is [`server`] here. Nobody has to read text back:
//! results are plain data ([`results`]), and every error has a code ([`Explained`]).
//!
//! * [`Surmise`] is a state root: it lists domains, opens them, and runs commands in new ones.
//! * [`Domain`] is one domain: what it did, and the decisions about it.
//! * [`Surmise::start`] runs a command in a process of its own and tells what happens meanwhile ([`Event`]).
//! * [`Client`] does all of it from a program that has threads, by the protocol.
//!
//! # One thread
//!
//! A domain's processes are copies of the process that starts it. So [`Surmise::run`], [`Surmise::shell`] and
//! [`Surmise::start`] need a caller that has one thread, and say so otherwise ([`RunError::Threads`]). A program
//! that has more uses [`Client`].
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use surmise_api::{Launch, Streams, Surmise, Then};
//!
//! let surmise = Surmise::locate()?;
//! let launch = Launch {
//!     command: vec!["make".into(), "install".into()],
//!     directory: std::env::current_dir()?,
//!     ..Launch::default()
//! };
//! let mut running = surmise.start(&launch, Then::Keep, Streams::default(), false)?;
//! while let Some(event) = running.next_event()? {
//!     println!("{event:?}");
//! }
//! let result = running.result()?.map_err(|failed| failed.error)?;
//! let domain = surmise.domain(&result.name)?;
//! for change in &domain.changes()? {
//!     println!("{:?} {}", change.kind, change.path.display());
//! }
//! domain.abort()?;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod child;
mod client;
mod contents;
mod domain;
mod error;
mod event;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod interrupt;
mod launch;
mod pending;
pub mod protocol;
pub mod quote;
pub mod results;
mod running;
pub mod server;
mod settle;
mod supervised;
mod surmise;
mod synchrony;
mod text;
mod through;

pub use client::{Client, ClientError, Heard};
pub use contents::Contents;
pub use domain::{Domain, Salvaged};
pub use error::Explained;
pub use event::{Event, Stream};
pub use interrupt::Interrupts;
pub use launch::{Files, Launch, RunError};
pub use pending::Pending;
pub use running::{Redirect, Running, Streams};
pub use settle::{SettleError, Settled, Then, keep};
pub use surmise::{Outcome, Surmise};
pub use surmise_changes::{Change, ChangeKind, Changes};
pub use surmise_commit::{Activity, Choice, CommitError, OnProgress, Progress, Terms, Winner};
pub use surmise_diff::{Diff, Note, Row};
pub use surmise_kept::{
    Aborted, After, Answer, Boundary, Committed, DecideError, Exit, Maker, Native, Notice,
    OnOutput, Peer, Policy, ReadChanged, Record, Resend, Rule, Sender, StateError, Status, Target,
    Verdict, Watched,
};
pub use surmise_launch::Through;
pub use surmise_launch::{
    LaunchError, Lingering, LostStream, Messages, Person, Question, RefusalKind, Refusals,
    RefusedInside, can_gate, check_outside,
};
pub use surmise_supervisor::{Effort, Guessing, Right, Stats as SpeculationStats, Torture};
pub use surmise_sync::{
    Commits, Counted, Guarantee, HoldTimes, Promise, Reason, Stats as SyncStats,
};
pub use synchrony::{Elsewhere, PrivateVolume, Synchronous, Synchrony, SynchronyError};
pub use text::Text;
pub use through::{ThroughError, pass_through};
