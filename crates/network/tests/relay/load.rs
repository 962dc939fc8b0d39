//! Much at once.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;

use rustix::process::{Resource, Rlimit};
use surmise_network::Verdict;

use crate::servers::{accept, assert_echoes, echo, listen, read_all};
use crate::world::{FAR, SOON, World, connect};

pub fn a_slow_reader_slows_only_its_own_connection() {
    const SIZE: usize = 48 << 20;
    let world = World::all(Verdict::Allow);
    let (listener, server) = listen(FAR);
    let mut slow = world.connect(server).expect("connect");
    let mut sender = accept(&listener);
    let writer = thread::spawn(move || {
        sender.write_all(&pattern(0, SIZE)).expect("write");
    });
    // More than the kernel and the relay keep between them: the writer is stuck by now, or soon.
    let mut quick = world.connect(echo(FAR)).expect("connect");
    for _ in 0..1000 {
        assert_echoes(&mut quick, b"ping");
    }
    let mut got = vec![0; SIZE];
    for (number, part) in got.chunks_mut(1 << 20).enumerate() {
        slow.read_exact(part).expect("read");
        if number % 8 == 0 {
            assert_echoes(&mut quick, b"ping");
        }
    }
    assert!(got == pattern(0, SIZE), "the bytes came as they were sent");
    assert_eq!(read_all(&mut slow), b"");
    writer.join().expect("the writer ends");
}

pub fn a_thousand_connections_at_once() {
    const COUNT: usize = 1000;
    raise_limit();
    let world = World::all(Verdict::Allow);
    let server = echo(FAR);
    world.inside(move || {
        let mut clients: Vec<_> = (0..COUNT)
            .map(|_| connect(server).expect("connect"))
            .collect();
        for (number, client) in clients.iter_mut().enumerate() {
            client.write_all(&pattern(number, 3000)).expect("write");
        }
        for (number, client) in clients.iter_mut().enumerate() {
            client.shutdown(Shutdown::Write).expect("shut down");
            assert!(read_all(client) == pattern(number, 3000), "{number}");
        }
    });
}

pub fn connections_wait_for_descriptors() {
    let world = World::all(Verdict::Allow);
    let server = echo(FAR);
    let mut early = world.connect(server).expect("connect");
    assert_echoes(&mut early, b"hello");
    // The limit is for new descriptors only: neither the program nor the server can have one either,
    // so the program's socket is made before.
    let waiting = world.inside(|| {
        let kind = rustix::net::SocketType::STREAM;
        rustix::net::socket(rustix::net::AddressFamily::INET, kind, None).expect("a socket")
    });
    let before = rustix::process::getrlimit(Resource::Nofile);
    let fillers = fill_descriptors();
    let connecting = world.begin_inside(move || {
        rustix::net::connect(&waiting, &server).expect("connect");
        TcpStream::from(waiting)
    });
    // The SYN finds no descriptor and is sent again after a second.
    assert!(connecting.recv_timeout(SOON / 40).is_err());
    assert_echoes(&mut early, b"still here");
    drop(fillers);
    rustix::process::setrlimit(Resource::Nofile, before).expect("set the limit");
    drop(early);
    let mut client = connecting.recv_timeout(SOON).expect("it connects");
    assert_echoes(&mut client, b"hello");
}

pub fn much_held_output_is_whole() {
    const SIZE: usize = 32 << 20;
    let world = World::all(Verdict::Hold);
    let (listener, server) = listen(FAR);
    world.inside(move || {
        let mut client = connect(server).expect("connect");
        client.write_all(&pattern(3, SIZE)).expect("write");
    });
    world.quiesce();
    let reader = thread::spawn(move || read_all(&mut accept(&listener)));
    let released = world.release();
    assert_eq!(released.sent.len(), 1, "{released:?}");
    assert_eq!(released.sent[0].1, SIZE as u64);
    let got = reader.join().expect("the server ends");
    assert!(got == pattern(3, SIZE), "the bytes came as they were sent");
}

fn pattern(seed: usize, length: usize) -> Vec<u8> {
    // A prime, so that a lost or repeated block shows.
    (0..length).map(|at| ((at + seed) % 251) as u8).collect()
}

fn raise_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let limit = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    rustix::process::setrlimit(Resource::Nofile, limit).expect("set the limit");
}

/// Takes every descriptor that this process may have.
fn fill_descriptors() -> Vec<File> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let few = Rlimit {
        current: Some(200),
        maximum: limit.maximum,
    };
    rustix::process::setrlimit(Resource::Nofile, few).expect("set the limit");
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}
