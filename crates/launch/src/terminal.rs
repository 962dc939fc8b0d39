//! Whether the caller has a terminal.

use rustix::fs::{Mode, OFlags};

/// Whether the caller has a controlling terminal, be it in the background of it: then it may be stopped
/// and go on as a job of its shell.
pub(crate) fn is_there() -> bool {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open("/dev/tty", flags, Mode::empty()).is_ok()
}
