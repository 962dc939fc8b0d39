//! Receivers of every manner.

use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::thread;
use std::time::Duration;

use surmise_outbox::{Cause, End, HeldState, Outbox, load};
use surmise_testkit::{Scratch, watchdog};

use crate::delivery::{deliver, much, prepare, show_nothing, states, wait_quiet};
use crate::server::{Manner, Server};
use crate::{directory, tcp};

#[test]
fn a_receiver_that_takes_one_connection_after_the_other_sees_them_in_order() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    let server = Server::iterative(Manner::Answer);
    let outbox = Outbox::open(&directory).expect("open");
    let wanted: Vec<_> = (0..300u32)
        .map(|index| index.to_le_bytes().to_vec())
        .collect();
    for bytes in &wanted {
        let hold = outbox.hold(tcp(server.port), None);
        outbox.append(hold, bytes);
        outbox.finish(hold, End::Closed);
    }
    let delivered = deliver(&outbox);
    assert!(delivered.failed.is_empty(), "{:?}", delivered.failed);
    wait_quiet(&server);
    let seen: Vec<_> = server.seen().into_iter().map(|seen| seen.bytes).collect();
    assert_eq!(seen, wanted);
}

#[test]
fn a_receiver_has_done_with_a_channel_before_the_next_one_comes() {
    let scratch = Scratch::new();
    let server = Server::start(Manner::Pause);
    let outbox = Outbox::open(&directory(&scratch)).expect("open");
    for _ in 0..4 {
        outbox.append(outbox.hold(tcp(server.port), None), b"hello");
    }
    let delivered = deliver(&outbox);
    assert_eq!(delivered.sent.len(), 4);
    wait_quiet(&server);
    let seen = server.seen();
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(|seen| seen.was_alone), "{seen:?}");
}

#[test]
fn a_connection_that_the_receiver_closed_before_delivery_is_made_again() {
    let scratch = Scratch::new();
    let outbox = Outbox::open(&directory(&scratch)).expect("open");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listen");
    let port = listener.local_addr().expect("an address").port();
    outbox.append(outbox.hold(tcp(port), None), b"hello");
    let delivery = prepare(&outbox);
    drop(listener.accept().expect("the connection made ahead"));
    let receiver = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("another connection");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("read");
        bytes
    });
    let delivered = delivery.deliver(&mut show_nothing);
    assert_eq!(delivered.sent, [(tcp(port), 5)], "{:?}", delivered.failed);
    let bytes = watchdog::within(watchdog::LIMIT, || receiver.join().expect("no panic"));
    assert_eq!(bytes, b"hello");
}

#[test]
fn a_receiver_that_answers_while_it_reads_gets_everything() {
    let scratch = Scratch::new();
    let server = Server::start(Manner::Echo);
    let outbox = Outbox::open(&directory(&scratch)).expect("open");
    let hold = outbox.hold(tcp(server.port), None);
    outbox.append(hold, &much());
    let delivered = deliver(&outbox);
    assert!(delivered.failed.is_empty(), "{:?}", delivered.failed);
    wait_quiet(&server);
    assert!(server.seen()[0].bytes == much());
}

#[test]
fn a_receiver_that_never_closes_is_waited_for_once() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    let server = Server::start(Manner::NeverClose);
    let outbox = Outbox::open(&directory).expect("open");
    // Were each of them waited for, this would take minutes.
    for _ in 0..600 {
        outbox.append(outbox.hold(tcp(server.port), None), b"hello");
    }
    let delivered = watchdog::within(Duration::from_secs(60), move || deliver(&outbox));
    assert!(delivered.failed.is_empty(), "{:?}", delivered.failed);
    assert_eq!(delivered.sent.len(), 600);
    wait_quiet(&server);
    assert!(server.seen().iter().all(|seen| seen.bytes == b"hello"));
}

#[test]
fn a_receiver_that_never_reads_is_given_up_with_the_bytes_that_left() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    let (dead, alive) = (
        Server::start(Manner::NeverRead),
        Server::start(Manner::Answer),
    );
    let outbox = Outbox::open(&directory).expect("open");
    outbox.append(outbox.hold(tcp(dead.port), None), &much());
    outbox.append(outbox.hold(tcp(alive.port), None), b"hello");
    outbox.append(outbox.hold(tcp(dead.port), None), b"later");
    let sender = outbox.clone();
    let delivered = watchdog::within(Duration::from_secs(30), move || deliver(&sender));
    assert_eq!(delivered.sent, [(tcp(alive.port), 5)]);
    let [first, later] = &delivered.failed[..] else {
        panic!("{:?}", delivered.failed);
    };
    assert!(
        (1..much().len() as u64).contains(&first.sent),
        "{}",
        first.sent
    );
    assert!(!first.is_held);
    assert_eq!((later.sent, later.is_held), (0, true));
    for failure in [first, later] {
        let timed_out = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
        assert!(matches!(&failure.source, Cause::Io(error) if timed_out(error)));
    }
    let wanted = [
        HeldState::Failed { errno: 110 },
        HeldState::Sent,
        HeldState::Open,
    ];
    assert_eq!(states(&directory), wanted);
    assert_eq!(load(&directory).expect("load").channels[0].sent, first.sent);
}

#[test]
fn a_receiver_that_resets_is_a_failure() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    let server = Server::start(Manner::Reset);
    let outbox = Outbox::open(&directory).expect("open");
    outbox.append(outbox.hold(tcp(server.port), None), b"hello");
    outbox.append(outbox.hold(tcp(server.port), None), &much());
    let delivered = deliver(&outbox);
    assert_eq!(delivered.sent, []);
    assert_eq!(delivered.failed.len(), 2);
    for failure in &delivered.failed {
        let Cause::Io(error) = &failure.source else {
            panic!("{failure:?}");
        };
        let kinds = [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
        assert!(kinds.contains(&error.kind()), "{error}");
    }
    let failed = |state: &HeldState| matches!(state, HeldState::Failed { .. });
    assert!(states(&directory).iter().all(failed));
    assert_eq!(delivered.failed[0].sent, 5);
}
