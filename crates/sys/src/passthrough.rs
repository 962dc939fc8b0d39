//! FUSE passthrough (Linux 6.9): files that the kernel reads and writes by itself for a FUSE server. Only
//! who has `CAP_SYS_ADMIN` over the whole machine may ask for it.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `struct fuse_backing_map` of linux/fuse.h.
#[repr(C)]
struct Map {
    fd: libc::c_int,
    flags: u32,
    padding: u64,
}

/// `_IOW(229, 1, struct fuse_backing_map)` and `_IOW(229, 2, uint32_t)`.
const OPEN: libc::Ioctl = 0x4010_e501;
const CLOSE: libc::Ioctl = 0x4004_e502;

/// Registers `file` with a mounted FUSE device; the number names it in replies to opens. The kernel opens
/// it anew for each of them, with the rights of the caller of this function.
///
/// # Errors
/// `EPERM` without the capability, `ELOOP` where the file system of `file` lies on others itself,
/// `EOPNOTSUPP` where it cannot be read and written in this way; else as `ioctl`.
pub fn open_backing(device: impl AsFd, file: impl AsFd) -> io::Result<i32> {
    let map = Map {
        fd: file.as_fd().as_raw_fd(),
        flags: 0,
        padding: 0,
    };
    // SAFETY: the kernel reads one structure of this layout, which outlives the call.
    match unsafe { libc::ioctl(device.as_fd().as_raw_fd(), OPEN, &raw const map) } {
        id if id > 0 => Ok(id),
        0 => Err(io::ErrorKind::InvalidData.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Gives a number back. What was opened with it stays open.
///
/// # Errors
/// `ENOENT` for a number that is not in use; else as `ioctl`.
pub fn close_backing(device: impl AsFd, id: i32) -> io::Result<()> {
    let id = id.cast_unsigned();
    // SAFETY: the kernel reads one u32, which outlives the call.
    match unsafe { libc::ioctl(device.as_fd().as_raw_fd(), CLOSE, &raw const id) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
