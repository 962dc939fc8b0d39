//! What the roles of one domain tell each other: whole messages over socket pairs.
//!
//! Both ends of a pair are the same program, forked, so the form of a message is no format.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{OwnedFd, RawFd};

use serde::{Deserialize, Serialize};
use surmise_kept::{Exit, Link};
use surmise_network::Verdict;
use surmise_outbox::Sender;
use surmise_refusals::Refusals;
use surmise_sys::seccomp::Listener;

use crate::launch::{Lingering, LostStream};

/// From control to pid 1, and between pid 1 and the command's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// What the other waits for is done (the user namespace has its numbers, the network is there, the
    /// domain is built): go on.
    Go,
    /// Control got this signal: pass it on; if it asks to end, then end.
    Signal(i32),
    /// A command that has stopped goes on.
    Continue {
        /// Whether it may read the keys of the domain's terminal.
        foreground: bool,
    },
    /// Bring all that was written through shared mappings to the view; [`Report::Done`] answers.
    Flush,
    /// Control is about to be another process; [`Report::Done`] answers.
    Adopt,
}

/// From the command's process to pid 1, where somebody hears calls.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Listening {
    /// The number that its listener is about to have. Afterwards it says nothing more: that would be a
    /// tracked call.
    pub(crate) descriptor: RawFd,
}

/// From pid 1 to the relay process, each followed by the descriptor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Handed {
    /// The outer side of the domain's terminal.
    Terminal,
    /// A copy of the listener, the last thing that is handed over.
    Listener(Listened),
    /// A socket for a nameserver inside.
    Nameserver,
    /// A socket by which it is found out whose a socket inside is, and who listens; before the listener.
    Diagnostics,
}

/// What goes with a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listened {
    /// The inode of the domain's network namespace.
    pub(crate) network: u64,
}

/// From control to the view, for a commit of a running domain. [`Report::Done`] or
/// [`Report::NotDone`] answers each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ViewOrder {
    /// Stop all calls, and keep what the commit takes away outside and a task still holds.
    Prepare,
    /// The real tree is what the view shows.
    Rebase,
    /// Let the calls go on.
    GoOn,
    /// The caller goes: let go of its standard error.
    LetGo,
    /// End at once, although calls wait. Nothing answers.
    End,
}

impl ViewOrder {
    /// What it does, for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Prepare => "prepare the view for the commit",
            Self::Rebase => "take the commit into the view",
            Self::GoOn => "let the view go on",
            Self::LetGo => "let go of the caller's streams",
            Self::End => "end",
        }
    }
}

/// From control to the relay process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RelayOrder {
    /// Lines for the caller's standard error.
    Note(String),
    /// Make the terminal the caller's again; [`RelayReport::Paused`] answers.
    PauseTerminal,
    /// Let the terminal go on; with `engage`, its keys go to the domain as soon as the caller is in the
    /// foreground. [`RelayReport::Resumed`] answers.
    ResumeTerminal { engage: bool },
    /// Let go of the caller's streams and hold what comes; [`RelayReport::Detached`] answers.
    Detach,
    /// Take in all that the tasks, which stand still, have sent; [`RelayReport::Quiet`] answers.
    Quiesce,
    /// Send these holds, which the person has agreed to, in this order. In parts, each of which fits a message:
    /// [`RelayReport::Noted`] answers each but the last, [`RelayReport::Releasing`] and [`RelayReport::Released`]
    /// the whole.
    Release { holds: Vec<u64>, is_last: bool },
    /// The person's answer to [`RelayReport::Asked`].
    Answer { question: u64, verdict: Verdict },
    /// The person's decision about the host of a hold.
    Decide { hold: u64, verdict: Verdict },
    /// The domain has ended: pass on what is left, then end.
    Finish,
    /// Make the terminal the caller's again, and end without passing on what is left.
    Abandon,
}

/// From the relay process to control.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum RelayReport {
    /// The relay process could not go on.
    Failed(Failure),
    /// The terminal is the caller's, and what was put out before has appeared.
    Paused,
    /// The terminal goes on.
    Resumed {
        /// Whether its keys go to the domain.
        engaged: bool,
    },
    /// The terminal's keys go to the domain from now on.
    Engaged,
    /// The caller's streams are let go of.
    Detached,
    /// A task wants to reach a host that only the person can allow, and waits.
    Asked {
        question: u64,
        peer: String,
        sender: Option<Process>,
    },
    /// Something of this hold waits for the person, and what it sends first has its place here among all that is held.
    /// For one that waits already, this place replaces the one of before.
    Held { hold: u64 },
    /// Nothing of it waits any more: it was dropped, or cannot be sent, or a decision about its host let it go.
    Gone { hold: u64 },
    /// A task has sent something that is held, and probably waits for a reply.
    Waiting {
        hold: u64,
        peer: String,
        sender: Option<Process>,
        bytes: u64,
        /// Its socket; 0 if unknown.
        inode: u64,
    },
    /// It waits no more.
    Settled { hold: u64 },
    /// What was refused so far that nobody else tells of; the last that it says.
    RefusedInside(Refusals),
    /// Output could not be kept, and its connection was reset.
    NotKept { peer: String, error: String },
    /// What was put out could not be passed on.
    Lost(LostStream),
    /// The tasks' output is in the outbox; or why it is not.
    Quiet { failed: Option<String> },
    /// A part of what is to go out is noted: the next may follow.
    Noted,
    /// What is to go out is chosen: what is sent from now on waits for the next consent.
    Releasing,
    /// What was held has gone out.
    Released(Delivery),
}

/// A process inside, as messages name it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) name: String,
}

/// What became of held output: where to, how many bytes, and why not the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Delivery {
    pub(crate) sent: Vec<(String, u64)>,
    pub(crate) unsent: Vec<(String, u64, String)>,
}

impl From<Sender> for Process {
    fn from(sender: Sender) -> Self {
        Self {
            pid: sender.pid,
            name: sender.name,
        }
    }
}

impl From<Process> for Sender {
    fn from(process: Process) -> Self {
        Self {
            pid: process.pid,
            name: process.name,
        }
    }
}

/// The messages that the kernel sent to the view.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Messages {
    /// How many, by the kernel's names of what they asked for (`enum fuse_opcode`).
    pub by_kind: BTreeMap<String, u64>,
    /// How many of them the thread answered that follows callers to their processors.
    pub beside: u64,
}

/// From pid 1, the command's process before its exec, or the view, to control.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The domain could not go on.
    Failed(Failure),
    /// The command is about to start.
    Started,
    /// This signal has stopped the command.
    Stopped(i32),
    /// The command has ended, and so has every other process of the domain.
    Ended(Ended),
    /// An order was carried out.
    Done,
    /// It could not be.
    NotDone(String),
    /// From the view, whose mount is gone: what the kernel had sent.
    Served(Messages),
}

/// How a domain's processes ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) exit: Exit,
    pub(crate) lingering: Vec<Lingering>,
}

/// What failed in another process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Failure {
    /// A step of the start or end.
    Step {
        what: String,
        errno: Option<i32>,
        /// For an error that is no number of the kernel's.
        text: String,
    },
    /// Entering the starting directory.
    Directory { errno: i32 },
    /// Executing the command.
    Command { errno: i32 },
}

impl Failure {
    /// For `map_err`: `what` is the step, in the words of an error message.
    pub(crate) fn at<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |error| {
            let error = error.into();
            Self::Step {
                what,
                errno: error.raw_os_error(),
                text: error.to_string(),
            }
        }
    }

    /// As [`Self::at`], of what is no error of the system.
    pub(crate) fn told<E: std::error::Error>(what: &str) -> impl FnOnce(E) -> Self {
        move |error| Self::Step {
            what: what.into(),
            errno: None,
            text: error.to_string(),
        }
    }
}

/// What pid 1 hands over to the role that hears calls: the listener, and a socket for diagnostics of the domain's
/// network.
pub(crate) type Handover = (Listened, Listener, OwnedFd);

/// Takes the listener over by `init`. `None` if pid 1 or the command's process died before: the
/// report of the one that died tells why.
pub(crate) fn receive_listener(init: &Link) -> Result<Option<Handover>, Failure> {
    let received = init.receive().and_then(|listened| match listened {
        Some(listened) => {
            let listener = init.receive_descriptor()?;
            let diagnostics = init.receive_descriptor()?;
            Ok(listener
                .zip(diagnostics)
                .map(|(one, other)| (listened, one, other)))
        }
        None => Ok(None),
    });
    let received = received.map_err(Failure::at("receive the listener"))?;
    let Some((listened, listener, diagnostics)) = received else {
        return Ok(None);
    };
    let listener = Listener::new(listener).map_err(Failure::at("listen"))?;
    Ok(Some((listened, listener, diagnostics)))
}
