//! What depends on what in a domain, and what follows from a decision: a pure state machine.
//!
//! A shell tells an [`Engine`] what happened (a task was spawned, an object accessed, output
//! produced, an assumption decided) and carries out the [`Effect`]s that it answers with. The
//! engine knows no bytes, clock, threads or kernel handles: everything is an opaque number that
//! the shell chose, except assumptions, whose [`Id`]s the engine hands out. The same events give
//! the same effects, always.
//!
//! # Dependencies
//!
//! * **Consent** is the domain's: while it is undecided every task and every object depends on
//!   it. So it is stored once, and never with a node.
//! * **Predictions** spread by access: who modifies an object gives it its dependencies, who
//!   observes one takes them, and a child starts with its parent's.
//! * **Epochs** spread alike, but of each volume only the newest counts: whoever depends on an
//!   epoch depends on all earlier ones of its volume.
//!
//! An assumption that has been affirmed is nobody's dependency any more. Nothing walks over the
//! nodes when that happens: ids are never used twice, so a decided id means nothing wherever it
//! is still written.
//!
//! # Output
//!
//! A channel across the boundary is opened with the kinds of assumption that gate it. An output
//! depends on what its producer depended on at that moment. It is released when all of that which
//! is of a gating kind is affirmed and everything before it on its channel has been released;
//! outputs released by one event are released in the order in which they arrived.
//!
//! # Cost
//!
//! With `e` extents in a dependency set (one, unless undecided predictions come from several
//! owners in turns), `u` undecided assumptions, `w` watchers of one assumption and `h` held
//! outputs: spawn, access and output cost O(e log u); a decision costs O(log u) and O(e log u +
//! log w + log h) for each output that it releases and each channel or barrier that waited for it.
//! An output is looked at only when it comes to the head of its channel, and then once for each
//! assumption that it is found to wait for. Whether the domain has stalled costs O(1) while any
//! task is runnable or waits for something outside, and one walk over the waiting nodes otherwise.
//!
//! ```
//! use surmise_engine::{ChannelId, Decision, Effect, Engine, HoldId, Kind, Kinds, Node, Owner, TaskId};
//!
//! let (mut engine, mut effects) = (Engine::new(), Vec::new());
//! let consent = engine.assume(Owner::Person, Kind::Consent)?;
//! engine.spawn(None, TaskId(1), &mut effects)?;
//! engine.open(ChannelId(7), Kinds::ALL)?;
//!
//! engine.output(Node::Task(TaskId(1)), ChannelId(7), HoldId(1), &mut effects)?;
//! assert_eq!(effects, []);
//! engine.decide(consent, Decision::Affirm, &mut effects)?;
//! assert_eq!(effects, [Effect::Release(HoldId(1))]);
//! # Ok::<(), surmise_engine::EngineError>(())
//! ```
#![forbid(unsafe_code)]

mod assumptions;
mod barriers;
mod blocking;
mod deps;
mod effect;
mod engine;
mod error;
mod extents;
mod id;
mod kind;
mod nodes;
mod outputs;
mod stall;

pub use blocking::On;
pub use deps::Deps;
pub use effect::{Access, Answer, Effect};
pub use engine::Engine;
pub use error::EngineError;
pub use extents::{Extent, Extents};
pub use id::{ChannelId, HoldId, Id, Node, ObjectId, TaskId, Volume, WaiterId};
pub use kind::{Decision, Kind, Kinds, Owner};
