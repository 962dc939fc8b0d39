//! The changes of a view, shown to a person who decides about them.
//!
//! [`Diff`] is the list: every change with its notes, what it means for who may do what. A [`Row`] is shown
//! as one line; [`write_patch`] writes what `git apply` takes.
#![forbid(unsafe_code)]

mod diff;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod line;
mod notes;
mod patch;

pub use diff::{Diff, Row};
pub use line::shown;
pub use notes::{Note, Special};
pub use patch::{LeftOut, LeftOutReason, PatchError, PatchSource, write_patch};
