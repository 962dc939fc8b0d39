//! One task that is stopped for a moment.
//!
//! That a task is stopped, and why, is asked of the task and not learned from waits: a wait tells of
//! each stop once, and tells the first that comes of any tracee.

use std::io;

use rustix::process::{Pid, Signal};
use surmise_sys::ptrace::{self, Stopped};
use surmise_sys::signals;

use super::restart;

/// Begins to trace a task and asks it to stop at its next call boundary.
///
/// The kernel lets this wait while the task's process is in an exec, and that waits until the tracer
/// has reaped the other threads, if they are tracees. So they are reaped meanwhile by the handler of
/// SIGCHLD ([`ptrace::reap_on_signal`]), which is otherwise blocked.
///
/// # Errors
/// `ESRCH` when it has ended; `EPERM` when it is a zombie, is traced, or is not ours to trace.
pub(super) fn seize(thread: Pid) -> io::Result<()> {
    let mask = signals::unblock(&[Signal::CHILD])?;
    let result = ptrace::seize_alone(thread);
    mask.restore()?;
    result?;
    interrupt(thread);
    Ok(())
}

/// Asks a tracee to stop. One that is stopped is to stop again when it goes on.
pub(super) fn interrupt(thread: Pid) {
    // Fails only for a task that has ended.
    let _ = ptrace::interrupt(thread);
}

/// Lets a stopped task go on untraced, with the signal that it is about to take.
pub(super) fn let_go(stopped: Stopped) {
    restart::prepare(&stopped);
    // These fail only for a task that was killed meanwhile.
    let _ = match stopped.signal() {
        // Of the events only this one was asked for, and it is no delivery of a signal.
        Ok(signal) if !signal.is_stop() => stopped.detach_with(&signal),
        _ => stopped.detach(),
    };
}
