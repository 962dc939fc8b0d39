//! What becomes of a call of a task that depends on something undecided: one module an object kind.
//!
//! Each module sees the call and says what it takes to let it happen. Whatever no module knows waits,
//! which is always correct.

mod apart;
mod data;
mod descriptors;
mod events;
mod memory;
mod network;
mod process;
mod view;

use std::io;

use rustix::process::Pid;
use surmise_checkpoint::Change;
use surmise_sys::seccomp::Notification;
use surmise_syscalls::{Disposition, Handler, Kind, row_numbered};

use crate::channels::Channels;
use crate::input::Wanted;
use crate::member::Member;
use crate::obstacles::Seen;

pub(crate) use apart::is_apart;

/// What it takes to let a call happen.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// Nothing: a rollback undoes it, or there is nothing to undo. Counted for objects of this kind.
    Pass(&'static str),
    /// That the checkpoints know of it.
    Note(Change),
    /// That the view can undo it: it changes files there. With what the checkpoints have to know of it.
    Change(Option<Change>),
    /// That it does not happen, but its bytes are held: output by this descriptor.
    Hold {
        descriptor: u64,
        /// Address and length of the bytes.
        bytes: (u64, u64),
    },
    /// That it does not happen, but its caller is given what it would give, which is not taken.
    Peek(Wanted),
    /// That nothing is undecided.
    Wait,
}

/// A call with all that a module may ask.
pub(crate) struct Met<'a> {
    pub(crate) process: Pid,
    pub(crate) name: &'static str,
    pub(crate) arguments: [u64; 6],
    pub(crate) known: Known<'a>,
}

/// What is known of a process that calls, and of its domain.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) channels: &'a Channels,
    pub(crate) seen: &'a Seen,
    /// The process, if it depends on something undecided already.
    pub(crate) member: Option<&'a Member>,
    /// Whether it has changed files of the view, and that is undecided.
    pub(crate) has_changed: bool,
}

/// What it takes to let a call of a process happen.
pub(crate) fn meet(process: Pid, call: &Notification, known: Known<'_>) -> io::Result<Meeting> {
    let Some(row) = row_numbered(call.number) else {
        return Ok(Meeting::Wait);
    };
    let met = Met {
        process,
        name: row.name(),
        arguments: call.arguments,
        known,
    };
    match row.disposition_with(Kind::Prediction, &call.arguments) {
        Disposition::Allow => return Ok(Meeting::Pass("none")),
        Disposition::Refuse(_) | Disposition::Wait => return Ok(Meeting::Wait),
        Disposition::Track | Disposition::Hold => {}
    }
    match row.handler() {
        Handler::Data => data::meet(&met),
        Handler::Descriptors => Ok(descriptors::meet(&met)),
        Handler::Events => Ok(events::meet(&met)),
        Handler::Memory => Ok(memory::meet(&met)),
        Handler::Network => Ok(network::meet(&met)),
        Handler::Process => process::meet(&met),
        Handler::View => view::meet(&met),
        _ => Ok(Meeting::Wait),
    }
}
