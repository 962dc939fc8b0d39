//! How the scheduler treats a thread (sched(7)).

use std::io;

use rustix::thread::Pid;

/// Has the calling thread run only while nothing else wants its processor.
///
/// # Errors
/// As `sched_setscheduler`.
pub fn run_when_idle() -> io::Result<()> {
    set(0, libc::SCHED_IDLE, 0)
}

/// Has the calling thread run before all that are not real-time threads, as soon as it has something to do. It must
/// sleep most of the time: while it runs, its processor does nothing else. Its children do not inherit that.
///
/// # Errors
/// As `sched_setscheduler`: `EPERM` without `CAP_SYS_NICE`.
pub fn run_at_once() -> io::Result<()> {
    set(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1)
}

/// Has a thread of this process run as others do.
///
/// # Errors
/// As `sched_setscheduler`: `EPERM` for most ordinary users (`RLIMIT_NICE` in getrlimit(2)).
pub fn run_as_usual(thread: Pid) -> io::Result<()> {
    set(thread.as_raw_nonzero().get(), libc::SCHED_OTHER, 0)
}

/// 0 is the calling thread.
fn set(thread: libc::pid_t, policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: the kernel reads one structure of this layout, which outlives the call.
    match unsafe { libc::sched_setscheduler(thread, policy, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
