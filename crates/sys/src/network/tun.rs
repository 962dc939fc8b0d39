//! TUN devices: the one through which a domain's packets leave its network namespace, and one for large packets.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

/// Makes a TUN device named `name`, without a header before its packets, and opens it.
///
/// `directory` is `/dev/net`, as an `O_PATH` descriptor. The device belongs to the network namespace
/// that this thread is in, whatever it was when the directory was opened, and is gone with
/// that.
pub fn open(directory: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let tun = rustix::fs::openat(directory, "tun", flags, Mode::empty())?;
    attach(tun.as_fd(), name, 0)?;
    leave_to_namespace(tun.as_fd())?;
    Ok(tun)
}

/// Makes a TUN device named `name` in this thread's network namespace, and opens it. The device is gone when the
/// descriptor is closed.
///
/// A `virtio_net_hdr` of 10 bytes comes before each packet. The kernel leaves checksums and the cutting of TCP
/// segments to the other side, so packets have up to 64 KB. They can be written to another such device as they are.
///
/// # Errors
/// As `open`, `TUNSETIFF` and `TUNSETOFFLOAD`: `EPERM` without `CAP_NET_ADMIN`.
pub fn open_offloading(name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let tun = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    attach(tun.as_fd(), name, libc::IFF_VNET_HDR)?;
    let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
    // SAFETY: TUNSETOFFLOAD takes a number and touches no memory.
    match unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD, offloads) } {
        0 => Ok(tun),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `more` are flags besides those of every device of ours.
fn attach(tun: BorrowedFd<'_>, name: &str, more: libc::c_int) -> io::Result<()> {
    // SAFETY: an ifreq is plain data for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    assert!(name.len() < request.ifr_name.len(), "a zero ends the name");
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | more) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which outlives the call; its name ends with
    // a zero.
    match unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets the device outlive its descriptor, until its network namespace is gone. To remove a device takes some
/// 20 ms; the kernel does that by itself then, and nobody waits for it, as whoever closes the descriptor would.
fn leave_to_namespace(tun: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: TUNSETPERSIST takes a number and touches no memory.
    match unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETPERSIST, 1) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
