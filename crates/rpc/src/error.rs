//! Events that a tree refuses. A refused event has changed nothing and has no effects.

use thiserror::Error;

use crate::id::{CallId, ScopeId};

/// Why an event was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TreeError {
    /// The scope has never been, was discarded, or is part of its call's scope again. A shell whose
    /// events cross with effects ignores this.
    #[error("there is no {0}")]
    UnknownScope(ScopeId),
    /// The call has never been, was discarded with its scope, or has ended. A shell whose events
    /// cross with effects ignores this.
    #[error("there is no {0}")]
    UnknownCall(CallId),
    /// The call waits until its scope is confirmed, so this is no answer to it.
    #[error("{0} has not been sent")]
    NotSent(CallId),
    /// A call is answered once.
    #[error("{0} has been answered")]
    Answered(CallId),
    /// A verdict names a branch that is not one of the call's predictions.
    #[error("{branch} is no branch of {call}")]
    NoBranchOf {
        /// The call.
        call: CallId,
        /// What was named.
        branch: ScopeId,
    },
    /// A scope finishes once.
    #[error("{0} has finished")]
    Finished(ScopeId),
    /// A root is committed once, and only where its caller speculates.
    #[error("the root is correct already")]
    Committed,
}
