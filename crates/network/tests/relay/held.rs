//! What is held, and who waits for it.

use std::io::{ErrorKind, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal};
use surmise_network::{Event, Verdict};
use surmise_outbox::{End, HeldState, HoldId, Host, Target};

use crate::servers::{accept, failure, listen, nobody, nobody_came, read_all};
use crate::world::{FAR, FAR_V6, HERE, Options, World, connect};

pub fn nothing_leaves_before_the_release() {
    let (here, near) = listen(HERE);
    let world = World::new(Options::new(Verdict::Hold).with(near, Verdict::Hold));
    let (far, six) = (listen(FAR), listen(FAR_V6));
    let servers = [(far.0, far.1), (six.0, six.1), (here, near)];
    for (number, (_, server)) in servers.iter().enumerate() {
        let server = *server;
        world.inside(move || {
            let mut client = connect(server).expect("connect");
            assert_eq!(client.peer_addr().expect("its peer"), server);
            write!(client, "message {number}").expect("write");
        });
        let (hold, target) = held(&world);
        assert_eq!(hold, HoldId(number as u64 + 1));
        let host = Host::Address(server.ip());
        assert_eq!(target, Target::Tcp(host, server.port()));
        finished(&world, hold, End::Closed);
    }
    for (listener, _) in &servers {
        nobody_came(listener);
    }
    let released = world.release();
    assert_eq!(released.sent.len(), 3, "{released:?}");
    for (number, (listener, _)) in servers.iter().enumerate() {
        let got = read_all(&mut accept(listener));
        assert_eq!(got, format!("message {number}").into_bytes());
    }
    // Once.
    assert!(world.release().sent.is_empty());
    servers
        .iter()
        .for_each(|(listener, _)| nobody_came(listener));
}

pub fn a_program_that_waits_is_told_of() {
    let world = World::all(Verdict::Hold);
    let (_listener, server) = listen(FAR);
    let mut client = world.connect(server).expect("connect");
    let (hold, _) = held(&world);
    // A client may wait for a greeting.
    assert_eq!(waiting(&world, hold), 0);
    client.write_all(b"hello").expect("write");
    settled(&world, hold);
    assert_eq!(waiting(&world, hold), 5);
    client.write_all(b", again").expect("write");
    settled(&world, hold);
    assert_eq!(waiting(&world, hold), 12);
    drop(client);
    settled(&world, hold);
    finished(&world, hold, End::Closed);
}

pub fn a_half_closed_program_waits_until_it_closes() {
    let world = World::all(Verdict::Hold);
    let mut client = world.connect(nobody(FAR)).expect("connect");
    client.write_all(b"hello").expect("write");
    client.shutdown(Shutdown::Write).expect("shut down");
    let (hold, _) = held(&world);
    waits_after(&world, hold, 5);
    finished(&world, hold, End::Closed);
    drop(client);
    settled(&world, hold);
}

pub fn a_reset_is_noted() {
    let world = World::all(Verdict::Hold);
    let mut client = world.connect(nobody(FAR)).expect("connect");
    client.write_all(b"hello").expect("write");
    let (hold, _) = held(&world);
    waits_after(&world, hold, 5);
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).expect("set");
    drop(client);
    settled(&world, hold);
    finished(&world, hold, End::Reset);
}

pub fn what_was_sent_is_in_the_outbox_after_quiescing() {
    let world = World::all(Verdict::Hold);
    let server = nobody(FAR);
    let clients = send_from_many(&world, server);
    world.quiesce();
    let pending = surmise_outbox::load(world.state.path()).expect("load");
    assert_eq!(pending.channels.len(), clients.len());
    assert!(
        pending
            .channels
            .iter()
            .all(|channel| channel.bytes == 100_000)
    );
}

pub fn what_was_sent_is_in_the_outbox_after_the_end() {
    let mut world = World::all(Verdict::Hold);
    drop(send_from_many(&world, nobody(FAR)));
    world.stop();
    let pending = surmise_outbox::load(world.state.path()).expect("load");
    assert!(
        pending
            .channels
            .iter()
            .all(|channel| channel.bytes == 100_000)
    );
    let closed = HeldState::Finished(End::Closed);
    assert!(
        pending
            .channels
            .iter()
            .all(|channel| channel.state == closed)
    );
}

pub fn what_can_not_be_kept_is_reported() {
    let world = World::all(Verdict::Hold);
    let mut client = world.connect(nobody(FAR)).expect("connect");
    let (hold, _) = held(&world);
    // As on a full disk.
    let _mask = surmise_sys::signals::ignore(Signal::XFSZ).expect("ignore");
    let limit = Rlimit {
        current: Some(64 << 10),
        maximum: rustix::process::getrlimit(Resource::Fsize).maximum,
    };
    rustix::process::setrlimit(Resource::Fsize, limit).expect("set the limit");
    // The program may see it while it still writes, or afterwards.
    let _ = client.write_all(&[7; 1 << 20]);
    let lost = world.event_of(|event| match event {
        Event::Lost { hold, error, .. } => Some((hold, error)),
        _ => None,
    });
    assert_eq!(lost.0, hold);
    assert!(lost.1.contains("too large"), "{}", lost.1);
    assert_eq!(failure(&mut client), Some(ErrorKind::ConnectionReset));
    // Nothing else is taken in vain.
    let seen = match world.connect(nobody(FAR)) {
        Ok(mut other) => failure(&mut other),
        Err(error) => Some(error.kind()),
    };
    assert_eq!(seen, Some(ErrorKind::ConnectionReset));
}

fn send_from_many(world: &World, server: SocketAddr) -> Vec<TcpStream> {
    world.inside(move || {
        let send = |_| {
            let mut client = connect(server).expect("connect");
            client.write_all(&[7; 100_000]).expect("write");
            client
        };
        (0..50).map(send).collect()
    })
}

/// The next held channel.
#[track_caller]
pub fn held(world: &World) -> (HoldId, Target) {
    let held = world.held();
    let sender = held.sender.expect("a sender");
    assert_eq!(sender.pid, std::process::id() as i32);
    (held.hold, held.target)
}

/// Waits until the program is said to wait after so many bytes. It may be said to wait before, too:
/// under load it is slow.
#[track_caller]
pub fn waits_after(world: &World, wanted: HoldId, sent: u64) {
    world.event_of(|event| match event {
        Event::Waiting { hold, bytes, .. } => (hold == wanted && bytes == sent).then_some(()),
        _ => None,
    });
}

/// Waits until the program is said to wait; gives how much it has sent.
#[track_caller]
fn waiting(world: &World, wanted: HoldId) -> u64 {
    match world.event() {
        Event::Waiting {
            hold, bytes, inode, ..
        } => {
            assert_eq!(hold, wanted);
            assert_ne!(inode, 0);
            bytes
        }
        other => panic!("nobody waits, but {other:?}"),
    }
}

#[track_caller]
fn settled(world: &World, wanted: HoldId) {
    match world.event() {
        Event::Settled { hold } => assert_eq!(hold, wanted),
        other => panic!("not settled, but {other:?}"),
    }
}

/// Waits until the outbox knows the end of a hold.
#[track_caller]
pub fn finished(world: &World, hold: HoldId, end: End) {
    surmise_testkit::watchdog::until("the hold's end", crate::world::SOON, || {
        let pending = world.outbox.pending();
        let one = pending.iter().find(|one| one.hold == hold);
        one.is_some_and(|one| one.end == Some(end))
    });
}
