//! Reaping tracees, also in the middle of a call that waits until they are reaped.

use std::io;

/// Reaps every tracee that has ended, as far as its tracer must: its parent gets it from the kernel.
///
/// For a process all of whose children are tracees. Never blocks, and may interrupt anything.
pub fn reap() {
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
pub fn reap_on_signal() -> io::Result<()> {
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
