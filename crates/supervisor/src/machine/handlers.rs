//! Handlers that interrupt calls interrupt none that waits to be received.
//!
//! A handler without `SA_RESTART` ends the call that it interrupts with `EINTR`, be it one that no signal interrupts otherwise:
//! while a call waits for the supervisor to receive it, the kernel knows no better. Only a tracer can have the call begin
//! again. So a process with such a handler is traced, from when it sets the handler until it executes a program or ends.
//!
//! Not for signals that people send to end or stop a program, which every shell and every Python catches: to trace all of
//! these costs more than a call that fails while its program ends. The end of a child is the matter of [`super::parting`].

use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid};
use surmise_linux::proc::{self, Status, Task};
use surmise_sys::ptrace;
use surmise_syscalls::Syscall;

use super::task;
use crate::call::Call;

/// For these a handler is nothing to trace a process for: the thread causes them itself, people send them, or it is the end of
/// a child.
const UNWATCHED: [Signal; 17] = [
    Signal::ILL,
    Signal::TRAP,
    Signal::ABORT,
    Signal::BUS,
    Signal::FPE,
    Signal::SEGV,
    Signal::SYS,
    Signal::PIPE,
    Signal::XFSZ,
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
    Signal::CHILD,
];
/// SA_RESTART of sigaction(2).
const RESTARTS: u64 = 0x1000_0000;
/// SIG_IGN; what is greater is a handler.
const IGNORE: u64 = 1;

/// The processes that have such handlers.
#[derive(Debug, Default)]
pub(super) struct Handlers {
    processes: HashSet<Pid>,
    /// Nobody is traced until then.
    rests_until: Option<Instant>,
}

impl Handlers {
    /// A call happens: it may set such a handler.
    ///
    /// # Errors
    /// As for reading /proc.
    pub(super) fn happens(&mut self, call: &Call) -> io::Result<()> {
        if call.name() != Syscall::RtSigaction || !interrupts(call) {
            return Ok(());
        }
        match task::process_of(call.thread())? {
            Some(process) if self.processes.insert(process) => self.trace(process),
            _ => Ok(()),
        }
    }

    /// A process has borne another, which has its handlers.
    pub(super) fn born(&mut self, parent: Pid, child: Pid) {
        if self.processes.contains(&parent) {
            self.processes.insert(child);
        }
    }

    /// A process has executed a program, or a thread is no more.
    pub(super) fn forget(&mut self, thread: Pid) {
        self.processes.remove(&thread);
    }

    /// Whether a process is to stay traced.
    pub(super) fn keep(&self, process: Pid) -> bool {
        self.rests_until.is_none() && self.processes.contains(&process)
    }

    /// Whether a tracee is to stay so, which may have been born just now.
    pub(super) fn keep_tracee(&mut self, thread: Pid) -> bool {
        if self.processes.is_empty() || self.rests_until.is_some() {
            return false;
        }
        if self.processes.contains(&thread) {
            return true;
        }
        let Ok(status) = Status::of(thread) else {
            return false;
        };
        let has = |process: Option<Pid>| process.is_some_and(|it| self.processes.contains(&it));
        if has(status.process()) {
            return true;
        }
        let is_heir = has(status.parent()) && catches(&status);
        is_heir && self.processes.insert(thread)
    }

    /// Lets all go, for so long at most. True when nobody is traced; each stops until then.
    ///
    /// # Errors
    /// As ptrace.
    pub(super) fn rest(&mut self, time: Duration) -> io::Result<bool> {
        let is_begun = self.rests_until.is_some();
        self.rests_until = Some(Instant::now() + time);
        let mut are_none = true;
        for thread in self.tracees() {
            are_none = false;
            if is_begun {
                break;
            }
            match ptrace::interrupt(thread) {
                Err(error) if !task::is_gone(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(are_none)
    }

    /// As [`Self::go_on`], once there was rest for long enough.
    ///
    /// # Errors
    /// As [`Self::go_on`].
    pub(super) fn go_on_if_due(&mut self) -> io::Result<()> {
        match self.rests_until {
            Some(until) if until <= Instant::now() => self.go_on(),
            _ => Ok(()),
        }
    }

    /// Traces those again that were let go, and what they have borne.
    ///
    /// # Errors
    /// As for reading /proc.
    pub(super) fn go_on(&mut self) -> io::Result<()> {
        if self.rests_until.take().is_none() {
            return Ok(());
        }
        // Nobody has told of the ends of those that were no tracees.
        self.processes
            .retain(|&process| !threads(process).is_empty());
        let mut left: Vec<Pid> = self.processes.iter().copied().collect();
        while let Some(process) = left.pop() {
            self.trace(process)?;
            for thread in threads(process) {
                let children = proc::children(Task { process, thread }).unwrap_or_default();
                let heirs = children.into_iter().filter(|&child| {
                    Status::of(child).is_ok_and(|status| catches(&status))
                        && self.processes.insert(child)
                });
                left.extend(heirs);
            }
        }
        Ok(())
    }

    /// Traces all threads of a process. One that somebody else traces is left to that tracer.
    fn trace(&self, process: Pid) -> io::Result<()> {
        if self.rests_until.is_some() {
            return Ok(());
        }
        // What a tracee bears is a tracee, so only threads that were born meanwhile are to be looked for.
        let mut known = HashSet::new();
        loop {
            let new: Vec<Pid> = threads(process)
                .into_iter()
                .filter(|thread| known.insert(*thread))
                .collect();
            if new.is_empty() {
                return Ok(());
            }
            for thread in new {
                match ptrace::seize(thread) {
                    Err(error) if !is_refused(&error) => return Err(error),
                    _ => {}
                }
            }
        }
    }

    fn tracees(&self) -> impl Iterator<Item = Pid> {
        let threads = self.processes.iter().flat_map(|&process| threads(process));
        threads.filter(|&thread| {
            Status::of(thread).is_ok_and(|status| status.tracer() == Some(getpid()))
        })
    }
}

/// The threads of a process; none once it has ended.
fn threads(process: Pid) -> Vec<Pid> {
    task::threads(process).unwrap_or_default()
}

fn is_refused(error: &io::Error) -> bool {
    task::is_gone(error) || error.kind() == io::ErrorKind::PermissionDenied
}

/// Whether a call sets a handler that interrupts calls.
fn interrupts(call: &Call) -> bool {
    let [signal, action, ..] = *call.arguments();
    let thread = call.thread();
    // It fails by itself where the action cannot be read.
    let word = |address| task::word(thread, address).ok();
    is_watched(signal as u32)
        && action != 0
        && word(action).is_some_and(|handler| handler > IGNORE)
        && word(action.wrapping_add(8)).is_some_and(|flags| flags & RESTARTS == 0)
}

fn is_watched(signal: u32) -> bool {
    UNWATCHED
        .iter()
        .all(|unwatched| unwatched.as_raw().cast_unsigned() != signal)
}

/// Whether a process may have such a handler.
fn catches(status: &Status) -> bool {
    (1..=64).any(|signal| is_watched(signal) && status.catches_number(signal))
}
