//! A network namespace with nothing but its loopback interface, and what a gated one needs.

pub mod listener;
pub mod tun;

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::thread::UnshareFlags;

/// Puts the calling thread into a network namespace of its own, whose loopback interface is up.
///
/// # Errors
/// As `unshare`, `socket` and `SIOCSIFFLAGS`: `EPERM` without `CAP_SYS_ADMIN` and `CAP_NET_ADMIN` in
/// the user namespace.
pub fn enter_new() -> io::Result<()> {
    // SAFETY: a new network namespace shares no memory and no descriptor table; sockets that are open
    // stay in the old one.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?;
    bring_up_loopback()
}

fn bring_up_loopback() -> io::Result<()> {
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: an ifreq is plain data for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request is an ifreq with a name ended by a zero and flags, as SIOCSIFFLAGS
    // wants, and it outlives the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
