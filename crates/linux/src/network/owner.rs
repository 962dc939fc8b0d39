//! Which socket of a network namespace has an address, found out through sock_diag.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, netlink};

use super::netlink::{Batch, Socket, messages};

/// Message kind of both the request and the answer.
const BY_FAMILY: u16 = 20;
/// Cookies of a request that does not know the socket's.
pub(super) const NO_COOKIE: [u8; 8] = [0xff; 8];
/// A socket's state, as `/proc/net/tcp` has it.
const LISTENS: u8 = 10;

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Who has a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOwner {
    /// The socket's inode number, as `/proc/PID/fd` shows it: `socket:[INODE]`.
    pub inode: u64,
    /// The user who made it, as a number of the domain's user namespace.
    pub uid: u32,
}

/// The socket inside that sends from `local` to `remote`, whether connected or, for UDP, only bound.
/// Sockets of IPv6 that send IPv4 are found by the IPv4 addresses.
///
/// `None` when it is gone, and for UDP also when the kernel cannot tell (it lacks `udp_diag`).
///
/// # Errors
/// As `send` and `recv`; `EINVAL` when the addresses are of two families.
pub fn owner(
    diagnostics: BorrowedFd<'_>,
    protocol: Protocol,
    local: SocketAddr,
    remote: SocketAddr,
) -> io::Result<Option<SocketOwner>> {
    let found = look_up(diagnostics, protocol, local, remote)?;
    Ok(found
        .map(|found| found.owner)
        // What a closed connection leaves behind has no inode.
        .filter(|owner| owner.inode != 0))
}

/// Whether a TCP server inside would take a connection to `address`.
///
/// # Errors
/// As `send` and `recv`.
pub fn has_listener(diagnostics: BorrowedFd<'_>, address: SocketAddr) -> io::Result<bool> {
    let nobody: IpAddr = match address.ip().to_canonical() {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let nobody = SocketAddr::new(nobody, 0);
    let found = look_up(diagnostics, Protocol::Tcp, address, nobody)?;
    Ok(found.is_some_and(|found| found.state == LISTENS))
}

/// A socket to ask with, in the network namespace of the calling thread.
pub(super) fn diagnostics() -> io::Result<OwnedFd> {
    Ok(Socket::open(Some(netlink::SOCK_DIAG))?.into())
}

struct Found {
    state: u8,
    owner: SocketOwner,
}

fn look_up(
    diagnostics: BorrowedFd<'_>,
    protocol: Protocol,
    local: SocketAddr,
    remote: SocketAddr,
) -> io::Result<Option<Found>> {
    let request = request(protocol, local, remote)?;
    let answer = ask(diagnostics, &request)?;
    let found = answer.map(|answer| parse(&answer).ok_or(io::ErrorKind::InvalidData));
    Ok(found.transpose()?)
}

/// What the kernel says of the socket that a request means; `None` if there is no such socket.
pub(super) fn ask(diagnostics: BorrowedFd<'_>, request: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut batch = Batch::new();
    batch.silent("find a socket", BY_FAMILY, request);
    // Answers of an earlier call that failed half way are not to be taken for this one's.
    let mut buffer = [0; 4096];
    while rustix::net::recv(diagnostics, &mut buffer[..], RecvFlags::DONTWAIT).is_ok() {}
    rustix::net::send(diagnostics, batch.as_bytes(), SendFlags::empty())?;
    let (length, _) = rustix::net::recv(diagnostics, &mut buffer[..], RecvFlags::DONTWAIT)?;
    let mut answers = messages(&buffer[..length]);
    let answer = answers.next().ok_or(io::ErrorKind::InvalidData)?;
    match answer.error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT) => Ok(None),
        Some(errno) => Err(errno.into()),
        None => Ok(Some(answer.payload.to_vec())),
    }
}

/// `inet_diag_req_v2`: family, protocol, extensions, padding, states, then the socket's ports,
/// addresses (16 bytes each), interface and cookie.
fn request(protocol: Protocol, local: SocketAddr, remote: SocketAddr) -> io::Result<Vec<u8>> {
    let number = match protocol {
        Protocol::Tcp => libc::IPPROTO_TCP,
        Protocol::Udp => libc::IPPROTO_UDP,
    };
    let (family, from, to) = match (local.ip().to_canonical(), remote.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => (libc::AF_INET, padded(from), padded(to)),
        (IpAddr::V6(from), IpAddr::V6(to)) => (libc::AF_INET6, from.octets(), to.octets()),
        _ => return Err(Errno::INVAL.into()),
    };
    let from = (local.port(), from);
    let to = (remote.port(), to);
    // The kernel looks up UDP as a packet arriving here, for which local is the destination.
    let (source, destination) = match protocol {
        Protocol::Tcp => (from, to),
        Protocol::Udp => (to, from),
    };
    Ok([
        &[family as u8, number as u8, 0, 0][..],
        &[0xff; 4],
        &source.0.to_be_bytes(),
        &destination.0.to_be_bytes(),
        &source.1,
        &destination.1,
        &[0; 4],
        &NO_COOKIE,
    ]
    .concat())
}

fn padded(address: Ipv4Addr) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&address.octets());
    bytes
}

/// `inet_diag_msg`: family, state, timer, retransmissions, 48 bytes of the socket's identity,
/// then five numbers: expiry, two queues, user, inode.
fn parse(answer: &[u8]) -> Option<Found> {
    let number = |at: usize| Some(u32::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
    Some(Found {
        state: *answer.get(1)?,
        owner: SocketOwner {
            uid: number(64)?,
            inode: number(68)?.into(),
        },
    })
}
