//! Mount attributes for a whole tree of mounts.

use std::ffi::CStr;
use std::io;

/// Makes the mount at `path` and every mount below it read-only, in one step.
///
/// # Errors
/// As `mount_setattr`; `ENOSYS` before Linux 5.12.
pub fn make_read_only(path: &CStr) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the path is a C string, and the attributes live through the call, which reads
    // as many bytes of them as it is told.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            size_of_val(&attributes),
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
