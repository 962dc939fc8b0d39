//! What several tests do, and with which addresses.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::packet::Syn;
use crate::relay::Seen;
use crate::world::Network;

/// A loopback port that is gated where not all are.
pub const LISTED: u16 = 7001;
/// One that is not.
pub const OTHER: u16 = 7002;

pub fn v4(port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(192, 0, 2, 7).into(), port)
}

pub fn v6(port: u16) -> SocketAddr {
    SocketAddr::new(
        "2001:db8::7"
            .parse::<Ipv6Addr>()
            .expect("an address")
            .into(),
        port,
    )
}

pub fn local(port: u16) -> [SocketAddr; 3] {
    [
        SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port),
        SocketAddr::new(Ipv4Addr::new(127, 3, 2, 1).into(), port),
        SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port),
    ]
}

/// Sends through `stream` and expects it back, then ends both directions.
pub fn converse(mut stream: TcpStream) {
    let message = vec![7; 100_000];
    let expected = message.clone();
    let mut writer = stream.try_clone().expect("clone");
    let thread = std::thread::spawn(move || {
        writer.write_all(&message).expect("send");
        writer.shutdown(Shutdown::Write).expect("half-close");
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).expect("receive");
    thread.join().expect("the writer");
    assert!(received == expected, "{} bytes came back", received.len());
}

/// The relay's next SYN, with its owner's inode.
pub fn next_syn(network: &Network) -> (Syn, u64) {
    match network.seen() {
        Seen::Syn(syn, owner) => (syn, owner.expect("the socket's owner").inode),
        seen => panic!("the relay has seen {seen:?}"),
    }
}

pub fn expect_accepted(network: &Network, source: SocketAddr, destination: SocketAddr) {
    match network.seen() {
        Seen::Accepted(from, to, true) => assert_eq!((from, to), (source, destination)),
        seen => panic!("the relay has seen {seen:?}"),
    }
}

pub fn inode(socket: &impl AsFd) -> u64 {
    rustix::fs::fstat(socket).expect("stat").st_ino
}

pub fn refused(address: SocketAddr) {
    let error = TcpStream::connect(address).expect_err("refused");
    assert_eq!(
        error.kind(),
        ErrorKind::ConnectionRefused,
        "{address}: {error}"
    );
}

pub fn new_socket(flags: SocketFlags) -> OwnedFd {
    let flags = flags | SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
        .expect("a socket")
}
