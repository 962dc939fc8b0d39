//! Signals that ask to stop, taken at a moment of our choice.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::process::Signal;
use surmise_sys::signals::{self, SavedMask, SignalFd};

const STOPPING: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// Keeps signals that ask to stop from ending this process while it lives.
pub struct Interrupts {
    before: SavedMask,
    signals: SignalFd,
}

impl Interrupts {
    /// From now on.
    ///
    /// # Errors
    /// As `sigprocmask` and `signalfd`.
    pub fn hold() -> io::Result<Self> {
        let before = signals::block(&STOPPING)?;
        match SignalFd::new(&STOPPING) {
            Ok(signals) => Ok(Self { before, signals }),
            Err(error) => {
                before.restore()?;
                Err(error)
            }
        }
    }

    /// Whether one has arrived; it is taken.
    pub fn arrived(&self) -> bool {
        matches!(self.signals.next(), Ok(Some(_)))
    }
}

/// Has signals that ask to stop do what they do to any new program. For a copy of a process that holds them, or that
/// was started without them: a shell's script has `INT` and `QUIT` ignored for what it starts with `&`, and nohup(1)
/// `HUP`. The copy is told by them what its client wants.
///
/// # Errors
/// As `sigaction` and `sigprocmask`.
pub(crate) fn listen_again() -> io::Result<()> {
    for signal in STOPPING {
        signals::reset(signal)?;
    }
    signals::unblock(&STOPPING).map(drop)
}

/// Readable when a signal has arrived.
impl AsFd for Interrupts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        // A second Ctrl-C that came meanwhile asked for the same.
        while self.arrived() {}
        // It fails for no mask that was in force before.
        let _ = self.before.restore();
    }
}
