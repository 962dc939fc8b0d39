//! What is allowed behaves as without Surmise.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags};
use surmise_network::Verdict;

use crate::servers::{accept, assert_echoes, echo, failure, listen, nobody, read_all, read_some};
use crate::world::{FAR, FAR_V6, HERE, Options, World};

pub fn an_allowed_connection_reaches_its_server() {
    let world = World::all(Verdict::Allow);
    for address in [FAR, FAR_V6] {
        let server = echo(address);
        let mut client = world.connect(server).expect("connect");
        assert_eq!(client.peer_addr().expect("its peer"), server);
        assert_echoes(&mut client, b"hello");
        assert_echoes(&mut client, &vec![7; 1 << 16]);
    }
}

pub fn the_outcome_of_a_connect_is_that_of_outside() {
    let world = World::all(Verdict::Allow);
    for address in [FAR, FAR_V6] {
        let error = world.connect(nobody(address)).expect_err("nobody listens");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    }
    // The outer network has no route but its own addresses.
    let nowhere = SocketAddr::from(([198, 51, 100, 1], 9));
    let outside = crate::world::connect(nowhere).expect_err("no route");
    let inside = world.connect(nowhere).expect_err("no route");
    assert_eq!(inside.kind(), outside.kind());
}

pub fn a_listed_loopback_port_reaches_the_host() {
    let server = echo(HERE);
    let closed = nobody(HERE);
    let options = Options::new(Verdict::Deny)
        .with(server, Verdict::Allow)
        .with(closed, Verdict::Allow);
    let world = World::new(options);
    let mut relayed = world.connect(server).expect("connect");
    assert_echoes(&mut relayed, b"hello");
    let error = world.connect(closed).expect_err("nobody listens");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    // A server inside wins its own port, and lets go on what was there before.
    let inside = world.inside(move || std::net::TcpListener::bind(server));
    let inside = inside.expect("the port is free inside");
    let mut client = world.connect(server).expect("connect");
    client.write_all(b"inside").expect("write");
    let mut got = accept(&inside);
    assert_eq!(read_some(&mut got, 6), b"inside");
    assert_echoes(&mut relayed, b"still here");
}

pub fn a_half_closed_connection_still_gets_its_reply() {
    let world = World::all(Verdict::Allow);
    let (listener, server) = listen(FAR);
    let mut client = world.connect(server).expect("connect");
    let mut got = accept(&listener);
    client.write_all(b"question").expect("write");
    client.shutdown(Shutdown::Write).expect("shut down");
    assert_eq!(read_all(&mut got), b"question");
    got.write_all(b"answer").expect("write");
    drop(got);
    assert_eq!(read_all(&mut client), b"answer");
    // And the other way round.
    let mut client = world.connect(server).expect("connect");
    let mut got = accept(&listener);
    got.write_all(b"greeting").expect("write");
    got.shutdown(Shutdown::Write).expect("shut down");
    assert_eq!(read_all(&mut client), b"greeting");
    client.write_all(b"late").expect("write");
    drop(client);
    assert_eq!(read_all(&mut got), b"late");
}

pub fn a_reset_is_passed_on_both_ways() {
    let world = World::all(Verdict::Allow);
    let (listener, server) = listen(FAR);
    let reset = |stream: std::net::TcpStream| {
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("set");
    };
    let mut client = world.connect(server).expect("connect");
    reset(accept(&listener));
    assert_eq!(failure(&mut client), Some(ErrorKind::ConnectionReset));
    let client = world.connect(server).expect("connect");
    let mut got = accept(&listener);
    reset(client);
    assert_eq!(failure(&mut got), Some(ErrorKind::ConnectionReset));
}

pub fn urgent_data_keeps_its_place() {
    let world = World::all(Verdict::Allow);
    let (listener, server) = listen(FAR);
    let mut client = world.connect(server).expect("connect");
    let mut got = accept(&listener);
    client.write_all(b"before").expect("write");
    rustix::net::send(&client, b"!", SendFlags::OOB).expect("send");
    client.write_all(b"after").expect("write");
    client.shutdown(Shutdown::Write).expect("shut down");
    assert_eq!(read_some(&mut got, 6), b"before");
    let mut byte = [0];
    surmise_testkit::watchdog::until("the urgent byte", crate::world::SOON, || {
        rustix::net::recv(&got, &mut byte, RecvFlags::OOB).is_ok()
    });
    assert_eq!(&byte, b"!");
    let mut rest = Vec::new();
    got.read_to_end(&mut rest).expect("read");
    assert_eq!(rest, b"after");
}
