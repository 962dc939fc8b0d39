//! Mounts of a process' own, and attributes for a whole tree of mounts.

use std::ffi::CStr;
use std::io;

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::UnshareFlags;

/// Gives the calling thread, and what it starts, mounts of their own: what is mounted there does not show
/// outside, and goes with the last of them; what is mounted outside shows there, too. The current directory
/// is the same one as before.
///
/// # Errors
/// As `unshare` and `mount`: `EPERM` without `CAP_SYS_ADMIN`.
pub fn enter_new() -> io::Result<()> {
    // SAFETY: new mounts share no memory and no descriptor table; what is open stays open.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    Ok(mount_change("/", flags)?)
}

/// Makes the mount at `path` and every mount below it read-only, in one step.
///
/// # Errors
/// As `mount_setattr`; `ENOSYS` before Linux 5.12.
pub fn make_read_only(path: &CStr) -> io::Result<()> {
    set(path, libc::MOUNT_ATTR_RDONLY)
}

/// Has device nodes on the mount at `path` and on every mount below it lead to no device, in one step.
///
/// # Errors
/// As [`make_read_only`].
pub fn hide_devices(path: &CStr) -> io::Result<()> {
    set(path, libc::MOUNT_ATTR_NODEV)
}

/// As [`make_read_only`] and [`hide_devices`], and no program there gets the rights of its owner.
///
/// # Errors
/// As [`make_read_only`].
pub fn confine(path: &CStr) -> io::Result<()> {
    set(
        path,
        libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOSUID,
    )
}

fn set(path: &CStr, attributes: u64) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: attributes,
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
