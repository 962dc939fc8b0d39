//! Putting a filter on the calling thread.

use std::io;

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
    let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: `header` and the instructions it points to live until the call returns, and the
    // kernel only reads them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const header,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
