//! The changes of a view made real. [`commit`] makes the real tree what the view shows, in three parts:
//!
//! 1. **check**: every name and inode that the domain changed must still be as it was when the
//!    domain first used it, and the user must be able to make the changes. All conflicts are
//!    reported at once; nothing is touched. What the domain merely read is compared, too: a difference
//!    is told, or a conflict, by the [`Terms`].
//! 2. **stage**: what is new is put beside its target, complete and durable, under temporary names
//!    that begin with `.surmise-`, and what will be overwritten is kept. Any failure takes it all
//!    away again.
//! 3. **apply**: the journal says that it begins, and then names are moved, files that keep
//!    their inode are written, what goes is removed, and directories get their modes and times.
//!
//! A kill or a power loss at any moment leaves a journal from which [`resume`] finishes the commit
//! or, before its first visible change, takes it back. [`undo`] takes it back also after that, until
//! the commit has begun to remove what was there before: so far names have only moved, and what was
//! overwritten is kept in pre-images. Nothing here follows a symbolic link, and
//! nothing resolves a path twice: all work is done below descriptors of directories whose inodes
//! were compared.
//!
//! # A domain that goes on
//!
//! A domain may run while it is committed, as long as its tasks stand still and its view is prepared
//! ([`surmise_view::View::prepare_commit`]): then neither the log nor an object changes. The order is
//! prepare, [`commit`], rebase, [`forget`], go on. A kill leaves one of these, and nothing was changed
//! inside since the commit, for the view lets no change through before it goes on:
//!
//! | journal | log | what finishes it |
//! |---|---|---|
//! | none, or before apply began | all changes | [`resume`] takes it back; the domain is kept |
//! | apply began | all changes | [`resume`], then the domain can go |
//! | [`Phase::Done`] | all changes, or rebased | [`resume`] says so again, then the domain can go |
//! | none | rebased | nothing: a domain without changes |
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::ops::ControlFlow;
//! use std::path::Path;
//! use surmise_commit::{Request, commit};
//!
//! let directory = Path::new("/home/u/.local/state/surmise/t");
//! let map = surmise_view::load(directory)?;
//! let request = Request {
//!     name: "t",
//!     directory,
//!     map: &map,
//!     root: Path::new("/"),
//!     keep: directory.parent(),
//! };
//! let report = commit(&request, &mut |_| ControlFlow::Continue(()))?;
//! assert!(report.left.is_empty());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod apply;
mod check;
mod choice;
mod commit;
mod copy;
#[cfg(test)]
mod decisions;
mod devices;
mod error;
mod examine;
mod flagged;
mod flush;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod journal;
mod kept;
mod locate;
mod metadata;
mod objects;
mod opening;
mod outside;
mod plan;
mod preimage;
mod reads;
mod rename;
mod report;
mod resume;
mod revert;
mod rights;
mod settle;
#[cfg(test)]
mod site;
mod stage;
mod steps;
mod trial;
mod undo;

pub use choice::{Choice, Winner};
pub use commit::{Request, check, check_notes, check_on, commit, commit_on};
pub use error::{CommitError, Conflict, ConflictKind, Obstacle, ObstacleKind};
pub use journal::{ForgetError, JournalError, Phase, forget, pending};
pub use kept::finish_kept;
pub use reads::Terms;
pub use report::{Activity, Kept, Leftover, Progress, Reason, Report};
pub use resume::{Resumed, resume, undo};
pub use steps::OnProgress;
