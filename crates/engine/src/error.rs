//! Events that the engine refuses. A refused event has changed nothing and has no effects.

use thiserror::Error;

use crate::id::{ChannelId, HoldId, Id, Node, ObjectId, TaskId, WaiterId};
use crate::kind::{Kind, Owner};

/// Why an event was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EngineError {
    /// No live task has this id.
    #[error("there is no {0}")]
    UnknownTask(TaskId),
    /// A live task has this id.
    #[error("{0} is alive already")]
    TaskExists(TaskId),
    /// No channel has this id.
    #[error("there is no {0}")]
    UnknownChannel(ChannelId),
    /// No channel with this id takes output.
    #[error("there is no open {0}")]
    NotOpen(ChannelId),
    /// A channel has this id, perhaps a closed one with held output.
    #[error("{0} exists already")]
    ChannelExists(ChannelId),
    /// A held output has this id.
    #[error("{0} is held already")]
    HoldExists(HoldId),
    /// A pending barrier has this waiter.
    #[error("{0} waits already")]
    WaiterExists(WaiterId),
    /// No pending barrier has this waiter.
    #[error("{0} does not wait")]
    UnknownWaiter(WaiterId),
    /// The engine never handed out this id.
    #[error("there is no {0}")]
    UnknownAssumption(Id),
    /// An assumption is decided once.
    #[error("{0} is decided already")]
    AlreadyDecided(Id),
    /// A domain has one undecided consent.
    #[error("{0} is a consent that is undecided")]
    ConsentExists(Id),
    /// There is no undecided consent that a task could wait for.
    #[error("{0} cannot wait for consent: none is undecided")]
    NoConsent(Node),
    /// A person decides consents, and only consents.
    #[error("{kind} is not {owner}'s to decide")]
    WrongOwner {
        /// What was to be assumed.
        kind: Kind,
        /// Who was to decide it.
        owner: Owner,
    },
    /// Nobody inside a domain can end a wait for its consent.
    #[error("{0} would wait for consent, inside the domain that it is about")]
    WaitsForConsent(Node),
    /// Output never runs ahead of a prediction or an epoch.
    #[error("{0} would run ahead of predictions or epochs")]
    RunsAhead(ChannelId),
    /// The object depends, or would, on an assumption of a kind that it cannot carry.
    #[error("{object} cannot carry a dependency on {id}")]
    CannotCarry {
        /// The object.
        object: ObjectId,
        /// The assumption.
        id: Id,
    },
    /// If durability fails, the domain stops.
    #[error("{0} is an epoch and cannot be denied")]
    EpochDenied(Id),
    /// Denying a prediction takes the rollback of all that depends on it, which this engine does
    /// not plan. The prediction stays undecided.
    #[error("{0} is a prediction, and rollback is not supported")]
    Unsupported(Id),
    /// The consent was denied: nothing is assumed any more.
    #[error("the domain is over: its consent was denied")]
    Over,
}
