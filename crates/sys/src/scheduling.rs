//! How the scheduler treats a thread (sched(7)).

use std::io;

use rustix::thread::Pid;

/// Has the calling thread run only while nothing else wants its processor.
///
/// # Errors
/// As `sched_setscheduler`.
pub fn run_when_idle() -> io::Result<()> {
    set(0, libc::SCHED_IDLE)
}

/// Has a thread of this process run as others do.
///
/// # Errors
/// As `sched_setscheduler`: `EPERM` for most ordinary users (`RLIMIT_NICE` in getrlimit(2)).
pub fn run_as_usual(thread: Pid) -> io::Result<()> {
    set(thread.as_raw_nonzero().get(), libc::SCHED_OTHER)
}

/// 0 is the calling thread.
fn set(thread: libc::pid_t, policy: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads one structure of this layout, which outlives the call.
    match unsafe { libc::sched_setscheduler(thread, policy, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
