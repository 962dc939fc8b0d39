//! Sockets that never block.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// So many bytes.
    Some(usize),
    /// Nothing yet.
    Nothing,
    /// The other side has closed its half.
    End,
}

/// How far a connection to the outside is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Connected,
    UnderWay,
}

/// Begins a TCP connection.
///
/// # Errors
/// As `socket` and `connect`.
pub(crate) fn connect(to: SocketAddr) -> io::Result<(OwnedFd, Progress)> {
    let socket = open(to, SocketType::STREAM, None)?;
    rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
    match rustix::net::connect(&socket, &to) {
        Ok(()) => Ok((socket, Progress::Connected)),
        Err(Errno::INPROGRESS) => Ok((socket, Progress::UnderWay)),
        Err(errno) => Err(errno.into()),
    }
}

/// A socket of the family of `like`.
///
/// # Errors
/// As `socket`.
pub(crate) fn open(
    like: SocketAddr,
    kind: SocketType,
    protocol: Option<Protocol>,
) -> io::Result<OwnedFd> {
    let family = if like.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(family, kind, flags, protocol)?)
}

/// What became of the connection that [`connect`] began.
///
/// # Errors
/// The connection's.
pub(crate) fn connected(socket: &OwnedFd) -> io::Result<()> {
    Ok(rustix::net::sockopt::socket_error(socket)??)
}

/// Reads what there is.
///
/// # Errors
/// As `read`: the connection is broken.
pub(crate) fn read(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<Read> {
    loop {
        return match rustix::io::read(socket, &mut *buffer) {
            Ok(0) => Ok(Read::End),
            Ok(length) => Ok(Read::Some(length)),
            Err(Errno::AGAIN) => Ok(Read::Nothing),
            Err(Errno::INTR) => continue,
            Err(errno) => Err(errno.into()),
        };
    }
}

/// Writes as much as goes, and says how much it was.
///
/// # Errors
/// As `send`: the connection is broken.
pub(crate) fn write(socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL) {
        Ok(length) => Ok(length),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(errno) => Err(errno.into()),
    }
}

/// The urgent byte that has come, if one has.
pub(crate) fn read_urgent(socket: &OwnedFd) -> Option<u8> {
    let mut byte = [0];
    match rustix::net::recv(socket, &mut byte, RecvFlags::OOB) {
        Ok((1, _)) => Some(byte[0]),
        _ => None,
    }
}

/// Whether the urgent byte could be written.
///
/// # Errors
/// As `send`.
pub(crate) fn write_urgent(socket: &OwnedFd, byte: u8) -> io::Result<bool> {
    match rustix::net::send(socket, &[byte], SendFlags::NOSIGNAL | SendFlags::OOB) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN | Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Closes a connection so that its other side sees it reset.
pub(crate) fn reset(socket: OwnedFd) {
    // Fails for no connected socket; then there is nobody to tell.
    let _ = rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
    drop(socket);
}

/// The next connection of a listener, and its ends: who connected, and to what address.
///
/// # Errors
/// As `accept`: `EAGAIN` when there is none.
pub(crate) fn accept(listener: &OwnedFd) -> Result<(OwnedFd, (SocketAddr, SocketAddr)), Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    // The peer's address from here: a connection that was reset meanwhile has no peer any more, and
    // its other half still wants to be told.
    let (socket, peer) = rustix::net::acceptfrom_with(listener, flags)?;
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    let own = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    let peer = peer.ok_or(Errno::CONNABORTED)?;
    Ok((socket, (canonical(peer), canonical(own))))
}

/// An IPv4 address that an IPv6 socket told of is an IPv4 address.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Whether an error says that this process has no descriptors left.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
    )
}
