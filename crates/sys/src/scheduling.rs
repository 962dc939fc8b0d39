//! How the scheduler treats a thread (sched(7)).

use std::io;

/// Has the calling thread run only while nothing else wants its processor. An ordinary user cannot go back.
///
/// # Errors
/// As `sched_setscheduler`.
pub fn run_when_idle() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads one structure of this layout, which outlives the call. 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
