//! Another descriptor of a mounted FUSE device, with flags and requests of its own.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

/// `_IOR(229, 0, uint32_t)` of linux/fuse.h.
const CLONE: libc::Ioctl = 0x8004_e500;

/// A second descriptor of the connection that `device` serves, nonblocking. What was read from the one is to be
/// answered on the one.
///
/// # Errors
/// As for opening `/dev/fuse`, and `EINVAL` where `device` is mounted nowhere, or, before Linux 6.2, was opened in another user
/// namespace.
pub fn clone_device(device: impl AsFd) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let new = rustix::fs::open("/dev/fuse", flags, Mode::empty())?;
    let old = device.as_fd().as_raw_fd().cast_unsigned();
    // SAFETY: the kernel reads one u32, which outlives the call.
    match unsafe { libc::ioctl(new.as_raw_fd(), CLONE, &raw const old) } {
        0 => Ok(new),
        _ => Err(io::Error::last_os_error()),
    }
}
