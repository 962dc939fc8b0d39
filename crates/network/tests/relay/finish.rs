//! The end of a domain whose programs have just sent something.

use std::io::{ErrorKind, Read, Write};
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use surmise_network::{Event, Verdict};

use crate::servers::{accept, failure, listen, read_all, read_some};
use crate::world::{FAR, FAR_V6, HERE, Options, SOON, World, connect};

/// Longer than any scenario.
const PATIENCE: Duration = Duration::from_secs(600);

/// Bytes that are not the same everywhere.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

pub fn a_slow_receiver_gets_everything() {
    const SIZE: usize = 50 << 20;
    for (address, rest) in [(FAR, SIZE), (FAR_V6, 3), (HERE, SIZE)] {
        let (listener, server) = listen(address);
        let mut world = World::new(Options::new(Verdict::Allow).with(server, Verdict::Allow));
        let written = world.begin_inside(move || {
            let mut client = connect(server).expect("connect");
            client.write_all(&pattern(rest)).expect("write");
            // Closed here, as by an exit.
        });
        let mut got = accept(&listener);
        let mut bytes = vec![0; rest];
        let (first, last) = bytes.split_at_mut(rest.saturating_sub(64 << 10));
        got.read_exact(first).expect("read");
        written.recv_timeout(SOON).expect("the program ends");
        world.relay.finish(PATIENCE);
        for part in last.chunks_mut(1 << 10) {
            thread::sleep(Duration::from_millis(5));
            got.read_exact(part).expect("read");
        }
        assert!(bytes == pattern(rest), "the bytes came as they were sent");
        assert_eq!(read_all(&mut got), b"");
        world.wait();
    }
}

pub fn replies_to_nobody_break_nothing_off() {
    let mut world = World::all(Verdict::Allow);
    let (listener, server) = listen(FAR);
    let written = world.begin_inside(move || {
        let mut client = connect(server).expect("connect");
        client.write_all(&pattern(3 << 20)).expect("write");
    });
    let mut got = accept(&listener);
    assert_eq!(read_some(&mut got, 1 << 20), &pattern(1 << 20)[..]);
    written.recv_timeout(SOON).expect("the program ends");
    world.relay.finish(PATIENCE);
    // Carried out when the one behind it is.
    world.quiesce();
    for _ in 0..64 {
        // Refused once this side's kernel has taken all: then nobody needs the connection.
        if got.write_all(&[7; 64 << 10]).is_err() {
            break;
        }
    }
    assert!(read_all(&mut got) == pattern(3 << 20)[1 << 20..]);
    world.wait();
}

pub fn who_takes_nothing_is_given_up() {
    let mut world = World::all(Verdict::Allow);
    let (listener, server) = listen(FAR);
    let client = world.connect(server).expect("connect");
    let got = accept(&listener);
    client.set_nonblocking(true).expect("set");
    let mut client = client;
    while client.write(&[1; 64 << 10]).is_ok() {
        // As much as there is room for, whose end the receiver does not come to.
        thread::sleep(Duration::from_millis(1));
    }
    drop(client);
    world.relay.finish(Duration::from_millis(300));
    let peer = world.event_of(|event| match event {
        Event::Cut { peer } => Some(peer),
        _ => None,
    });
    assert_eq!(peer, server.to_string());
    world.wait();
    drop(got);
}

pub fn a_stop_waits_for_nobody() {
    let mut world = World::all(Verdict::Allow);
    let (listener, server) = listen(FAR);
    let client = world.connect(server).expect("connect");
    let _got = accept(&listener);
    // It stays open, so it has no end.
    world.relay.finish(PATIENCE);
    world.quiesce();
    world.stop();
    drop(client);
}

pub fn datagrams_leave_before_the_end() {
    let mut world = World::all(Verdict::Allow);
    let server = UdpSocket::bind((FAR, 0)).expect("bind");
    server.set_read_timeout(Some(SOON)).expect("set");
    let to = server.local_addr().expect("an address");
    world.inside(move || {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("bind");
        for number in 0..100_u32 {
            socket.send_to(&number.to_ne_bytes(), to).expect("send");
        }
    });
    world.relay.finish(PATIENCE);
    world.wait();
    for number in 0..100_u32 {
        let mut bytes = [0; 8];
        let (length, _) = server.recv_from(&mut bytes).expect("it arrives");
        assert_eq!(bytes[..length], number.to_ne_bytes());
    }
}

pub fn what_came_before_a_reset_is_passed_on() {
    let world = World::all(Verdict::Allow);
    let (listener, server) = listen(FAR);
    for _ in 0..200 {
        let mut client = world.connect(server).expect("connect");
        let mut got = accept(&listener);
        client.write_all(b"last words").expect("write");
        rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).expect("set");
        drop(client);
        assert_eq!(read_some(&mut got, 10), b"last words");
        assert_eq!(failure(&mut got), Some(ErrorKind::ConnectionReset));
    }
}
