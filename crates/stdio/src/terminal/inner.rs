//! The domain's own terminal, as its pid 1 opens it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, ioctl_tiocsctty};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
use rustix::termios::{
    OptionalActions, Termios, Winsize, tcgetattr, tcgetwinsize, tcsetattr, tcsetpgrp, tcsetwinsize,
};

/// Its path inside: the first terminal of a mount that has just been made.
pub const TERMINAL: &str = "/dev/pts/0";

/// What opens a new terminal inside.
const MULTIPLEXER: &str = "/dev/pts/ptmx";

/// What the domain's terminal is like at first.
#[derive(Clone, Debug)]
pub struct TerminalSetup {
    settings: Termios,
    size: Winsize,
    /// Whether the command is in its foreground from the start, and so may read the keys.
    pub foreground: bool,
}

impl TerminalSetup {
    pub(crate) fn of(terminal: &OwnedFd, foreground: bool) -> io::Result<Self> {
        Ok(Self {
            settings: tcgetattr(terminal)?,
            size: tcgetwinsize(terminal)?,
            foreground,
        })
    }
}

/// The domain's terminal, held open, so that it lives as long as pid 1.
#[derive(Debug)]
pub struct InnerTerminal(OwnedFd);

impl InnerTerminal {
    /// Opens it, inside, and makes it the controlling terminal of the calling process, which leads a
    /// session. The other descriptor is the terminal's outer side, for the relay process.
    ///
    /// # Errors
    /// As opening and setting a terminal.
    pub fn open(setup: &TerminalSetup) -> io::Result<(Self, OwnedFd)> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let outer = rustix::fs::open(MULTIPLEXER, flags, Mode::empty())?;
        unlockpt(&outer)?;
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let terminal = ioctl_tiocgptpeer(&outer, flags)?;
        tcsetattr(&terminal, OptionalActions::Now, &setup.settings)?;
        tcsetwinsize(&terminal, setup.size)?;
        ioctl_tiocsctty(&terminal)?;
        Ok((Self(terminal), outer))
    }

    /// Puts a process group of the session in the foreground. The caller blocks `TTOU`.
    ///
    /// # Errors
    /// As `tcsetpgrp`: `EPERM` for a group that has ended.
    pub fn set_foreground(&self, group: i32) -> io::Result<()> {
        let group = Pid::from_raw(group).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(tcsetpgrp(self.0.as_fd(), group)?)
    }
}
