//! The changes of a view, shown to a person who decides about them.
//!
//! [`Diff`] is the list: a [`Row`] for each change, with its notes, what the change means for who may do what.
//! A [`Form`](forms::Form) writes it: as lines, as a patch, in short. A new form is a file in `forms/` and an
//! entry in the list [`FORMS`](forms::FORMS).
#![forbid(unsafe_code)]

mod count;
mod diff;
pub mod forms;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod held;
mod line;
mod notes;
mod quote;

pub use count::count;
pub use diff::{Diff, Row};
pub use held::Held;
pub use notes::{Note, Special};
pub use quote::{plain, shown};
