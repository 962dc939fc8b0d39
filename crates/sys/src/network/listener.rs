//! Sockets that a gated network listens on.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// The kernel cuts it to the namespace's `somaxconn`.
const BACKLOG: i32 = 65_535;

/// A TCP listener on `port` that may be given connections to any address, of both families if
/// `ipv6`.
pub fn transparent(port: u16, ipv6: bool) -> io::Result<OwnedFd> {
    let any: IpAddr = match ipv6 {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    };
    let listener = socket(any, SocketType::STREAM)?;
    if ipv6 {
        sockopt::set_ipv6_v6only(&listener, false)?;
        set(&listener, libc::SOL_IPV6, libc::IPV6_TRANSPARENT, 1)?;
    }
    set(&listener, libc::SOL_IP, libc::IP_TRANSPARENT, 1)?;
    // Accepted sockets have it from here. They use addresses and ports of the domain's own loopback,
    // too, where servers inside must still be able to start.
    sockopt::set_socket_reuseaddr(&listener, true)?;
    rustix::net::bind(&listener, &SocketAddr::new(any, port))?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// Sockets for a name server at `address`: UDP, and TCP that listens.
pub fn names(address: SocketAddr) -> io::Result<(OwnedFd, OwnedFd)> {
    let datagrams = datagrams(address)?;
    let listener = socket(address.ip(), SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&listener, true)?;
    rustix::net::bind(&listener, &address)?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok((datagrams, listener))
}

/// A UDP socket at `address`. A server inside that allows sharing, too, may have the port for all addresses.
pub fn datagrams(address: SocketAddr) -> io::Result<OwnedFd> {
    let datagrams = socket(address.ip(), SocketType::DGRAM)?;
    sockopt::set_socket_reuseaddr(&datagrams, true)?;
    rustix::net::bind(&datagrams, &address)?;
    Ok(datagrams)
}

/// A socket that puts whole packets, behind an Ethernet header, onto the loopback interface with
/// `mark`, and receives none.
pub fn injector(loopback: u32, mark: u32) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::PACKET,
        SocketType::RAW,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    set(
        &socket,
        libc::SOL_SOCKET,
        libc::SO_MARK,
        mark as libc::c_int,
    )?;
    bind_to_link(&socket, loopback)?;
    Ok(socket)
}

fn socket(address: IpAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(family, kind, flags, None)?)
}

fn set(socket: &OwnedFd, level: i32, option: i32, value: libc::c_int) -> io::Result<()> {
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the option's value is an int, which lives through the call, and this is its size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size,
        )
    };
    check(result)
}

fn bind_to_link(socket: &OwnedFd, index: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: 0,
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address lives through the call, and this is its size.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Writes one packet to an [`injector`].
pub fn inject(socket: BorrowedFd<'_>, packet: &[u8]) -> io::Result<()> {
    let ethertype: [u8; 2] = match packet.first().map(|byte| byte >> 4) {
        Some(4) => [0x08, 0x00],
        Some(6) => [0x86, 0xdd],
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    // To and from the loopback interface's hardware address, which is zeros.
    let mut header = [0; 14];
    header[12..].copy_from_slice(&ethertype);
    let slices = [io::IoSlice::new(&header), io::IoSlice::new(packet)];
    rustix::io::writev(socket, &slices)?;
    Ok(())
}
