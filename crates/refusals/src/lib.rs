//! What the boundary of a domain refused: who tried what, how often, and which option allows it.
//!
//! A program that is refused something sees an error number and tells its user about the network, or
//! nothing at all. Surmise knows better, and says so once, when the command has ended.
//!
//! * [`Tally`] counts: each kind of attempt, target and program is one [`Refusal`].
//! * [`Observer`] looks at calls that a filter with a listener hears: it answers those that the table
//!   refuses, as the filter would have, and finds out of those that are allowed whether they are about
//!   to fail for what is outside.
//!
//! An observer decides nothing. What it cannot find out it does not tell.
#![forbid(unsafe_code)]

mod address;
mod fifos;
mod observer;
mod refusal;
mod tally;
mod task;

pub use address::Address;
pub use fifos::Fifos;
pub use observer::{Boundary, Caught, Observer, Sockets};
pub use refusal::{Kind, Refusal, Refusals};
pub use tally::Tally;
