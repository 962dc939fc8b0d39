//! Output that depends on a promise waits until that is kept.

use std::io::{self, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags};
use surmise_network::{Event, Verdict};
use surmise_sync::testing::InMemory;
use surmise_sync::{Epochs, Promise, Trigger};

use crate::held::{held, waits_after};
use crate::servers::{accept, failure, listen, nobody, nobody_came, read_all, read_some};
use crate::world::{FAR, HERE, Options, SOON, World, connect};

/// What must not leave is looked for so long: enough for it to come, where it would.
const A_WHILE: Duration = Duration::from_millis(100);

/// Longer than any scenario.
const PATIENCE: Duration = Duration::from_secs(600);

pub fn what_follows_a_promise_leaves_with_the_commit() {
    let (world, epochs) = promising(Options::new(Verdict::Allow));
    let (listener, server) = listen(FAR);
    let mut client = world.connect(server).expect("connect");
    let mut got = accept(&listener);
    client.write_all(b"before").expect("write");
    assert_eq!(read_some(&mut got, 6), b"before");
    epochs.promise();
    client.write_all(b"behind").expect("write");
    nothing_comes(&mut got);
    client.write_all(b" it").expect("write");
    // The other way it goes on.
    got.write_all(b"question").expect("write");
    assert_eq!(read_some(&mut client, 8), b"question");
    commit(&epochs);
    assert_eq!(read_some(&mut got, 9), b"behind it");
    assert!(epochs.stats().held >= 1);
    // And so does the end.
    epochs.promise();
    client.shutdown(Shutdown::Write).expect("shut down");
    nothing_comes(&mut got);
    commit(&epochs);
    assert_eq!(read_all(&mut got), b"");
    got.write_all(b"reply").expect("write");
    drop(got);
    assert_eq!(read_all(&mut client), b"reply");
}

pub fn an_urgent_byte_waits_in_its_place() {
    let (world, epochs) = promising(Options::new(Verdict::Allow));
    let (listener, server) = listen(FAR);
    for before in [&b""[..], b"before"] {
        let mut client = world.connect(server).expect("connect");
        let mut got = accept(&listener);
        epochs.promise();
        client.write_all(before).expect("write");
        rustix::net::send(&client, b"!", SendFlags::OOB).expect("send");
        thread::sleep(A_WHILE);
        let mut byte = [0];
        let early = rustix::net::recv(&got, &mut byte, RecvFlags::OOB | RecvFlags::DONTWAIT);
        assert!(early.is_err(), "{early:?}");
        client.write_all(b"after").expect("write");
        client.shutdown(Shutdown::Write).expect("shut down");
        nothing_comes(&mut got);
        commit(&epochs);
        assert_eq!(read_some(&mut got, before.len()), before);
        surmise_testkit::watchdog::until("the urgent byte", SOON, || {
            rustix::net::recv(&got, &mut byte, RecvFlags::OOB).is_ok()
        });
        assert_eq!(&byte, b"!");
        assert_eq!(read_all(&mut got), b"after");
    }
}

pub fn many_promises_stall_nothing() {
    const SIZE: usize = 200_000;
    const CLIENTS: usize = 4;
    for promise in [Promise::Fsync, Promise::Write] {
        many_promises(promise, SIZE, CLIENTS);
    }
}

fn many_promises(promise: Promise, size: usize, clients: usize) {
    let (world, epochs) = promising_each(promise, Options::new(Verdict::Allow));
    let (listener, server) = listen(FAR);
    let committer = Committer::start(&epochs);
    let datagrams = UdpSocket::bind((FAR, 0)).expect("bind");
    let to = datagrams.local_addr().expect("its address");
    let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
    let mut receivers = Vec::new();
    for _ in 0..clients {
        let (bytes, epochs) = (bytes.clone(), epochs.clone());
        world.begin_inside(move || {
            let mut client = connect(server).expect("connect");
            let socket = UdpSocket::bind("0.0.0.0:0").expect("bind");
            for piece in bytes.chunks(1000) {
                epochs.promise();
                client.write_all(piece).expect("write");
                socket.send_to(b"x", to).expect("send");
            }
        });
        let mut got = accept(&listener);
        receivers.push(thread::spawn(move || read_all(&mut got)));
    }
    for receiver in receivers {
        assert!(receiver.join().expect("no panic") == bytes, "all in order");
    }
    drop(committer);
}

pub fn packets_wait_in_their_order() {
    let (world, epochs) = promising(Options::new(Verdict::Allow));
    let (listener, server) = listen(FAR);
    let socket = UdpSocket::bind((FAR, 0)).expect("bind");
    let to = socket.local_addr().expect("its address");
    let client = world.inside(|| UdpSocket::bind("0.0.0.0:0").expect("bind"));
    epochs.promise();
    for number in 0..10 {
        client.send_to(&[number], to).expect("send");
    }
    let connected = world.begin_inside(move || connect(server));
    no_datagram_comes(&socket);
    nobody_came(&listener);
    assert!(connected.try_recv().is_err(), "it is not connected");
    commit(&epochs);
    client.send_to(&[10], to).expect("send");
    for number in 0..=10 {
        assert_eq!(receive(&socket), [number]);
    }
    let connected = connected.recv_timeout(SOON).expect("an end");
    connected.expect("a connection");
    accept(&listener);
}

pub fn a_published_server_s_reply_waits() {
    let address = nobody(HERE);
    let mut options = Options::new(Verdict::Deny);
    options.publish = vec![address.port()];
    let (world, epochs) = promising(options);
    let listener = world.inside(move || TcpListener::bind(address).expect("listen"));
    let mut client = connect(address).expect("connect");
    let mut got = accept(&listener);
    epochs.promise();
    client.write_all(b"question").expect("write");
    assert_eq!(read_some(&mut got, 8), b"question");
    got.write_all(b"reply").expect("write");
    drop(got);
    nothing_comes(&mut client);
    commit(&epochs);
    assert_eq!(read_all(&mut client), b"reply");
}

pub fn what_a_person_lets_go_waits_too() {
    let (world, epochs) = promising(Options::new(Verdict::Hold));
    let (listener, server) = listen(FAR);
    let mut client = world.connect(server).expect("connect");
    client.write_all(b"first").expect("write");
    let (hold, _) = held(&world);
    waits_after(&world, hold, 5);
    epochs.promise();
    world.relay.decide(hold, Verdict::Allow);
    thread::sleep(A_WHILE);
    nobody_came(&listener);
    commit(&epochs);
    let mut got = accept(&listener);
    assert_eq!(read_some(&mut got, 5), b"first");
    // From now on it is relayed.
    epochs.promise();
    client.write_all(b"second").expect("write");
    nothing_comes(&mut got);
    commit(&epochs);
    assert_eq!(read_some(&mut got, 6), b"second");
}

pub fn what_came_before_a_reset_waits_and_is_passed_on() {
    let (world, epochs) = promising(Options::new(Verdict::Allow));
    let (listener, server) = listen(FAR);
    for _ in 0..20 {
        let mut client = world.connect(server).expect("connect");
        let mut got = accept(&listener);
        epochs.promise();
        client.write_all(b"last words").expect("write");
        rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).expect("set");
        drop(client);
        nothing_comes(&mut got);
        commit(&epochs);
        assert_eq!(read_some(&mut got, 10), b"last words");
        assert_eq!(failure(&mut got), Some(io::ErrorKind::ConnectionReset));
    }
}

pub fn the_end_waits_for_the_commit() {
    let (mut world, epochs) = promising(Options::new(Verdict::Allow));
    let (listener, server) = listen(FAR);
    let socket = UdpSocket::bind((FAR, 0)).expect("bind");
    let to = socket.local_addr().expect("its address");
    let mut client = world.connect(server).expect("connect");
    let mut got = accept(&listener);
    epochs.promise();
    client.write_all(b"last words").expect("write");
    drop(client);
    world.inside(move || {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("bind");
        socket.send_to(b"farewell", to).expect("send");
    });
    // Nobody outside is impatient of what waits inside.
    world.relay.finish(Duration::from_millis(300));
    no_datagram_comes(&socket);
    thread::sleep(Duration::from_millis(500));
    nothing_comes(&mut got);
    commit(&epochs);
    assert_eq!(read_all(&mut got), b"last words");
    socket.set_read_timeout(Some(SOON)).expect("bound reads");
    assert_eq!(receive(&socket), b"farewell");
    world.wait();
    world.none_of(|event| matches!(event, Event::Cut { .. }));
}

pub fn after_a_stop_nothing_leaves() {
    let (mut world, epochs) = promising(Options::new(Verdict::Allow));
    let (listener, server) = listen(FAR);
    let socket = UdpSocket::bind((FAR, 0)).expect("bind");
    let to = socket.local_addr().expect("its address");
    let [mut first, mut second, third] = [(); 3].map(|()| {
        let client = world.connect(server).expect("connect");
        (client, accept(&listener))
    });
    epochs.promise();
    first.0.write_all(b"waits").expect("write");
    let sender = world.inside(move || UdpSocket::bind("0.0.0.0:0").expect("bind"));
    sender.send_to(b"waits", to).expect("send");
    nothing_comes(&mut first.1);
    epochs.stop();
    second.0.write_all(b"comes later").expect("write");
    third.0.shutdown(Shutdown::Write).expect("shut down");
    sender.send_to(b"comes later", to).expect("send");
    for (_, mut got) in [first, second, third] {
        assert_eq!(failure(&mut got), Some(io::ErrorKind::ConnectionReset));
    }
    let _connecting = world.begin_inside(move || TcpStream::connect_timeout(&server, A_WHILE));
    no_datagram_comes(&socket);
    nobody_came(&listener);
    // And nothing is waited for.
    world.relay.finish(PATIENCE);
    world.wait();
    no_datagram_comes(&socket);
}

pub fn an_end_after_a_stop_sends_nothing() {
    let (mut world, epochs) = promising(Options::new(Verdict::Allow));
    let (listener, server) = listen(FAR);
    let mut client = world.connect(server).expect("connect");
    let mut got = accept(&listener);
    epochs.promise();
    client.write_all(b"last words").expect("write");
    drop(client);
    world.relay.finish(PATIENCE);
    nothing_comes(&mut got);
    epochs.stop();
    assert_eq!(failure(&mut got), Some(io::ErrorKind::ConnectionReset));
    world.wait();
}

/// A relay whose programs are promised that their changes are durable.
pub fn promising(options: Options) -> (World, Epochs) {
    promising_each(Promise::Fsync, options)
}

fn promising_each(promise: Promise, mut options: Options) -> (World, Epochs) {
    let epochs = Epochs::new(promise).expect("epochs");
    options.epochs = Some(epochs.clone());
    (World::new(options), epochs)
}

/// Keeps all promises.
pub fn commit(epochs: &Epochs) {
    epochs
        .commit(&InMemory(|| Ok(())), Trigger::Output)
        .expect("a commit");
}

/// Gives what must not leave the time to come.
pub fn wait_a_while() {
    thread::sleep(A_WHILE);
}

/// Commits all the time.
struct Committer(Arc<AtomicBool>);

impl Committer {
    fn start(epochs: &Epochs) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, epochs) = (Arc::clone(&stop), epochs.clone());
        thread::spawn(move || {
            while !stopped.load(Ordering::SeqCst) {
                commit(&epochs);
                thread::sleep(Duration::from_millis(1));
            }
        });
        Self(stop)
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[track_caller]
fn nothing_comes(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(A_WHILE)).expect("bound reads");
    assert_eq!(failure(stream), Some(io::ErrorKind::WouldBlock));
    stream.set_read_timeout(Some(SOON)).expect("bound reads");
}

#[track_caller]
fn no_datagram_comes(socket: &UdpSocket) {
    socket.set_read_timeout(Some(A_WHILE)).expect("bound reads");
    let error = socket.recv(&mut [0; 16]).expect_err("nothing may come");
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    socket.set_read_timeout(Some(SOON)).expect("bound reads");
}

#[track_caller]
fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut bytes = [0; 64];
    let length = socket.recv(&mut bytes).expect("receive");
    bytes[..length].to_vec()
}
