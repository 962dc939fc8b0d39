//! The exit of a process disturbs no call of its parent.
//!
//! The kernel tells a parent of the end by SIGCHLD. A signal with a handler interrupts a call that waits for the
//! supervisor to receive it, be it one that no signal interrupts otherwise: a shell's `fork` would fail. Only a tracer can
//! have the call begin again. So a parent that catches the signal is traced from before the end until it takes the signal.
//!
//! A parent with several threads is not, since any of them could take the signal. Nor is one whose child ends otherwise, by a
//! signal for instance: that is heard of only afterwards. And nobody hears of other signals before they come.

use std::collections::HashMap;
use std::io;

use rustix::process::{Pid, Signal};
use surmise_linux::proc::{Stat, Status};
use surmise_sys::ptrace;
use surmise_syscalls::Syscall;

use super::task;
use crate::call::Call;

/// Parents that are traced for the signal, each with the children whose ends it is to be told of.
#[derive(Debug, Default)]
pub(super) struct Partings(HashMap<Pid, Vec<Pid>>);

impl Partings {
    /// A process is about to end. `is_parent`: whether a process of the domain has borne others.
    ///
    /// # Errors
    /// As for reading /proc, and as ptrace; a process that may not be looked into is an error, too.
    pub(super) fn begin(&mut self, child: Pid, is_parent: impl Fn(Pid) -> bool) -> io::Result<()> {
        let stat = Stat::of(child)?;
        let Some(parent) = stat.parent().filter(|pid| is_parent(*pid)) else {
            return Ok(());
        };
        let status = Status::of(parent)?;
        let catches = status.catches(Signal::CHILD) && !status.blocks(Signal::CHILD);
        if status.threads() != 1 || !catches || !stat.tells_by_signal() {
            return Ok(());
        }
        // A member is traced anyway; if it is let go before it takes the signal, it stays so.
        if status.tracer() != Some(rustix::process::getpid()) && ptrace::seize(parent).is_err() {
            return Ok(());
        }
        let children = self.0.entry(parent).or_default();
        children.retain(|&child| lives(child));
        children.push(child);
        Ok(())
    }

    /// Whether any parent is traced for the signal.
    pub(super) fn have_any(&self) -> bool {
        let own = Some(rustix::process::getpid());
        self.0
            .keys()
            .any(|parent| Status::of(*parent).is_ok_and(|status| status.tracer() == own))
    }

    /// Whether the only thread of a process has to stay traced for a signal.
    pub(super) fn await_others(&mut self, thread: Pid) -> bool {
        let Some(children) = self.0.get_mut(&thread) else {
            return false;
        };
        children.retain(|&child| lives(child));
        let is_awaited = !children.is_empty();
        if !is_awaited {
            self.0.remove(&thread);
        }
        is_awaited
    }
}

fn lives(child: Pid) -> bool {
    !task::is_zombie(child, child).unwrap_or(true)
}

/// The process that a call ends, if it ends one.
pub(super) fn ending(call: &Call) -> io::Result<Option<Pid>> {
    let process = match call.name() {
        Syscall::Exit | Syscall::ExitGroup => task::process_of(call.thread())?,
        _ => return Ok(None),
    };
    let Some(process) = process else {
        return Ok(None);
    };
    let is_last = call.name() == Syscall::ExitGroup || Status::of(process)?.threads() == 1;
    Ok(is_last.then_some(process))
}
