//! Who may reach whom.

use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use surmise_network::{Event, Verdict};

use crate::servers::{accept, assert_echoes, echo, listen, nobody_came, read_some};
use crate::world::{FAR, FAR_TOO, HERE, Options, World, connect};

pub fn each_refusal_is_told_with_what_allows_it() {
    let (listener, server) = listen(FAR);
    let world = World::new(Options::new(Verdict::Allow).with(server, Verdict::Deny));
    for _ in 0..3 {
        let error = world.connect(server).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    }
    for _ in 0..3 {
        let Event::Refused {
            peer,
            sender,
            allow,
            ..
        } = world.event()
        else {
            panic!("no event of a refusal");
        };
        assert_eq!(peer, server.to_string());
        assert_eq!(sender.expect("a sender").pid, std::process::id() as i32);
        assert_eq!(allow, Some(format!("--allow-net {server}")));
    }
    world.none_of(|_| true);
    nobody_came(&listener);
    // Others are not meant.
    assert_echoes(&mut world.connect(echo(FAR)).expect("connect"), b"hello");
}

pub fn a_question_is_asked_once_and_its_answer_counts() {
    let world = World::all(Verdict::Ask);
    let (first, second, other) = (echo(FAR), echo(FAR), echo(FAR_TOO));
    let connected = [first, first, second].map(|to| world.begin_inside(move || connect(to)));
    let (question, peer) = asked(&world);
    let known = [first, second].map(|address| address.to_string());
    assert!(known.contains(&peer), "{peer}");
    assert!(connected.iter().all(|one| one.try_recv().is_err()));
    world.relay.answer(question, Verdict::Allow);
    for connected in connected {
        let connected = connected.recv_timeout(crate::world::SOON);
        let mut client = connected.expect("an end").expect("connect");
        assert_echoes(&mut client, b"hello");
    }
    // The answer holds for the host, and for no other.
    assert_echoes(&mut world.connect(second).expect("connect"), b"again");
    world.none_of(|_| true);
    let waiting = world.begin_inside(move || connect(other));
    let (question, peer) = asked(&world);
    assert_eq!(peer, other.to_string());
    world.relay.answer(question, Verdict::Allow);
    let waiting = waiting.recv_timeout(crate::world::SOON).expect("an end");
    waiting.expect("connect");
}

pub fn a_denied_question_refuses_the_connection() {
    let world = World::all(Verdict::Ask);
    let (listener, server) = listen(FAR);
    let waiting = world.begin_inside(move || connect(server));
    let (question, _) = asked(&world);
    world.relay.answer(question, Verdict::Deny);
    let waiting = waiting.recv_timeout(crate::world::SOON).expect("an end");
    let error = waiting.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    nobody_came(&listener);
}

pub fn a_late_answer_makes_one_connection() {
    let world = World::all(Verdict::Ask);
    let (listener, server) = listen(FAR);
    let waiting = world.begin_inside(move || connect(server));
    let (question, _) = asked(&world);
    // The kernel inside has sent the SYN again by then, twice.
    assert!(waiting.recv_timeout(Duration::from_millis(2500)).is_err());
    world.relay.answer(question, Verdict::Allow);
    let waiting = waiting.recv_timeout(crate::world::SOON).expect("an end");
    let mut client = waiting.expect("connect");
    client.write_all(b"late").expect("write");
    assert_eq!(read_some(&mut accept(&listener), 4), b"late");
    nobody_came(&listener);
}

pub fn who_has_given_up_is_not_connected() {
    let world = World::all(Verdict::Ask);
    let (listener, server) = listen(FAR);
    let socket = world.inside(move || {
        let flags = SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None);
        let socket = socket.expect("a socket");
        let begun = rustix::net::connect(&socket, &server);
        assert_eq!(begun, Err(Errno::INPROGRESS));
        socket
    });
    let (question, _) = asked(&world);
    drop(socket);
    world.relay.answer(question, Verdict::Allow);
    // Whoever comes now is connected, and nobody was before.
    let mut client = world.connect(server).expect("connect");
    client.write_all(b"now").expect("write");
    assert_eq!(read_some(&mut accept(&listener), 3), b"now");
    nobody_came(&listener);
}

pub fn an_answer_about_loopback_covers_one_port() {
    let world = World::all(Verdict::Ask);
    let (first, second) = (echo(HERE), echo(HERE));
    for server in [first, second] {
        let waiting = world.begin_inside(move || connect(server));
        let (question, peer) = asked(&world);
        assert_eq!(peer, server.to_string());
        world.relay.answer(question, Verdict::Allow);
        let waiting = waiting.recv_timeout(crate::world::SOON).expect("an end");
        assert_echoes(&mut waiting.expect("connect"), b"hello");
    }
    // Servers inside are nobody's question.
    let inside = world.inside(|| std::net::TcpListener::bind((HERE, 0)).expect("listen"));
    let address: SocketAddr = inside.local_addr().expect("its address");
    world.connect(address).expect("connect");
    world.none_of(|event| matches!(event, Event::Asked { .. }));
}

fn asked(world: &World) -> (u64, String) {
    match world.event() {
        Event::Asked {
            question,
            peer,
            sender,
        } => {
            assert_eq!(sender.expect("a sender").pid, std::process::id() as i32);
            (question, peer)
        }
        other => panic!("no question but {other:?}"),
    }
}
