//! The two clocks that a client is told.

use rustix::time::{ClockId, clock_gettime};
use surmise_linux::clock::since_boot_ms;
use surmise_lower::Timestamp;
use surmise_remote::server::Moment;

/// Milliseconds since the machine was started, the time that it slept included.
pub fn now() -> Moment {
    Moment(since_boot_ms())
}

/// The time of day, which files get.
pub fn time_of_day() -> Timestamp {
    let time = clock_gettime(ClockId::Realtime);
    Timestamp {
        seconds: time.tv_sec,
        nanoseconds: u32::try_from(time.tv_nsec).unwrap_or(0),
    }
}
