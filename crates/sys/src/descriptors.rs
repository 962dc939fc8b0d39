//! Closing descriptors by range.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The first descriptor after standard input, output and error.
const FIRST: u32 = 3;

/// Closes every descriptor from 3 up that is not in `keep`.
///
/// Only for a process just copied, which never returns into frames that own a closed one.
pub(crate) fn close_all_but(keep: &[BorrowedFd<'_>]) {
    let mut kept: Vec<u32> = keep.iter().map(|fd| fd.as_raw_fd() as u32).collect();
    kept.sort_unstable();
    let mut from = FIRST;
    for fd in kept.into_iter().filter(|&fd| fd >= FIRST) {
        if from < fd {
            // Fails only for a bad range or flag.
            let _ = close_range(from, fd - 1, 0);
        }
        from = fd + 1;
    }
    let _ = close_range(from, u32::MAX, 0);
}

/// Marks every descriptor from 3 up to be closed by the next exec, so that the new program
/// gets standard input, output and error and nothing that this process inherited or opened.
///
/// # Errors
/// As `close_range`; `ENOSYS` before Linux 5.9, `EINVAL` before 5.11.
pub fn close_on_exec() -> io::Result<()> {
    close_range(FIRST, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

fn close_range(first: u32, last: u32, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: takes three integers and touches no memory. What closing does to owners is
    // argued by the callers above.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
