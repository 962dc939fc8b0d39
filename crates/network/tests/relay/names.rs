//! Queries for names.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use surmise_network::names::{Answer, Kind, Query, is_synthetic};
use surmise_network::{Event, Pattern, Rule, Verdict};
use surmise_outbox::{Host, Target};

use crate::epochs::{commit, promising, wait_a_while};
use crate::held::{held, waits_after};
use crate::servers::{accept, assert_echoes, echo, listen, read_all};
use crate::world::{FAR, FAR_TOO, HERE, Options, SOON, World, connect};

/// A nameserver outside that knows every name under one address, and how often it was asked.
struct Nameserver {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl Nameserver {
    fn start(at: IpAddr, known: IpAddr) -> Self {
        let listener = TcpListener::bind((at, 0)).expect("listen");
        let address = listener.local_addr().expect("its address");
        let socket = UdpSocket::bind(address).expect("bind");
        let asked = Arc::new(AtomicUsize::new(0));
        let answer = move |asked: &AtomicUsize, message: &[u8]| {
            asked.fetch_add(1, Ordering::SeqCst);
            let query = Query::parse(message).expect("a query");
            query.addresses(&[known])
        };
        let count = Arc::clone(&asked);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let reply = answer(&count, &buffer[..length]);
                socket.send_to(&reply, from).expect("send");
            }
        });
        let count = Arc::clone(&asked);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let message = read_message(&mut stream);
                write_message(&mut stream, &answer(&count, &message));
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

pub fn an_allowed_name_opens_its_address() {
    let server = echo(FAR);
    let nameserver = Nameserver::start(HERE, FAR);
    let mut options = Options::new(Verdict::Deny).with_name("good.example", Verdict::Allow);
    options.nameserver = nameserver.address;
    let world = World::new(options);
    world
        .connect(server)
        .expect_err("not known by that name yet");
    let answer = look_up(&world, "good.example", Kind::V4).expect("an answer");
    assert_eq!(answer.addresses, [FAR]);
    assert_echoes(&mut world.connect(server).expect("connect"), b"hello");
}

pub fn a_refused_name_is_refused() {
    let nameserver = Nameserver::start(HERE, FAR);
    let mut options = Options::new(Verdict::Allow).with_name("bad.example", Verdict::Deny);
    options.nameserver = nameserver.address;
    let world = World::new(options);
    let answer = look_up(&world, "BAD.example", Kind::V4).expect("an answer");
    assert!(answer.failed && answer.addresses.is_empty(), "{answer:?}");
    assert_eq!(nameserver.asked(), 0);
    match world.event() {
        Event::Refused { peer, sender, .. } => {
            assert_eq!(peer, "bad.example");
            assert_eq!(sender.expect("a sender").pid, std::process::id() as i32);
        }
        other => panic!("no refusal, but {other:?}"),
    }
}

pub fn a_query_waits_for_the_answer() {
    let server = echo(FAR);
    let nameserver = Nameserver::start(HERE, FAR);
    let mut options = Options::new(Verdict::Ask);
    options.nameserver = nameserver.address;
    let world = World::new(options);
    let looked_up = world.begin_inside(|| exchange("some.example", Kind::V4, true));
    let Event::Asked { question, peer, .. } = world.event() else {
        panic!("no question");
    };
    assert_eq!(peer, "some.example");
    assert_eq!(nameserver.asked(), 0);
    world.relay.answer(question, Verdict::Allow);
    let answer = looked_up.recv_timeout(SOON).expect("an end");
    assert_eq!(answer.expect("an answer").addresses, [FAR]);
    assert_eq!(nameserver.asked(), 1, "one asker has one question");
    // The answer covers connections to what the name leads to.
    assert_echoes(&mut world.connect(server).expect("connect"), b"hello");
    world.none_of(|_| true);
}

pub fn a_held_name_is_resolved_at_delivery() {
    let (listener, server) = listen(FAR);
    let nameserver = Nameserver::start(HERE, FAR);
    let mut options = Options::new(Verdict::Hold);
    options.nameserver = nameserver.address;
    let world = World::new(options);
    let answer = look_up(&world, "held.example", Kind::V4).expect("an answer");
    let [address] = answer.addresses[..] else {
        panic!("not one address: {answer:?}");
    };
    assert!(is_synthetic(address));
    let none = look_up(&world, "held.example", Kind::V6).expect("an answer");
    assert!(none.addresses.is_empty() && !none.failed && !none.no_such_name);
    assert_eq!(nameserver.asked(), 0);
    let to = SocketAddr::new(address, server.port());
    world.inside(move || {
        let mut client = connect(to).expect("connect");
        client.write_all(b"by name").expect("write");
    });
    let (hold, target) = held(&world);
    assert_eq!(
        target,
        Target::Tcp(Host::Name("held.example".into()), server.port())
    );
    crate::held::finished(&world, hold, surmise_outbox::End::Closed);
    assert_eq!(world.release().sent.len(), 1);
    assert_eq!(read_all(&mut accept(&listener)), b"by name");
}

pub fn a_held_name_that_is_allowed_is_relayed() {
    let server = echo(FAR_TOO);
    let nameserver = Nameserver::start(HERE, FAR_TOO);
    let mut options = Options::new(Verdict::Hold);
    options.nameserver = nameserver.address;
    let world = World::new(options);
    let answer = look_up(&world, "held.example", Kind::V4).expect("an answer");
    let to = SocketAddr::new(answer.addresses[0], server.port());
    let mut client = world.connect(to).expect("connect");
    client.write_all(b"hello").expect("write");
    let (hold, _) = held(&world);
    waits_after(&world, hold, 5);
    world.relay.decide(hold, Verdict::Allow);
    assert_eq!(crate::servers::read_some(&mut client, 5), b"hello");
    // The address still stands for the name, now for whom it leads to.
    assert_echoes(&mut world.connect(to).expect("connect"), b"again");
    let answer = look_up(&world, "held.example", Kind::V4).expect("an answer");
    assert_eq!(answer.addresses, [FAR_TOO]);
}

pub fn names_are_served_over_tcp() {
    let nameserver = Nameserver::start(HERE, FAR);
    let mut options = Options::new(Verdict::Allow);
    options.nameserver = nameserver.address;
    let world = World::new(options);
    for _ in 0..2 {
        let answer = world.inside(exchange_over_tcp);
        assert_eq!(answer.expect("an answer").addresses, [FAR]);
    }
}

pub fn a_nameserver_behind_the_gate_is_answered_for() {
    let nameserver = Nameserver::start(FAR, FAR_TOO);
    let mut options = Options::new(Verdict::Deny);
    options.policy.rules.push(Rule {
        host: Pattern::Name("good.example".into()),
        port: None,
        verdict: Verdict::Allow,
    });
    options.nameserver = nameserver.address;
    let world = World::new(options);
    // The relay answers at port 53, wherever the host's nameserver is.
    let ask = |name: &'static str| {
        world.inside(move || {
            let socket = UdpSocket::bind("0.0.0.0:0").expect("bind");
            exchange_with(&socket, (FAR, 53).into(), name, Kind::V4, false)
        })
    };
    assert_eq!(ask("good.example").expect("an answer").addresses, [FAR_TOO]);
    assert!(ask("bad.example").expect("an answer").failed);
    let answer = world.inside(|| {
        let mut stream = connect((FAR, 53).into()).expect("connect");
        let query = Query::new(78, "good.example", Kind::V4).expect("a query");
        write_message(&mut stream, &query.with_id(78));
        query.read_answer(&read_message(&mut stream))
    });
    assert_eq!(answer.expect("an answer").addresses, [FAR_TOO]);
}

pub fn a_silent_nameserver_is_reported() {
    let silent = UdpSocket::bind((HERE, 0)).expect("bind");
    let mut options = Options::new(Verdict::Allow);
    options.nameserver = silent.local_addr().expect("its address");
    let world = World::new(options);
    let answer = look_up(&world, "some.example", Kind::V4).expect("an answer");
    assert!(answer.failed);
}

pub fn queries_wait_for_promises() {
    let nameserver = Nameserver::start(HERE, FAR);
    let mut options = Options::new(Verdict::Allow);
    options.nameserver = nameserver.address;
    let (world, epochs) = promising(options);
    epochs.promise();
    let in_datagrams = world.begin_inside(|| exchange("some.example", Kind::V4, false));
    let in_a_stream = world.begin_inside(exchange_over_tcp);
    wait_a_while();
    assert_eq!(nameserver.asked(), 0);
    commit(&epochs);
    for answer in [in_datagrams, in_a_stream] {
        let answer = answer.recv_timeout(SOON).expect("an end");
        assert_eq!(answer.expect("an answer").addresses, [FAR]);
    }
}

fn look_up(world: &World, name: &'static str, kind: Kind) -> Option<Answer> {
    world.inside(move || exchange(name, kind, false))
}

/// Asks the proxy inside, twice if `again`, as a program does that has waited long.
fn exchange(name: &str, kind: Kind, again: bool) -> Option<Answer> {
    let socket = UdpSocket::bind((HERE, 0)).expect("bind");
    exchange_with(&socket, (HERE, 53).into(), name, kind, again)
}

fn exchange_over_tcp() -> Option<Answer> {
    let mut stream = connect((HERE, 53).into()).expect("connect");
    let query = Query::new(77, "some.example", Kind::V4).expect("a query");
    write_message(&mut stream, &query.with_id(77));
    query.read_answer(&read_message(&mut stream))
}

fn exchange_with(
    socket: &UdpSocket,
    server: SocketAddr,
    name: &str,
    kind: Kind,
    again: bool,
) -> Option<Answer> {
    socket.set_read_timeout(Some(SOON)).expect("bound reads");
    let query = Query::new(4711, name, kind).expect("a query");
    for _ in 0..=usize::from(again) {
        socket.send_to(&query.with_id(4711), server).expect("send");
    }
    let mut buffer = [0; 4096];
    let (length, from) = socket.recv_from(&mut buffer).expect("receive");
    assert_eq!(from, server);
    query.read_answer(&buffer[..length])
}

fn read_message(stream: &mut impl Read) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).expect("read");
    let mut message = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut message).expect("read");
    message
}

fn write_message(stream: &mut impl Write, message: &[u8]) {
    let length = (message.len() as u16).to_be_bytes();
    stream
        .write_all(&[&length[..], message].concat())
        .expect("write");
}
