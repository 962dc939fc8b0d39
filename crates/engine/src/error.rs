//! Events that the engine refuses. A refused event has changed nothing and has no effects.
//!
//! Two refusals are of what a program may cause, and a shell expects them where it tells such an event:
//! [`EngineError::OwnerSpeculates`], of a task that decides too early, and [`EngineError::RollingBack`],
//! while a plan is left to be carried out. Any other refusal says that the shell's books and the engine's
//! differ, which only a bug can cause: [`EngineError::bug`] says so in one way everywhere.

use std::panic::Location;

use thiserror::Error;

use crate::id::{ChannelId, CkptId, GroupId, HoldId, Id, Node, PlanId, TaskId, UndoId, WaiterId};
use crate::kind::{Kind, Owner};

/// Why an event was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EngineError {
    /// No live task has this id.
    #[error("there is no {0}")]
    UnknownTask(TaskId),
    /// A live task has this id, or one that a plan ends which is not yet carried out.
    #[error("{0} is alive already")]
    TaskExists(TaskId),
    /// No live task's group has this id.
    #[error("there is no {0}")]
    UnknownGroup(GroupId),
    /// A checkpoint that may be restored has this id.
    #[error("{0} exists already")]
    CheckpointExists(CkptId),
    /// An undo record that may be applied has this id.
    #[error("{0} exists already")]
    UndoExists(UndoId),
    /// No plan that is not yet carried out has this id.
    #[error("there is no {0} to be carried out")]
    UnknownPlan(PlanId),
    /// The task or object is rolled back by this plan, which is not yet carried out. The event of a
    /// task that is restored or destroyed has never happened; that of another may be tried again
    /// after [`Engine::rolled_back`](crate::Engine).
    #[error("{node} is being rolled back by {plan}")]
    RollingBack {
        /// The task or object.
        node: Node,
        /// The newest plan that concerns it.
        plan: PlanId,
    },
    /// What an undone task would have affirmed cannot be taken back, so it first waits, at a barrier.
    #[error("{owner} cannot affirm {id} while it depends on predictions itself")]
    OwnerSpeculates {
        /// The assumption.
        id: Id,
        /// Whom it is to be decided by.
        owner: TaskId,
    },
    /// No channel has this id.
    #[error("there is no {0}")]
    UnknownChannel(ChannelId),
    /// A channel has this id.
    #[error("{0} exists already")]
    ChannelExists(ChannelId),
    /// What the channel holds would be forgotten with it.
    #[error("{0} holds output")]
    ChannelHolds(ChannelId),
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
    /// If durability fails, the domain stops.
    #[error("{0} is an epoch and cannot be denied")]
    EpochDenied(Id),
    /// The consent was denied: nothing is assumed any more.
    #[error("the domain is over: its consent was denied")]
    Over,
}

impl EngineError {
    /// The refusal was not to be expected, so it is a bug of Surmise.
    ///
    /// # Panics
    ///
    /// In builds with debug assertions. Otherwise the caller ends what it was doing with this error: the
    /// engine has changed nothing, but nobody knows any more what depends on what.
    #[track_caller]
    pub fn bug(self, while_doing: &'static str) -> Bug {
        let bug = Bug {
            while_doing,
            refused: self,
            place: Location::caller(),
        };
        debug_assert!(false, "{bug}");
        bug
    }
}

/// An event that the engine refused and that no program can cause: a bug of Surmise, with what a report
/// of it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "this is a bug of Surmise: to {while_doing}, it told its engine what cannot be: {refused} \
     ({place}, version {version}); please report this line and what was run",
    version = env!("CARGO_PKG_VERSION")
)]
pub struct Bug {
    while_doing: &'static str,
    refused: EngineError,
    place: &'static Location<'static>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_says_what_to_report() {
        let refused = EngineError::UnknownTask(TaskId(7));
        let told = std::panic::catch_unwind(|| refused.bug("note an exit").to_string());
        let told = match told {
            Ok(error) => error,
            Err(panic) => *panic.downcast::<String>().expect("a message"),
        };
        let (start, end) = ("this is a bug of Surmise: to note an exit", "what was run");
        assert!(told.starts_with(start) && told.ends_with(end), "{told}");
        for part in ["there is no task 7", file!(), env!("CARGO_PKG_VERSION")] {
            assert!(told.contains(part), "{told}");
        }
    }
}
