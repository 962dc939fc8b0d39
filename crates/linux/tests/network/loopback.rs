//! Connections to loopback addresses, with and without a server inside.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};

use surmise_linux::network::gate::{ADDRESS_V4, ADDRESS_V6};

use crate::relay::{Answer, Seen};
use crate::steps::*;
use crate::world::Network;

pub fn the_listener_is_closed_to_programs_inside(network: &mut Network) {
    let listener = &network.gate().listener;
    let address = rustix::net::getsockname(listener).expect("an address");
    let port = SocketAddr::try_from(address)
        .expect("an internet address")
        .port();
    network.serve(|_| Answer::LetThrough);
    let own = [ADDRESS_V4.into(), ADDRESS_V6.into()].map(|ip| SocketAddr::new(ip, port));
    for address in local(port).into_iter().chain(own) {
        refused(address);
    }
    network.nothing_seen();
    // The port of another address is a port like any.
    TcpStream::connect(v4(port)).expect("connect");
    next_syn(network);
}

pub fn loopback_servers_work_untouched(network: &mut Network) {
    network.serve(|_| Answer::Refuse);
    for address in local(OTHER)
        .into_iter()
        .chain([SocketAddr::new(ADDRESS_V4.into(), OTHER)])
    {
        refused(address);
        let server = TcpListener::bind(address).expect("bind");
        let client = TcpStream::connect(address).expect("connect");
        let (stream, peer) = server.accept().expect("accept");
        assert_eq!(peer, client.local_addr().expect("an address"));
        let echo = std::thread::spawn(move || {
            let mut from = stream.try_clone().expect("clone");
            std::io::copy(&mut from, &mut &stream).expect("echo");
        });
        converse(client);
        echo.join().expect("the echo");
    }
    network.nothing_seen();
}

pub fn a_listed_port_without_a_server_is_gated(network: &mut Network) {
    network.serve(|_| Answer::LetThrough);
    for address in local(LISTED) {
        let stream = TcpStream::connect(address).expect("connect");
        let (syn, owner) = next_syn(network);
        assert_eq!(syn.destination, address);
        assert_eq!(owner, inode(&stream));
        expect_accepted(network, syn.source, address);
        converse(stream);
    }
    network.nothing_seen();
}

pub fn a_server_inside_wins_its_port(network: &mut Network) {
    network.serve(|_| Answer::Refuse);
    let [localhost, other, localhost_v6] = local(LISTED);
    for (address, client) in [
        (localhost, localhost),
        (SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), LISTED), other),
        (localhost_v6, localhost_v6),
        (
            SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), LISTED),
            localhost_v6,
        ),
        (
            SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), LISTED),
            localhost,
        ),
    ] {
        let server = TcpListener::bind(address).expect("bind");
        let mut stream = TcpStream::connect(client).expect("connect");
        let (mut accepted, peer) = server.accept().expect("accept");
        assert_eq!(
            peer.ip().to_canonical(),
            stream.local_addr().expect("one").ip()
        );
        stream.write_all(b"x").expect("send");
        accepted.read_exact(&mut [0]).expect("receive");
        match network.seen() {
            Seen::Inside(destination) => assert_eq!(destination, client),
            seen => panic!("the relay has seen {seen:?}"),
        }
        // So that the port is free again at once.
        accepted.shutdown(Shutdown::Both).expect("end");
        drop(stream);
    }
    network.nothing_seen();
}

pub fn a_listed_port_can_be_refused(network: &mut Network) {
    network.serve(|_| Answer::Refuse);
    for address in local(LISTED) {
        refused(address);
        next_syn(network);
    }
    network.nothing_seen();
}
