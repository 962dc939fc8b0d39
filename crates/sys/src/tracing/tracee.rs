//! Tracing one task. What only a stopped one can be asked is asked of a [`Stopped`].
//!
//! That a task is stopped, and why, is asked of the task and not learned from waits: a wait tells of
//! each stop once, and tells the first that comes of any tracee.

use std::io;
use std::mem::MaybeUninit;

use rustix::process::{Pid, Signal};

use super::restart;
use crate::signals;

/// A tracee in a stop. Only SIGKILL makes it go on by itself.
pub(super) struct Stopped {
    thread: Pid,
    /// The signal that it is about to take.
    signal: libc::c_int,
}

/// Begins to trace a task and asks it to stop at its next call boundary.
///
/// The kernel lets this wait while the task's process is in an exec, and that waits until the tracer
/// has reaped the other threads, if they are tracees. So they are reaped meanwhile by the handler of
/// SIGCHLD ([`reap_on_signal`]), which is otherwise blocked.
///
/// # Errors
/// `ESRCH` when it has ended; `EPERM` when it is a zombie, is traced, or is not ours to trace.
pub(super) fn seize(thread: Pid) -> io::Result<()> {
    let mask = signals::unblock(&[Signal::CHILD])?;
    let result = ptrace(libc::PTRACE_SEIZE, thread, 0);
    mask.restore()?;
    result?;
    interrupt(thread);
    Ok(())
}

/// Asks a tracee to stop. One that is stopped is to stop again when it goes on.
pub(super) fn interrupt(thread: Pid) {
    // Fails only for a task that has ended.
    let _ = ptrace(libc::PTRACE_INTERRUPT, thread, 0);
}

impl Stopped {
    /// `None` for a tracee that is not stopped, and for another task.
    pub(super) fn of(thread: Pid) -> Option<Self> {
        let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
        // SAFETY: writes a siginfo_t, for which there is room.
        let result = unsafe {
            libc::ptrace(
                libc::PTRACE_GETSIGINFO,
                thread.as_raw_nonzero(),
                std::ptr::null_mut::<libc::c_void>(),
                info.as_mut_ptr(),
            )
        };
        if result == -1 {
            return None;
        }
        // SAFETY: the call succeeded and has filled it.
        let info = unsafe { info.assume_init() };
        // Of the events only this one was asked for, and it is no delivery of a signal.
        let is_event = info.si_code >> 8 == libc::PTRACE_EVENT_STOP;
        let signal = if is_event { 0 } else { info.si_signo };
        Some(Self { thread, signal })
    }

    /// Lets it go on untraced, with its signal.
    pub(super) fn detach(self) {
        restart::prepare(self.thread);
        // Fails only for a task that was killed meanwhile.
        let _ = ptrace(
            libc::PTRACE_DETACH,
            self.thread,
            self.signal as libc::c_ulong,
        );
    }
}

/// Reaps every tracee that has ended, as far as its tracer must: its parent gets it from the kernel.
///
/// For a process all of whose children are tracees. Never blocks, and may interrupt anything.
pub(super) fn reap() {
    // SAFETY: a siginfo_t is plain data for which all zeros is a value, and outlives the calls. They
    // may be made by a handler of a signal, and `errno`, which is this thread's own, is given back to
    // whom that has interrupted.
    unsafe {
        let errno = *libc::__errno_location();
        let options = libc::WSTOPPED | libc::WEXITED | libc::WNOHANG | libc::__WALL;
        let mut info: libc::siginfo_t = std::mem::zeroed();
        while libc::waitid(libc::P_ALL, 0, &raw mut info, options) == 0 && info.si_pid() != 0 {
            info = std::mem::zeroed();
        }
        *libc::__errno_location() = errno;
    }
}

/// Makes SIGCHLD reap, whenever it is not blocked.
///
/// # Errors
/// As `sigaction`.
pub(super) fn reap_on_signal() -> io::Result<()> {
    extern "C" fn handle(_: libc::c_int) {
        reap();
    }
    // SAFETY: a sigaction is plain data for which all zeros is a value; the handler is a function of
    // the right type that makes only calls that a handler may make.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGCHLD, &raw const action, std::ptr::null_mut())
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A request without an address, for which `data` is no address either.
fn ptrace(request: libc::c_uint, thread: Pid, data: libc::c_ulong) -> io::Result<()> {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: none of the requests above reads or writes this process' memory.
    match unsafe { libc::ptrace(request, thread.as_raw_nonzero(), none, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
