//! How long the machine runs.

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds since the machine was started, the time that it slept included (clock_gettime(2), `CLOCK_BOOTTIME`).
pub fn since_boot_ms() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec.unsigned_abs() * 1000 + time.tv_nsec.unsigned_abs() / 1_000_000
}
