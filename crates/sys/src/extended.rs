//! Extended attributes of what a name leads to.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// `listxattrat` of asm-generic/unistd.h, the same number on all architectures.
const LISTXATTRAT: libc::c_long = 465;

/// How many bytes the names of the extended attributes have, each with its NUL, of what `name` leads to in `directory`. A
/// symbolic link is not followed.
///
/// # Errors
/// As listxattr(2); `ENOSYS` before Linux 6.13.
pub fn names_bytes_at(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<usize> {
    let name = CString::new(name).map_err(|_| Errno::INVAL)?;
    let list = std::ptr::null_mut::<libc::c_char>();
    // SAFETY: the name ends with a NUL and lives until the call returns; to a list of no bytes nothing is written.
    let bytes = unsafe {
        libc::syscall(
            LISTXATTRAT,
            directory.as_raw_fd(),
            name.as_ptr(),
            libc::AT_SYMLINK_NOFOLLOW,
            list,
            0_usize,
        )
    };
    usize::try_from(bytes).map_err(|_| io::Error::last_os_error())
}
