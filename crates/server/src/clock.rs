//! The clock that the state machine is told.

use surmise_linux::clock::since_boot_ms;
use surmise_remote::server::Moment;

/// Milliseconds since the machine was started, the time that it slept included.
pub(crate) fn now() -> Moment {
    Moment(since_boot_ms())
}
