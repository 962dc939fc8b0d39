//! The one supervisor of a domain: hears the calls of its tasks, and answers them.
//!
//! A [`Supervisor`] is made of [`Parts`]: *sources* of guesses, what orders durability, what counts refusals. The parts
//! differ from domain to domain; the event loop is one. The filter that decides which calls are heard is made from the
//! same parts and the table ([`surmise_syscalls`]).
//!
//! | place | holds |
//! |---|---|
//! | `supervisor` | the event loop |
//! | `core` | events to the engine, and the engine's effects carried out in its order |
//! | `sources` | where guesses come from, one file each |
//! | `objects` | the kinds of object that tasks meet, one file each |
//! | `durability` | calls that wait for an epoch |
//! | `waits` | calls and signals that wait on a barrier |
//! | `machine` | the kernel: the listener, ptrace, /proc |
//! | `world` | what `core` needs of a machine, so that tests can fake one |
//!
//! A call that must wait is parked on a barrier of the engine's, and is attended to again when the engine wakes it. Nobody
//! decides a prediction but the source that made it; a source may be asked to hurry.
#![forbid(unsafe_code)]

mod call;
mod core;
mod counters;
mod durability;
mod error;
mod filter;
mod kind;
mod machine;
mod map;
mod master;
mod meeting;
mod member;
mod object;
mod objects;
mod source;
mod sources;
mod stats;
mod supervisor;
mod waits;
mod world;

pub use durability::{Durability, Verdict};
pub use error::SupervisorError;
pub use filter::{Interests, Reach};
pub use machine::Inside;
pub use master::{Master, Wish};
pub use objects::files::{End, Files, Look, Manner, Share, Target, Touches};
pub use sources::Guessing;
pub use sources::right::Options as Right;
pub use sources::torture::Options as Torture;
pub use stats::{Call, Effort, Stats};
pub use supervisor::{Parts, Supervisor};
