//! What control does with signals while a command runs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::process::Signal;
use surmise_sys::signals::{self, SavedAction, SavedMask, SignalFd};

use crate::terminal;

/// A terminal sends these to the whole process group, so the command has them already; control
/// must live on to see how the command takes them. Without a terminal the command has a group of
/// its own, and they are forwarded.
const INTERRUPTS: [Signal; 2] = [Signal::INT, Signal::QUIT];

/// These ask control to end.
const ENDS: [Signal; 2] = [Signal::TERM, Signal::HUP];

/// Whether `signal` asks control to end, not only its command.
pub(crate) fn is_end(signal: Signal) -> bool {
    ENDS.contains(&signal)
}

/// Signals taken over, until dropped.
pub(crate) struct Signals {
    mask: SavedMask,
    actions: Vec<SavedAction>,
    forwarded: SignalFd,
    terminal: bool,
}

impl Signals {
    pub(crate) fn take_over() -> io::Result<Self> {
        let terminal = terminal::is_there();
        let (left_to_command, interrupts) = match terminal {
            true => (&INTERRUPTS[..], &[][..]),
            false => (&[][..], &INTERRUPTS[..]),
        };
        let mut forwarded = Vec::new();
        for &signal in ENDS.iter().chain(interrupts) {
            // Who ignores a signal, as under nohup, wants the command to do so too.
            if !signals::is_ignored(signal)? {
                forwarded.push(signal);
            }
        }
        let mask = signals::block(&forwarded)?;
        let mut taken = Self {
            mask,
            actions: Vec::new(),
            forwarded: SignalFd::new(&forwarded)?,
            terminal,
        };
        for &signal in left_to_command {
            taken.actions.push(signals::ignore(signal)?);
        }
        // Where the caller's parent ignores it, children are reaped behind our back.
        taken.actions.push(signals::reset(Signal::CHILD)?);
        Ok(taken)
    }

    /// Whether there is a terminal, whose interrupts reach the command by themselves.
    pub(crate) fn are_from_terminal(&self) -> bool {
        self.terminal
    }

    /// The next signal to forward, if there is one.
    pub(crate) fn next(&self) -> io::Result<Option<Signal>> {
        self.forwarded.next()
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
