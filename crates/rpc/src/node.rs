//! What a tree is made of: scopes make calls, and calls have branches, which are scopes.

use crate::budget::Budget;
use crate::effect::Request;
use crate::id::{CallId, RollbackId, ScopeId, WaiterId};
use crate::stamp::{Seen, Stamp};

/// A scope: the root, or what follows a call with one value.
#[derive(Debug)]
pub struct Scope {
    /// Whose branch it is; none for the root.
    pub call: Option<CallId>,
    /// Whether what it was started with is undecided.
    pub is_pending: bool,
    /// Whether nothing that it rests on is undecided. Follows from the above; kept so that code that
    /// does not speculate never looks for its ancestors.
    pub is_correct: bool,
    /// Whether it has run to its end, and waits to be affirmed.
    pub is_finished: bool,
    /// What its confirmation or discard concerns, in the order of the program.
    pub acts: Vec<Act>,
    /// Who waits until it is confirmed.
    pub waiters: Vec<WaiterId>,
    /// The answers it has had while anything that it rests on was undecided.
    pub seen: Vec<Seen>,
}

/// What a scope has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Made a call, which is open or for which a commit is due.
    Call(CallId),
    /// Said how to undo something.
    Rollback(RollbackId),
}

impl Scope {
    pub fn new(call: Option<CallId>, is_pending: bool, is_correct: bool) -> Self {
        Self {
            call,
            is_pending,
            is_correct,
            is_finished: false,
            acts: Vec::new(),
            waiters: Vec::new(),
            seen: Vec::new(),
        }
    }
}

/// A call, until what it came to is its scope's and no commit is due for it.
#[derive(Debug)]
pub struct Call {
    /// Whose call it is.
    pub scope: ScopeId,
    pub request: Request,
    pub progress: Progress,
    /// Whether it was sent by a scope that speculated, and no commit has been sent since.
    pub commit_is_due: bool,
    /// The undecided ones, or the one that is affirmed.
    pub branches: Vec<ScopeId>,
    /// Answers, to calls that this one's scope rests on, which came while this one was under way.
    pub must_follow: Vec<Option<Stamp>>,
    /// What its server may open.
    pub lent: Budget,
}

/// How far a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is unsafe, and waits until its scope is confirmed.
    Held,
    /// It has been sent.
    Sent,
    /// It has been answered, and the branch that has the value runs.
    Answered(ScopeId),
    /// What it came to is its scope's. It is still known because a commit is due for it.
    Returned,
}

impl Call {
    pub fn new(scope: ScopeId, request: Request) -> Self {
        Self {
            scope,
            request,
            progress: Progress::Held,
            commit_is_due: false,
            branches: Vec::new(),
            must_follow: Vec::new(),
            lent: Budget::NONE,
        }
    }

    /// Whether its stream has something to end: an answer to come, or a server that would go on
    /// waiting for a commit.
    pub fn is_under_way(&self) -> bool {
        self.progress == Progress::Sent || self.commit_is_due
    }
}
