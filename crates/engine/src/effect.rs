//! What the engine answers with: plain data for the shell to carry out, in this order.

use crate::deps::Deps;
use crate::id::{HoldId, Id, TaskId, WaiterId};

/// How a task meets an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// It takes the object's dependencies.
    Observe,
    /// It gives the object its own, and learns nothing of what was there.
    Modify,
    /// Both, as nearly every modification does.
    Both,
}

/// Whether an access may go on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an access that must wait has not happened"]
pub enum Answer {
    /// It has been noted and may happen.
    Go,
    /// It has not been noted. It may be tried again once none of these is undecided; a barrier
    /// tells when. Consent is never among them.
    Wait(Deps),
}

/// What the shell has to do. One event's effects come in the order in which to do them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Let this output out. Each hold is released or dropped exactly once.
    Release(HoldId),
    /// Throw this output away.
    Drop(HoldId),
    /// The wait of this waiter is over. Each waiter is woken exactly once, unless withdrawn.
    Wake {
        /// Who waited.
        waiter: WaiterId,
        /// Whether its node has no such dependency left; not so when the node or the domain ended.
        ok: bool,
    },
    /// All live tasks wait, and only a decision on the consent can end that. Comes once, until
    /// [`Effect::Unstalled`].
    Stalled {
        /// The live tasks, in the order of their ids.
        tasks: Vec<TaskId>,
        /// The consent.
        on: Id,
    },
    /// What [`Effect::Stalled`] said is over.
    Unstalled,
}
