//! What a shell is to do, and what it may ask for.

use crate::budget::Budget;
use crate::id::{CallId, RollbackId, ScopeId, WaiterId};
use crate::safety::{Peer, Safety};
use crate::stamp::Order;

/// One thing to do. Effects are carried out in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send the call's request, for the first time or again after [`Effect::Cancel`].
    Send {
        /// The call.
        call: CallId,
        /// Whether its scope rests on an undecided prediction. If so, an [`Effect::Commit`] or an
        /// [`Effect::Cancel`] will follow, also after the answer.
        speculative: bool,
        /// What the server may open on the caller's behalf, until it has answered.
        budget: Budget,
    },
    /// What a call was sent by is confirmed: tell its server.
    Commit(CallId),
    /// End the call's stream without a commit, if it is still open. Whatever the call did at its
    /// server is undone there.
    Cancel(CallId),
    /// Run what follows the call with its actual value, in this new scope.
    Start {
        /// The call.
        call: CallId,
        /// The scope.
        branch: ScopeId,
    },
    /// What this branch came to, when it finished, is what the call comes to. The branch is part of
    /// the call's scope from now on, with all that is open in it.
    Return {
        /// The call.
        call: CallId,
        /// The branch.
        branch: ScopeId,
        /// The call's scope.
        into: ScopeId,
    },
    /// The call comes to the error that it was answered with.
    Fail(CallId),
    /// The call has never been, as its scope has not: it comes to nothing. Mostly whoever waits for it is about to be
    /// dropped with the scope, but that may be a task of its own.
    Vanish(CallId),
    /// What this branch came to is what the root will come to, if all that it rests on is affirmed:
    /// it is a prediction for the root's caller.
    Foresee(ScopeId),
    /// The barrier is passed.
    Wake(WaiterId),
    /// Undo what a scope did that is about to be discarded.
    Rollback(RollbackId),
    /// What the rollback would have undone stays.
    Forget(RollbackId),
    /// The branch has never been: drop what runs in it, and what it has come to.
    Discard(ScopeId),
}

/// A call as its scope makes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// What the method does.
    pub safety: Safety,
    /// What is known of the server.
    pub peer: Peer,
    /// What the answer has to show.
    pub order: Order,
    /// Whether what the call comes to is what its scope comes to, unchanged.
    pub is_tail: bool,
}

/// What a scope rests on; the states of the paper's Figure 5. The fourth, *speculation incorrect*,
/// is not a state: such a scope is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// The scope was started with a prediction that is undecided.
    CalleeSpeculative,
    /// What the scope was started with is affirmed, what its call was made by is not.
    CallerSpeculative,
    /// Nothing that the scope rests on is undecided. It stays so.
    Correct,
}

/// Who a root works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A program, or a call of a scope that was confirmed.
    Correct,
    /// A call of a scope that speculates: the root is caller-speculative until
    /// [`Tree::commit`](crate::Tree::commit).
    Speculative,
}
