//! Helpers that every integration test of Surmise shares.
//!
//! A test makes a [`Scratch`] tree, takes a [`TreeSnapshot`] of it, runs the built command through
//! [`Run`], and compares:
//!
//! ```no_run
//! use surmise_testkit::{Facets, Run, Scratch, TreeSnapshot, assert_same_tree};
//!
//! let scratch = Scratch::new();
//! scratch.file("b", "old");
//! let before = TreeSnapshot::of(scratch.work());
//! Run::surmise(&scratch, ["run", "--dry-run", "--", "rm", "b"]).outcome().assert_success();
//! assert_same_tree(&before, &TreeSnapshot::of(scratch.work()), Facets::EXACT);
//! ```
//!
//! Everything here panics on failure: a helper of a test that cannot do its work fails the test.
//! Waits are bounded ([`watchdog`]), and only processes that a test started are ever ended.
#![forbid(unsafe_code)]

mod binary;
mod block_log;
mod compare;
pub mod delayed_disk;
mod dialogues;
mod disk;
mod facets;
mod mutations;
mod ordinary;
mod outcome;
mod run;
mod scratch;
mod skip;
mod snapshot;
mod standing;
mod terminal;
mod tmux;
mod user;
pub mod watchdog;

pub use binary::{copied_binary, surmise_binary};
pub use block_log::{BlockLog, PowerLoss};
pub use compare::{assert_same_tree, differences};
pub use delayed_disk::DelayedDisk;
pub use dialogues::assert_held;
pub use disk::Mounted;
pub use facets::Facets;
pub use mutations::mutations;
pub use ordinary::become_ordinary_user;
pub use outcome::Outcome;
pub use run::Run;
pub use scratch::Scratch;
pub use skip::{is_installed, is_root, skip, tell};
pub use snapshot::{Entry, Kind, TreeSnapshot};
pub use terminal::Act;
pub use tmux::Tmux;
pub use user::{User, ordinary_user};
