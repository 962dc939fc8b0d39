//! What depends on what in a domain, and what follows from a decision: a pure state machine.
//!
//! A shell tells an [`Engine`] what happened (a task was spawned, an object accessed, output
//! produced, an assumption decided) and carries out the [`Effect`]s that it answers with. The
//! engine knows no bytes, clock, threads or kernel handles: everything is an opaque number that
//! the shell chose, except assumptions, groups and plans, whose ids the engine hands out. The same
//! events give the same effects, always. Effects are carried out in the order in which they come,
//! one event's before the next one's.
//!
//! # Dependencies
//!
//! * **Consent** is the domain's: while it is undecided every task and every object depends on
//!   it. So it is stored once, and never with a node.
//! * **Predictions** spread by access. A task that modifies an object gives the object its own dependencies. A task
//!   that observes an object takes the object's. A child starts with its parent's. A task's life with all its memory
//!   is its **group**: groups are checkpointed, restored or destroyed. Tasks that share memory have one group
//!   ([`Engine::merge`]).
//! * Modifications may **commute**, as two creates in one directory do ([`Access::Commute`]). Their tasks do not
//!   depend on each other. Who observes the object, or modifies it otherwise, depends on all of them; who commutes
//!   later depends on all that had an order before.
//! * **Epochs** spread alike, but of each volume only the newest counts: a dependent of an
//!   epoch depends on all earlier epochs of its volume.
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
//! # Predictions, checkpoints and undo logs
//!
//! A group comes to depend on a prediction because its task is given a guessed result
//! ([`Engine::predict`]), takes it from an object ([`Engine::access`]) or is named
//! ([`Engine::depend`]). Each of these may answer that a checkpoint is needed first: then the shell
//! takes one, says [`Engine::checkpointed`] and repeats the event. While it depends on predictions,
//! each of its modifications comes with an inverse record, kept in the object's undo log.
//!
//! Several predictions may share a checkpoint as long as others have seen nothing of what the group does. An object that the
//! group alone has met comes to depend on the later predictions as well. Once others have seen something, restoring that
//! checkpoint would undo what was seen, so the next prediction
//! needs a new one. The engine insists on that whatever the shell says. It makes rollback exact:
//! *what depends on a denied prediction is undone, nothing else is, and nobody has seen any of it
//! without depending on it, too.*
//!
//! When a prediction is denied, the engine puts its own books in order at once, drops the output
//! that depends on it, withdraws the predictions that undone code had made, and hands out a
//! [`Plan`]. Until the shell has said [`Engine::rolled_back`], the groups and objects of the plan
//! take no events. Owners may go on deciding meanwhile, also what was withdrawn.
//!
//! A checkpoint is discarded as soon as no undecided prediction would restore it, an undo record
//! as soon as nothing can undo it.
//!
//! Where a prediction's owner is a task, the owner may wait for tasks that wait for the prediction. Then the
//! engine itself denies the prediction ([`Effect::DeniedForCycle`]), which is always safe.
//!
//! # Waiting
//!
//! A call that may not meet undecided state waits at a barrier ([`Engine::barrier`]). A task that depends
//! on predictions waits for itself; a bystander waits for the object that it would touch. A rollback ends
//! the waits of its tasks, and never those of its objects: these go on until the object is free *and* the
//! plan is carried out. A waiter for durability waits for the epochs that the object depends on when the wait begins.
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
//! Cycles cost such a walk when a wait begins or ends, or what waits gains a dependency, while a task that
//! owns a prediction waits or has ended.
//!
//! A denial costs O(log u) for each act that it undoes, for each modification that commutes with one of these and
//! came after it, and for each group that came to depend on something by way of an object that it touches. Bystanders and their objects are not looked at.
//! `cargo bench -p surmise-engine` shows it among a thousand objects and a million.
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
//!
//! ```
//! use surmise_engine::*;
//!
//! let (mut engine, mut effects) = (Engine::new(), Vec::new());
//! let (task, file) = (TaskId(1), ObjectId(1));
//! engine.spawn(None, task, &mut effects)?;
//!
//! let Guess::CheckpointFirst(group) = engine.predict(task, Owner::Outside, true, &mut effects)?
//! else { unreachable!("it has none") };
//! engine.checkpointed(group, CkptId(1), &mut effects)?;
//! let Guess::Go(guess) = engine.predict(task, Owner::Outside, true, &mut effects)?
//! else { unreachable!("it has one") };
//! let access = Access::Both(Some(UndoId(1)));
//! assert_eq!(engine.access(task, file, access, &mut effects)?, Answer::Go);
//!
//! engine.decide(guess, Decision::Deny, &mut effects)?;
//! let Some(Effect::Plan(plan)) = effects.pop() else { unreachable!("it is denied") };
//! let restore = Step::Restore { group, to: CkptId(1) };
//! let steps = [Step::Stop(group), Step::Undo(UndoId(1)), restore, Step::Resume(group)];
//! assert_eq!(plan.steps, steps);
//! engine.rolled_back(plan.id, &mut effects)?;
//! # Ok::<(), EngineError>(())
//! ```
#![forbid(unsafe_code)]

mod assumptions;
mod barriers;
mod blocking;
mod cycle;
mod deps;
mod effect;
mod engine;
mod error;
mod extents;
mod groups;
mod id;
mod kind;
mod nodes;
mod objects;
mod outputs;
mod plan;
mod reliance;
mod rollback;
mod stall;
mod timeline;
mod undo;

pub use blocking::On;
pub use deps::Deps;
pub use effect::{Access, Answer, Effect, Guess, Merged};
pub use engine::Engine;
pub use error::{Bug, EngineError};
pub use extents::{Extent, Extents};
pub use id::{
    ChannelId, CkptId, GroupId, HoldId, Id, Node, ObjectId, PlanId, TaskId, UndoId, Volume,
    WaiterId,
};
pub use kind::{Decision, Kind, Kinds, Owner};
pub use plan::{Plan, Step};
