//! Putting a filter on the calling thread.

use std::io;
use std::os::fd::RawFd;

use super::compiler::Program;

/// Under which condition a thread may filter itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// Leaves set-uid programs working. The thread needs CAP_SYS_ADMIN in its user namespace.
    Keep,
    /// Sets `no_new_privs` first: no right is needed, and set-uid programs gain none.
    NoNewPrivileges,
}

/// Puts the filter on the calling thread, and on all that it will fork or execute, for good.
///
/// Neither allocates nor locks, so it may run between fork and exec.
///
/// # Errors
/// EACCES: [`Privilege::Keep`] without CAP_SYS_ADMIN. EINVAL: a kernel without filters, or one
/// older than 4.17. ENOMEM: too many filters are on the thread already.
pub fn install(program: &Program, privilege: Privilege) -> io::Result<()> {
    set_filter(program, privilege, 0).map(drop)
}

/// As [`install`], with a listener: the number of a new descriptor of this process, closed by an exec.
/// Nobody here owns it. From now on a call that the filter notifies of waits until somebody has answered
/// it through that descriptor, so another process has to take it ([`super::Listener::of`]).
///
/// A call that was received waits for its answer whatever signals arrive, unless one of them kills: an
/// answer that was accepted is never lost.
///
/// # Errors
/// As [`install`]; EINVAL before Linux 5.19, EBUSY where the thread has a listener already.
pub fn install_with_listener(program: &Program, privilege: Privilege) -> io::Result<RawFd> {
    listened(
        program,
        privilege,
        libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
    )
}

/// As [`install_with_listener`], but before Linux 5.19 any signal ends the wait for an answer; the call is
/// then made, and heard, again. Whose answers change nothing may listen so.
///
/// # Errors
/// As [`install`]; EBUSY where the thread has a listener already.
pub fn install_with_witness(program: &Program, privilege: Privilege) -> io::Result<RawFd> {
    match install_with_listener(program, privilege) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            listened(program, privilege, 0)
        }
        installed => installed,
    }
}

fn listened(program: &Program, privilege: Privilege, flags: libc::c_ulong) -> io::Result<RawFd> {
    let flags = flags | libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let number = set_filter(program, privilege, flags)?;
    Ok(RawFd::try_from(number).expect("a descriptor is an int"))
}

/// What the call returns: 0, or the number of a listener where `flags` ask for one.
fn set_filter(
    program: &Program,
    privilege: Privilege,
    flags: libc::c_ulong,
) -> io::Result<libc::c_long> {
    if privilege == Privilege::NoNewPrivileges {
        rustix::thread::set_no_new_privs(true)?;
    }
    let instructions = program.instructions();
    let header = libc::sock_fprog {
        len: u16::try_from(instructions.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: instructions.as_ptr().cast_mut(),
    };
    // Kernels before 5.16 slow a filtered thread down against Spectre unless told not to. That
    // guards a program against its own code; a domain contains mistakes, not attackers.
    let flags = flags | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: `header` and the instructions it points to live until the call returns, and the
    // kernel only reads them. A descriptor that it opens has no owner yet.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const header,
        )
    };
    if result >= 0 {
        Ok(result)
    } else {
        Err(io::Error::last_os_error())
    }
}
