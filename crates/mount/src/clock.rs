//! The two clocks that a client is told.

use rustix::time::{ClockId, clock_gettime};
use surmise_lower::Timestamp;
use surmise_remote::server::Moment;

/// Milliseconds since the machine was started, the time that it slept included.
pub fn now() -> Moment {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    Moment(seconds * 1000 + nanoseconds / 1_000_000)
}

/// The time of day, which files get.
pub fn time_of_day() -> Timestamp {
    let time = clock_gettime(ClockId::Realtime);
    Timestamp {
        seconds: time.tv_sec,
        nanoseconds: u32::try_from(time.tv_nsec).unwrap_or(0),
    }
}
