//! Speculation past predictions: the supervisor of a domain whose tasks go on before it is decided
//! whether a guessed result was right.
//!
//! A domain that speculates has one process that listens: each call that the table's prediction column
//! does not allow waits until the [`Speculator`] has answered it. It is also the only tracer of the
//! domain's tasks, and traces those alone that depend on something undecided.
//!
//! [`Options`] say what it does, [`Stats`] what it did. A torture mispredicts results at random and rolls
//! back: whatever becomes of that, the end must equal a plain run's.
#![forbid(unsafe_code)]

mod admission;
mod bystanders;
mod changing;
mod channels;
mod deciding;
mod door;
mod files;
mod guessing;
mod input;
mod member;
mod names;
mod obstacles;
mod options;
mod outbox;
mod reapers;
mod records;
mod speculator;
mod stats;
mod task;
mod torture;
mod tracked;
mod tracking;

pub use files::Files;
pub use options::{Options, Torture};
pub use speculator::{Master, Speculator, SpeculatorError, Wish};
pub use stats::{Call, Effort, Stats};
