//! What control does with signals while a command runs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::process::Signal;
use surmise_sys::signals::{self, SavedAction, SavedMask, SignalFd};

use crate::terminal;

/// What a person types to interrupt a command. With a terminal of its own the command gets it there,
/// and control gets only what was typed outside, or sent.
const INTERRUPTS: [Signal; 2] = [Signal::INT, Signal::QUIT];

/// These ask control to end.
const ENDS: [Signal; 2] = [Signal::TERM, Signal::HUP];

/// Whether `signal` asks control to end, not only its command.
pub(crate) fn is_end(signal: Signal) -> bool {
    ENDS.contains(&signal)
}

/// Whether `signal` is one that a terminal sends to all processes in its foreground.
pub(crate) fn is_for_group(signal: Signal) -> bool {
    INTERRUPTS.contains(&signal) || signal == Signal::TSTP
}

/// Signals taken over, until dropped.
pub(crate) struct Signals {
    mask: SavedMask,
    actions: Vec<SavedAction>,
    forwarded: SignalFd,
    continued: SignalFd,
    terminal: bool,
}

impl Signals {
    pub(crate) fn take_over() -> io::Result<Self> {
        let terminal = terminal::is_there();
        // Without a terminal nobody types it, and nobody is there to let the command go on.
        let stops = if terminal { &[Signal::TSTP][..] } else { &[] };
        let mut forwarded = Vec::new();
        for &signal in ENDS.iter().chain(&INTERRUPTS).chain(stops) {
            // Who ignores a signal, as under nohup, wants the command to do so too.
            if !signals::is_ignored(signal)? {
                forwarded.push(signal);
            }
        }
        let mask = signals::block(&forwarded)?;
        let continued = [Signal::CONT];
        signals::block(&continued)?;
        let mut taken = Self {
            mask,
            actions: Vec::new(),
            forwarded: SignalFd::new(&forwarded)?,
            continued: SignalFd::new(&continued)?,
            terminal,
        };
        // Where the caller's parent ignores it, children are reaped behind our back.
        taken.actions.push(signals::reset(Signal::CHILD)?);
        Ok(taken)
    }

    /// Whether there is a terminal, and so a shell that may treat the caller as a job.
    pub(crate) fn have_terminal(&self) -> bool {
        self.terminal
    }

    /// The next signal to forward, if there is one.
    pub(crate) fn next(&self) -> io::Result<Option<Signal>> {
        self.forwarded.next()
    }

    /// Tells when this process was let go on after a stop.
    pub(crate) fn continued(&self) -> &SignalFd {
        &self.continued
    }

    /// Makes everything as it was, in control or in a copy of it.
    pub(crate) fn give_back(&self) -> io::Result<()> {
        for action in &self.actions {
            action.restore()?;
        }
        self.mask.restore()
    }
}

/// Readable while there is a signal to forward.
impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.forwarded.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // Restoring what was in force fails only for arguments that are not valid.
        let _ = self.give_back();
    }
}
