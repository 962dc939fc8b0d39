//! The clock that the state machine is told.

use rustix::time::ClockId;
use surmise_remote::server::Moment;

/// Milliseconds since the machine was started, the time that it slept included.
pub(crate) fn now() -> Moment {
    let time = rustix::time::clock_gettime(ClockId::Boottime);
    let seconds = time.tv_sec.unsigned_abs();
    Moment(seconds * 1000 + time.tv_nsec.unsigned_abs() / 1_000_000)
}
