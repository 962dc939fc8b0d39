//! Servers inside that the host reaches.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener};

use surmise_network::Verdict;

use crate::servers::{accept, failure, listen, nobody, read_all};
use crate::world::{HERE, Options, World, connect};

pub fn a_server_inside_is_reached() {
    let (world, address) = published();
    let listener = world.inside(move || TcpListener::bind(address).expect("listen"));
    for _ in 0..3 {
        let mut client = connect(address).expect("connect");
        client.write_all(b"hello").expect("write");
        client
            .shutdown(std::net::Shutdown::Write)
            .expect("shut down");
        let mut got = accept(&listener);
        assert_eq!(read_all(&mut got), b"hello");
        got.write_all(b"reply").expect("write");
        drop(got);
        assert_eq!(read_all(&mut client), b"reply");
    }
}

pub fn a_port_without_a_server_resets() {
    let (_world, address) = published();
    // A client may see it while it still connects, or afterwards.
    let seen = match connect(address) {
        Ok(mut client) => failure(&mut client),
        Err(error) => Some(error.kind()),
    };
    assert_eq!(seen, Some(ErrorKind::ConnectionReset));
}

pub fn a_taken_port_is_named() {
    let (_listener, address) = listen(HERE);
    let mut options = Options::new(Verdict::Deny);
    options.publish = vec![address.port()];
    let Err(error) = World::try_new(options) else {
        panic!("the port is taken");
    };
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    let text = error.to_string();
    assert!(text.contains(&address.to_string()), "{text}");
}

pub fn a_published_port_is_no_way_round() {
    let address = nobody(HERE);
    let mut options = Options::new(Verdict::Ask).with(address, Verdict::Allow);
    options.publish = vec![address.port()];
    let world = World::new(options);
    // Relayed, it would come back to the relay, which would dial it inside, and so on.
    let error = world.connect(address).expect_err("nobody listens inside");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

fn published() -> (World, SocketAddr) {
    let address = nobody(HERE);
    let mut options = Options::new(Verdict::Deny);
    options.publish = vec![address.port()];
    (World::new(options), address)
}
