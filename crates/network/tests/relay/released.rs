//! What is held is sent while its program runs.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use surmise_network::{Event, Verdict};

use crate::held::{finished, held, waits_after};
use crate::servers::{accept, assert_echoes, echo, failure, listen, nobody, nobody_came};
use crate::servers::{read_all, read_some};
use crate::world::{FAR, HERE, Options, World};

pub fn a_living_program_gets_its_reply_and_is_held_again() {
    let world = World::all(Verdict::Hold);
    let (listener, server) = listen(FAR);
    let mut client = world.connect(server).expect("connect");
    client.write_all(b"first").expect("write");
    let (hold, _) = held(&world);
    waits_after(&world, hold, 5);
    assert_eq!(world.release().sent.len(), 1);
    let mut got = accept(&listener);
    assert_eq!(read_some(&mut got, 5), b"first");
    got.write_all(b"reply").expect("write");
    assert_eq!(read_some(&mut client, 5), b"reply");
    // From now on it is held again, and leaves by the same connection.
    client.write_all(b"second").expect("write");
    waits_after(&world, hold, 11);
    got.set_nonblocking(true).expect("set");
    assert_eq!(failure(&mut got), Some(ErrorKind::WouldBlock));
    got.set_nonblocking(false).expect("set");
    let released = world.release();
    assert_eq!(released.sent[0].1, 6, "{released:?}");
    assert_eq!(read_some(&mut got, 6), b"second");
    got.write_all(b"another").expect("write");
    assert_eq!(read_some(&mut client, 7), b"another");
    nobody_came(&listener);
    // Its end is held as well.
    client.write_all(b"last").expect("write");
    drop(client);
    finished(&world, hold, surmise_outbox::End::Closed);
    assert_eq!(world.release().sent[0].1, 4);
    assert_eq!(read_all(&mut got), b"last");
}

pub fn a_half_closed_program_gets_its_reply() {
    let world = World::all(Verdict::Hold);
    let (listener, server) = listen(FAR);
    let mut client = world.connect(server).expect("connect");
    client.write_all(b"question").expect("write");
    client.shutdown(Shutdown::Write).expect("shut down");
    let (hold, _) = held(&world);
    waits_after(&world, hold, 8);
    assert_eq!(world.release().sent.len(), 1);
    let mut got = accept(&listener);
    assert_eq!(read_all(&mut got), b"question");
    got.write_all(b"answer").expect("write");
    drop(got);
    assert_eq!(read_all(&mut client), b"answer");
}

pub fn an_allowed_host_is_relayed_from_then_on() {
    let server = echo(HERE);
    // Even against a rule that names the port.
    let world = World::new(Options::new(Verdict::Hold).with(server, Verdict::Hold));
    let mut first = world.connect(server).expect("connect");
    first.write_all(b"one").expect("write");
    let (hold, _) = held(&world);
    waits_after(&world, hold, 3);
    let mut second = world.connect(server).expect("connect");
    second.write_all(b"two").expect("write");
    let (other, _) = held(&world);
    waits_after(&world, other, 3);
    world.relay.decide(hold, Verdict::Allow);
    for (client, text) in [(&mut first, b"one"), (&mut second, b"two")] {
        assert_eq!(read_some(client, 3), text);
        assert_echoes(client, b"and more");
    }
    assert_echoes(&mut world.connect(server).expect("connect"), b"directly");
    assert!(!world.has_more_held(), "nothing else is held");
}

pub fn a_denied_host_sees_nothing() {
    let (listener, server) = listen(FAR);
    let world = World::all(Verdict::Hold);
    let mut client = world.connect(server).expect("connect");
    client.write_all(b"hello").expect("write");
    let (hold, _) = held(&world);
    waits_after(&world, hold, 5);
    world.relay.decide(hold, Verdict::Deny);
    assert_eq!(failure(&mut client), Some(ErrorKind::ConnectionReset));
    let error = world.connect(server).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    assert!(world.outbox.pending().is_empty());
    assert!(world.release().sent.is_empty());
    nobody_came(&listener);
}

pub fn an_unreachable_receiver_is_told_of() {
    let world = World::all(Verdict::Hold);
    let mut living = world.connect(nobody(FAR)).expect("connect");
    living.write_all(b"hello").expect("write");
    let (hold, target) = held(&world);
    waits_after(&world, hold, 5);
    let mut ended = world.connect(nobody(FAR)).expect("connect");
    ended.write_all(b"hello").expect("write");
    let (kept, _) = held(&world);
    drop(ended);
    finished(&world, kept, surmise_outbox::End::Closed);
    let (listener, server) = listen(FAR);
    let mut fine = world.connect(server).expect("connect");
    fine.write_all(b"fine").expect("write");
    let (sent, _) = held(&world);
    waits_after(&world, sent, 4);
    let released = world.release();
    assert_eq!((released.sent.len(), released.failed.len()), (1, 2));
    let (failed, sent, error) = &released.failed[0];
    assert_eq!((failed, *sent), (&target, 0));
    assert!(error.contains("refused"), "{error}");
    assert_eq!(read_some(&mut accept(&listener), 4), b"fine");
    // A program that lives sees it; what one has left stays for another attempt.
    assert_eq!(failure(&mut living), Some(ErrorKind::ConnectionReset));
    let pending = world.outbox.pending();
    assert_eq!(pending.len(), 1);
    assert_eq!(pending[0].hold, kept);
}

pub fn a_receiver_that_resets_is_noticed() {
    let world = World::all(Verdict::Hold);
    let (listener, server) = listen(FAR);
    let mut client = world.connect(server).expect("connect");
    client.write_all(b"first").expect("write");
    let (hold, _) = held(&world);
    waits_after(&world, hold, 5);
    assert_eq!(world.release().sent.len(), 1);
    let got = accept(&listener);
    client.write_all(b"second").expect("write");
    waits_after(&world, hold, 11);
    rustix::net::sockopt::set_socket_linger(&got, Some(Duration::ZERO)).expect("set");
    drop(got);
    assert_eq!(failure(&mut client), Some(ErrorKind::ConnectionReset));
    // The program knows that it did not get through; so nobody sends it later.
    assert!(world.release().sent.is_empty());
    nobody_came(&listener);
}

pub fn an_earlier_reply_is_not_lost() {
    const SIZE: usize = 8 << 20;
    let world = World::all(Verdict::Hold);
    let server = echo(FAR);
    let mut client = world.connect(server).expect("connect");
    let mut writer = client.try_clone().expect("a copy");
    // The server sends back all that it gets, while more is sent to it.
    let bytes: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
    let sent = bytes.clone();
    let done = world.begin_inside(move || writer.write_all(&sent).expect("write"));
    done.recv_timeout(crate::world::SOON).expect("all is held");
    // It is all held when so much of it is.
    world.event_of(|event| match event {
        Event::Waiting { bytes, .. } => (bytes == SIZE as u64).then_some(()),
        _ => None,
    });
    world.order_release();
    let got = read_some(&mut client, SIZE);
    assert!(got == bytes, "the bytes came as they were sent");
}

pub fn a_server_that_takes_one_after_the_other_gets_all_in_order() {
    const MANY: usize = 40;
    let (listener, server) = listen(FAR);
    // Room for two that it has not accepted.
    rustix::net::listen(&listener, 1).expect("listen");
    let world = World::all(Verdict::Hold);
    for number in 0..MANY {
        let mut client = world.connect(server).expect("connect");
        write!(client, "message {number}").expect("write");
        let (hold, _) = held(&world);
        drop(client);
        finished(&world, hold, surmise_outbox::End::Closed);
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten().take(MANY) {
            let mut text = String::new();
            stream.read_to_string(&mut text).expect("read");
            stream.write_all(b"thanks").expect("write");
            sender.send(text).expect("somebody counts");
        }
    });
    let released = world.release();
    assert_eq!((released.sent.len(), released.failed.len()), (MANY, 0));
    let got: Vec<String> = receiver.iter().collect();
    let wanted: Vec<String> = (0..MANY)
        .map(|number| format!("message {number}"))
        .collect();
    assert_eq!(got, wanted);
}
