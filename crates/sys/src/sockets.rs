//! What rustix does not offer for sockets: errors of datagrams, the place of urgent data, and how much
//! has not arrived.

use std::io;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Room for a `sock_extended_err`, the address of who reported it, and their header.
const CONTROL_SIZE: usize = 256;

/// From <linux/sockios.h>; libc lacks it.
const SIOCATMARK: libc::Ioctl = 0x8905;

/// Why a datagram did not arrive.
#[derive(Debug)]
pub struct Undelivered {
    /// Where it was sent to.
    pub to: SocketAddr,
    /// What the sender of a connected socket would be told.
    pub error: io::Error,
    /// Type and code of the ICMP message, where one came; otherwise this machine found out.
    pub icmp: Option<(u8, u8)>,
    /// How much of the datagram came back.
    pub length: usize,
}

/// From now on the kernel keeps the errors of what `socket`, a datagram socket, sends, for
/// [`next_undelivered`].
///
/// # Errors
/// As `setsockopt`.
pub fn keep_errors(socket: BorrowedFd<'_>, ipv6: bool) -> io::Result<()> {
    let (level, option) = if ipv6 {
        (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
    } else {
        (libc::IPPROTO_IP, libc::IP_RECVERR)
    };
    let on: libc::c_int = 1;
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the option's value is an int of the given size, and it outlives the call.
    match unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const on).cast(),
            size,
        )
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Takes the next kept error. What came back of the datagram is put into `payload`.
///
/// # Errors
/// As `recvmsg`, but for `EAGAIN`: then there is none.
pub fn next_undelivered(
    socket: BorrowedFd<'_>,
    payload: &mut [u8],
) -> io::Result<Option<Undelivered>> {
    // SAFETY: a sockaddr_storage and a msghdr are plain data for which all zeros is a value.
    let mut name: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // Words, so that the headers in it are aligned.
    let mut control = [0_u64; CONTROL_SIZE / 8];
    let mut vector = libc::iovec {
        iov_base: payload.as_mut_ptr().cast(),
        iov_len: payload.len(),
    };
    message.msg_name = (&raw mut name).cast();
    message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_SIZE;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the message points to a name, a vector and a control buffer of the sizes that it says,
    // all of them writable, and all of them outlive the call.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    if length < 0 {
        let error = io::Error::last_os_error();
        let none = error.kind() == io::ErrorKind::WouldBlock;
        return if none { Ok(None) } else { Err(error) };
    }
    let to = address(&name).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    let extended = extended_error(&message);
    Ok(Some(Undelivered {
        to,
        error: io::Error::from_raw_os_error(extended.map_or(libc::EIO, |one| one.ee_errno as i32)),
        icmp: extended
            .filter(|one| one.ee_origin != libc::SO_EE_ORIGIN_LOCAL)
            .map(|one| (one.ee_type, one.ee_code)),
        length: length as usize,
    }))
}

/// Whether the next byte that a read of `socket`, a TCP one, would take is the urgent one.
///
/// # Errors
/// As `ioctl`.
pub fn at_urgent_mark(socket: impl AsFd) -> io::Result<bool> {
    let mut at: libc::c_int = 0;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: SIOCATMARK writes one int, to a place that outlives the call.
    match unsafe { libc::ioctl(fd, SIOCATMARK, &raw mut at) } {
        0 => Ok(at != 0),
        _ => Err(io::Error::last_os_error()),
    }
}

/// How many bytes were written to `socket`, a TCP one, that its peer has not acknowledged; the end of
/// its stream counts as one.
///
/// # Errors
/// As `ioctl`.
pub fn unacknowledged(socket: impl AsFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: TIOCOUTQ, which is SIOCOUTQ, writes one int, to a place that outlives the call.
    match unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut bytes) } {
        0 => Ok(bytes.try_into().unwrap_or(0)),
        _ => Err(io::Error::last_os_error()),
    }
}

fn extended_error(message: &libc::msghdr) -> Option<libc::sock_extended_err> {
    // SAFETY: the kernel filled the message, so its control buffer holds msg_controllen bytes of
    // headers, each with its data; CMSG_FIRSTHDR and CMSG_NXTHDR stay within.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            let kind = ((*header).cmsg_level, (*header).cmsg_type);
            let wanted = kind == (libc::IPPROTO_IP, libc::IP_RECVERR)
                || kind == (libc::IPPROTO_IPV6, libc::IPV6_RECVERR);
            let size = size_of::<libc::sock_extended_err>();
            if wanted && (*header).cmsg_len as usize >= libc::CMSG_LEN(size as u32) as usize {
                let data = libc::CMSG_DATA(header).cast::<libc::sock_extended_err>();
                return Some(data.read_unaligned());
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}

fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let bytes = (&raw const *name).cast::<u8>();
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that a sockaddr_in is there, and a sockaddr_storage has room
            // for every kind of address.
            let address = unsafe { bytes.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            Some(SocketAddr::new(ip.into(), u16::from_be(address.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above, with a sockaddr_in6.
            let address = unsafe { bytes.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            Some(SocketAddr::new(
                IpAddr::V6(ip),
                u16::from_be(address.sin6_port),
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn a_datagram_to_a_closed_port_comes_back() {
        for (host, ipv6) in [("127.0.0.1", false), ("::1", true)] {
            let Ok(socket) = UdpSocket::bind((host, 0)) else {
                continue;
            };
            let closed = UdpSocket::bind((host, 0)).expect("bind");
            let to = closed.local_addr().expect("its address");
            drop(closed);
            keep_errors(socket.as_fd(), ipv6).expect("keep");
            let mut payload = [0; 100];
            assert!(
                next_undelivered(socket.as_fd(), &mut payload)
                    .expect("look")
                    .is_none()
            );
            socket.send_to(b"hello", to).expect("send");
            let back = next_undelivered(socket.as_fd(), &mut payload).expect("look");
            let back = back.expect("loopback answers at once");
            assert_eq!((back.to, back.length), (to, 5));
            assert_eq!(&payload[..5], b"hello");
            assert_eq!(back.error.raw_os_error(), Some(libc::ECONNREFUSED));
            assert_eq!(back.icmp, Some(if ipv6 { (1, 4) } else { (3, 3) }));
        }
    }

    #[test]
    fn a_read_stops_before_the_urgent_mark() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let mut client =
            TcpStream::connect(listener.local_addr().expect("its address")).expect("connect");
        let (server, _) = listener.accept().expect("accept");
        client.write_all(b"before").expect("write");
        rustix::net::send(&client, b"!", rustix::net::SendFlags::OOB).expect("send");
        client.write_all(b"after").expect("write");
        let mut buffer = [0; 100];
        assert!(!at_urgent_mark(&server).expect("look"));
        assert_eq!(rustix::io::read(&server, &mut buffer), Ok(6));
        assert!(at_urgent_mark(&server).expect("look"));
    }
}
