//! Whose keys the terminal reads.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use surmise_sys::signals;

/// Whether the caller has a terminal, be it in the background of it.
pub(crate) fn is_there() -> bool {
    open().is_ok()
}

fn open() -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open("/dev/tty", flags, Mode::empty())
}

/// The caller's place in the foreground of its terminal, taken back when dropped.
///
/// A shell with job control puts itself in the foreground and at its end puts back who was there
/// before. Inside a domain it cannot: the caller's process group has no number there.
#[derive(Debug)]
pub(crate) struct Foreground {
    terminal: OwnedFd,
    group: Pid,
}

impl Foreground {
    /// `None` without a terminal, and in the background.
    pub(crate) fn of_caller() -> Option<Self> {
        let terminal = open().ok()?;
        let group = rustix::process::getpgrp();
        (tcgetpgrp(&terminal) == Ok(group)).then_some(Self { terminal, group })
    }

    /// Whether the group in the foreground has no process left. If it has, it is no group of the
    /// domain, which has ended, but of somebody who was put there meanwhile.
    fn is_deserted(&self) -> bool {
        match tcgetpgrp(&self.terminal) {
            Ok(group) => rustix::process::test_kill_process_group(group) == Err(Errno::SRCH),
            Err(_) => true,
        }
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        if !self.is_deserted() {
            return;
        }
        // The kernel stops who changes this from the background, unless that is ignored. Should
        // any of it fail, the terminal has gone, and with it the question.
        if let Ok(action) = signals::ignore(Signal::TTOU) {
            let _ = tcsetpgrp(&self.terminal, self.group);
            let _ = action.restore();
        }
    }
}
