//! What control hears while the command runs.

use std::collections::BTreeMap;

use rustix::process::Signal;
use surmise_kept::Answer;
use surmise_kept::doorway::Wish;
use surmise_outbox::Sender;

use super::super::stopped::StoppedRole;
use crate::consent::Wait;
use crate::message::Delivery;
use crate::roles::committer::Outcome;

/// What control hears. `V`: another command of the user, which has come by the doorway.
#[derive(Debug)]
pub(in super::super) enum Event<V> {
    /// A signal of the caller, to be passed on.
    Signal(Signal),
    /// The command is about to start.
    Started,
    /// One of the other roles has ended first.
    Died(Role),
    /// pid 1 or the view has carried out an order, or not.
    Done(Result<(), String>),
    /// The person has answered what was asked last.
    Answered(Answer),
    /// Another command of the user wants something.
    Visit {
        visitor: V,
        wish: Wish,
    },
    Terminal(TerminalEvent),
    Boundary(BoundaryEvent),
    Commit(CommitEvent),
}

/// Without whom the domain ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Role {
    View,
    Relay,
    Supervisor,
}

/// Of the terminal, and of a command that stops and goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum TerminalEvent {
    /// A signal has stopped the command.
    CommandStopped(Signal),
    /// Control was to stop by `signal`. `truly`: whether it did.
    WentOn { signal: Signal, truly: bool },
    /// Somebody lets control go on, which may not have been stopped.
    Continued,
    /// The relay process has paused the terminal.
    Paused,
    /// It lets the terminal go on. `engaged`: whether its keys go to the domain.
    Resumed { engaged: bool },
    /// The terminal's keys go to the domain from now on.
    Engaged,
}

/// Of what crosses the boundary.
#[derive(Clone, Debug)]
pub(in super::super) enum BoundaryEvent {
    /// The relay process has let go of the caller's streams.
    Detached,
    /// A task wants to reach a host that only the person can allow, and waits.
    Asked {
        question: u64,
        peer: String,
        sender: Option<Sender>,
        is_person_there: bool,
    },
    /// Something of this hold waits for the person from this place in the causal order on.
    Held { hold: u64 },
    /// Nothing of it waits any more.
    Gone { hold: u64 },
    /// A task has sent something that is held, and probably waits for a reply.
    Waiting {
        hold: u64,
        peer: String,
        sender: Option<Sender>,
        bytes: u64,
        /// Its socket; 0 if unknown.
        inode: u64,
    },
    /// It waits no more.
    Settled { hold: u64 },
    /// Output could not be kept, and its connection was reset.
    NotKept { peer: String, error: String },
    /// What each task waits for.
    Tasks {
        waits: BTreeMap<u64, Wait>,
        is_person_there: bool,
    },
}

/// Of a commit of the running domain.
#[derive(Clone, Debug)]
pub(in super::super) enum CommitEvent {
    /// The tasks stand still; or they do not, and the command that wanted that was told why.
    Frozen(bool),
    /// The relay: all that was sent is in the outbox. pid 1: all that was written is the view's. The
    /// view: it is prepared, or rebased.
    Finished,
    /// It could not be done.
    Failed(String),
    /// The committer is at work, or is not.
    Started(Result<(), Unstarted>),
    /// The committer has said something; `None`: it has ended.
    Committer(Option<Outcome>),
    /// The relay: a part of what goes out is noted.
    Noted,
    /// The relay: what goes out is chosen.
    Releasing,
    /// The relay: what went out, and what did not.
    Released(Delivery),
    /// A role that it may wait for is stopped.
    RoleStopped(StoppedRole),
}

/// Why there is no committer.
#[derive(Clone, Debug)]
pub(in super::super) enum Unstarted {
    /// The tasks have not stood still until the view did.
    TooEarly,
    /// There could be no process.
    Failed(String),
}
