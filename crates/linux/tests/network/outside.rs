//! Connections and datagrams to other machines.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use surmise_linux::network::gate::{ADDRESS_V4, ADDRESS_V6};

use crate::relay::{Answer, Seen};
use crate::steps::*;
use crate::world::Network;

pub fn a_connection_that_is_let_through_reaches_the_listener(network: &mut Network) {
    network.serve(|_| Answer::LetThrough);
    for (address, own) in [
        (v4(80), IpAddr::from(ADDRESS_V4)),
        (v6(443), ADDRESS_V6.into()),
    ] {
        let stream = TcpStream::connect(address).expect("connect");
        let source = stream.local_addr().expect("an address");
        assert_eq!(source.ip(), own);
        assert_eq!(stream.peer_addr().expect("an address"), address);
        let (syn, owner) = next_syn(network);
        assert_eq!((syn.source, syn.destination), (source, address));
        assert_eq!(owner, inode(&stream));
        expect_accepted(network, source, address);
        converse(stream);
    }
    network.nothing_seen();
}

pub fn a_refused_connection_is_refused(network: &mut Network) {
    network.serve(|_| Answer::Refuse);
    refused(v4(80));
    refused(v6(80));
    next_syn(network);
    next_syn(network);
    network.nothing_seen();
}

pub fn a_connection_waits_for_the_decision(network: &mut Network) {
    network.serve(|_| Answer::Wait);
    let stream = TcpStream::connect(v4(80)).expect("connect");
    let (first, second) = (next_syn(network), next_syn(network));
    assert_eq!(first.0.source, second.0.source);
    expect_accepted(network, stream.local_addr().expect("an address"), v4(80));
    converse(stream);
}

pub fn a_non_blocking_connect_is_in_progress(network: &mut Network) {
    let start = |address| {
        let socket = new_socket(SocketFlags::NONBLOCK);
        let result = rustix::net::connect(&socket, &address);
        assert_eq!(result, Err(Errno::INPROGRESS));
        socket
    };
    let (good, bad) = (start(v4(80)), start(v4(81)));
    network.serve(|syn| match syn.destination.port() {
        80 => Answer::LetThrough,
        _ => Answer::Refuse,
    });
    for (socket, expected) in [(good, Ok(())), (bad, Err(Errno::CONNREFUSED))] {
        let mut events = [PollFd::new(&socket, PollFlags::OUT)];
        rustix::event::poll(&mut events, None).expect("poll");
        let result = rustix::net::sockopt::socket_error(&socket).expect("ask");
        assert_eq!(result, expected);
    }
}

pub fn a_bound_source_is_kept(network: &mut Network) {
    network.serve(|_| Answer::LetThrough);
    let source = SocketAddr::new(ADDRESS_V4.into(), 12_345);
    let socket = new_socket(SocketFlags::empty());
    let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), source.port());
    rustix::net::bind(&socket, &any).expect("bind");
    rustix::net::connect(&socket, &v4(80)).expect("connect");
    assert_eq!(next_syn(network).0.source, source);
    expect_accepted(network, source, v4(80));
    converse(socket.into());
}

pub fn a_burst_of_connections_is_not_lost(network: &mut Network) {
    const COUNT: usize = 500;
    let sockets: Vec<OwnedFd> = (0..COUNT)
        .map(|number| {
            let socket = new_socket(SocketFlags::NONBLOCK);
            let result = rustix::net::connect(&socket, &v4(1000 + number as u16));
            assert_eq!(result, Err(Errno::INPROGRESS));
            socket
        })
        .collect();
    network.serve(|_| Answer::LetThrough);
    let (mut syns, mut accepted) = (0, 0);
    while accepted < COUNT {
        match network.seen() {
            Seen::Syn(..) => syns += 1,
            Seen::Accepted(_, _, true) => accepted += 1,
            seen => panic!("the relay has seen {seen:?}"),
        }
    }
    // One that was lost on the way would have been sent again.
    assert_eq!(syns, COUNT);
    for socket in sockets {
        rustix::io::ioctl_fionbio(&socket, false).expect("block");
        let mut stream = TcpStream::from(socket);
        stream.write_all(b"x").expect("send");
        stream.read_exact(&mut [0]).expect("receive");
    }
}

pub fn datagrams_come_out_whole(network: &mut Network) {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("bind");
    socket.send_to(&[9; 60_000], v4(53)).expect("send");
    let mut packet = vec![0; 70_000];
    let tun = &network.gate().tun;
    let mut events = [PollFd::new(tun, PollFlags::IN)];
    rustix::event::poll(&mut events, None).expect("poll");
    let length = rustix::io::read(tun, &mut packet).expect("a packet");
    assert_eq!((length, packet[0], packet[9]), (60_028, 0x45, 17));
    assert_eq!(packet[28..length], [9; 60_000]);
    // The kernel sends nothing of its own: no router is asked for, no group joined.
    assert_eq!(rustix::io::read(tun, &mut packet), Err(Errno::AGAIN));
}
