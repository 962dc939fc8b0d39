//! Signals for a process that stands still, which it takes as it goes on.

use std::io;

use surmise_linux::proc::{Status, is_gone};
use surmise_sys::ptrace::SignalInfo;

use crate::halted::Halted;

/// What becomes of the call that a thread waits in when the thread is given a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// It begins after the handler.
    NotBegun,
    /// The thread has slept in it: it fails with `EINTR`.
    Fails,
    /// The thread has slept in it: it fails with `EINTR`, or begins again if the handler was set so (SA_RESTART).
    MayBeginAgain,
}

impl Interrupted {
    fn may_begin_again(self) -> Option<bool> {
        match self {
            Self::NotBegun => None,
            Self::Fails => Some(false),
            Self::MayBeginAgain => Some(true),
        }
    }
}

impl Halted<'_> {
    /// Whether the process, if it has one thread, would take a signal of this number at once: it catches or ignores such a signal, does
    /// not block it, and none of that number waits. Then nothing is hidden by it, and nobody sees it wait.
    ///
    /// # Errors
    /// As for reading /proc, and as ptrace.
    pub fn is_open_to(&self, number: u32) -> io::Result<bool> {
        let [held] = &self.threads[..] else {
            return Ok(false);
        };
        let status = Status::of(held.thread())?;
        // In a call with a mask of its own it blocks others than it does by itself.
        let is_blocked = status.blocks_number(number) || !held.is_open_to(number as i32);
        let is_noticed = status.catches_number(number) || status.ignores_number(number);
        Ok(is_noticed && !is_blocked && !self.is_waiting(number)?)
    }

    /// Has the only thread of the process take a signal when it goes on, in the call that it is in, before it executes anything. One that
    /// the process ignores does nothing.
    ///
    /// # Errors
    /// As for reading /proc.
    pub fn interrupt(&mut self, signal: SignalInfo, call: Interrupted) -> io::Result<()> {
        let number = signal.number().cast_unsigned();
        let [held] = &mut self.threads[..] else {
            return Ok(());
        };
        let status = match Status::of(held.thread()) {
            // It was killed: nobody takes any.
            Err(error) if is_gone(&error) => return Ok(()),
            status => status?,
        };
        if status.catches_number(number) {
            held.interrupt(signal, call.may_begin_again());
        }
        Ok(())
    }
}
