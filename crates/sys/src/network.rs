//! A network namespace with nothing but its loopback interface, and the [`gate`] that may be
//! added to it.

pub mod gate;
mod listener;
pub mod nameservers;
mod netlink;
mod nftables;
mod owner;
mod route;
mod rules;
mod settings;
mod tun;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::thread::{ThreadNameSpaceType, UnshareFlags};

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

/// A socket for [`gate::owner`] and [`gate::has_listener`], of the calling thread's network namespace.
///
/// # Errors
/// As `socket`.
pub fn diagnostics() -> io::Result<OwnedFd> {
    owner::diagnostics()
}

/// Puts the calling thread into the network namespace of a process, given by its pidfd.
///
/// # Errors
/// As `setns`: `EPERM` without `CAP_SYS_ADMIN` in the namespace's user namespace, `ESRCH` when the
/// process has ended.
pub fn join(process: BorrowedFd<'_>) -> io::Result<()> {
    let network = ThreadNameSpaceType::NETWORK;
    Ok(rustix::thread::move_into_thread_name_spaces(
        process, network,
    )?)
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

/// What failed of a set-up in several steps; inside an [`io::Error`] of the same kind.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
struct Step {
    what: &'static str,
    source: io::Error,
}

impl Step {
    fn at(what: &'static str) -> impl FnOnce(io::Error) -> io::Error {
        move |source| Self::failed(what, source)
    }

    fn failed(what: &'static str, source: io::Error) -> io::Error {
        io::Error::new(source.kind(), Self { what, source })
    }
}
