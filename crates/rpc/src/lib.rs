//! Speculative calls, without a transport: a pure state machine.
//!
//! A call's result can often be predicted. Then what follows the call may run at once, in a
//! **branch**, with the predicted value; when the actual value comes, the branch that had it goes on
//! as if nothing had happened, and the others have never been. A branch may make calls, with
//! branches of their own, so a chain of dependent calls overlaps.
//!
//! A shell tells a [`Tree`] what happened (a call was made, predicted or answered, a branch came to
//! its end) and carries out the [`Effect`]s that it answers with, in their order. The tree knows no
//! bytes, clock, threads or connections. The same events give the same effects, always. There is a
//! tree for each root: a program, or a handler that serves one call. What a handler rests on of
//! other machines is one bit, [`Caller`], decided by [`Tree::commit`] or [`Tree::abort`].
//!
//! # What it promises
//!
//! *Results, errors and effects that stay are those of a run without predictions*, whatever was
//! predicted and in whatever order answers come, if methods are as safe as they are said to be and
//! a branch changes nothing but what it has registered a rollback for.
//!
//! * A branch that is discarded leaves nothing: its [`Effect::Rollback`]s come newest first, inner
//!   branches' before outer ones', and before anything that another branch had put off.
//! * No [`Safety::Unsafe`] call is sent for a scope that rests on an undecided prediction. No
//!   [`Effect::Commit`] is said for one.
//! * A scope is *correct* when all that it rests on is affirmed, and stays so. What it had put off
//!   then happens in the order of the program.
//! * Where calls are to be answered in [`Order`], no branch keeps an answer that is older than one
//!   that it rests on.
//!
//! # Structure
//!
//! Speculation is structured concurrency: a branch ends before its call does, and what it leaves open then belongs to its
//! call's scope. So dependencies are the tree itself and have no names on the wire. A branch that has been
//! affirmed and has finished becomes part of its call's scope, so a tree is as large as what is open
//! or undecided in it, however many calls were made.
//!
//! # Cost
//!
//! In a correct scope, calls and answers cost O(log n + o) with `n` open calls, `o` of them the
//! scope's. In one that speculates, they also walk up to the first correct scope, at most as deep as
//! [`Limits`] say. Confirming or discarding costs a constant for each thing put off or undone.
//!
//! ```
//! use surmise_rpc::*;
//!
//! let mut tree = Tree::new(Caller::Correct, Limits::default());
//! let mut effects = Vec::new();
//! let read = Request { safety: Safety::Safe, ..Request::default() };
//! let first = tree.call(ScopeId::ROOT, read, &mut effects)?;
//!
//! // What follows it runs ahead with a predicted value, and writes; which has to wait.
//! let branch = tree.predict(first)?.expect("nothing else is open");
//! effects.clear();
//! let write = tree.call(branch, Request::default(), &mut effects)?;
//! assert_eq!(effects, []);
//!
//! // The prediction was right.
//! tree.answer(first, Verdict::Affirms(branch), None, &mut effects)?;
//! assert!(matches!(effects[..], [Effect::Send { call, speculative: false, .. }] if call == write));
//! # Ok::<(), TreeError>(())
//! ```
#![forbid(unsafe_code)]

mod budget;
mod comparison;
mod effect;
mod error;
mod id;
mod node;
mod offer;
mod replies;
mod safety;
mod stamp;
mod tree;
mod waste;

pub use budget::{Budget, Limits};
pub use comparison::{Predictions, Verdict};
pub use effect::{Caller, Effect, Request, Standing};
pub use error::TreeError;
pub use id::{CallId, RollbackId, ScopeId, WaiterId};
pub use offer::{Decision, Heard, Offer};
pub use replies::{Frame, PREDICTIONS_MAX, Received, Reply, ReplyError, Sent};
pub use safety::{Peer, Safety};
pub use stamp::{Order, Stamp};
pub use tree::Tree;
pub use waste::{Account, Waste};
