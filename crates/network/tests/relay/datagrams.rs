//! Datagrams and pings.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto};
use surmise_network::{Event, Verdict};
use surmise_outbox::{Host, Target};

use crate::held::{held, waits_after};
use crate::servers::echo_datagrams;
use crate::world::{FAR, FAR_TOO, FAR_V6, Options, SOON, World};

pub fn datagrams_are_answered_by_whom_they_were_sent_to() {
    let world = World::all(Verdict::Allow);
    let (one, two, six) = (
        echo_datagrams(FAR),
        echo_datagrams(FAR_TOO),
        echo_datagrams(FAR_V6),
    );
    let socket = socket(&world, FAR);
    for (to, text) in [
        (one, &b"one"[..]),
        (two, b"two"),
        (one, b""),
        (two, &[7; 60_000]),
    ] {
        socket.send_to(text, to).expect("send");
        assert_eq!(receive(&socket), (text.to_vec(), to));
    }
    let socket = self::socket(&world, FAR_V6);
    socket.send_to(b"six", six).expect("send");
    assert_eq!(receive(&socket), (b"six".to_vec(), six));
}

pub fn a_closed_port_is_reported() {
    let world = World::all(Verdict::Allow);
    for address in [FAR, FAR_V6] {
        let closed = {
            let socket = UdpSocket::bind((address, 0)).expect("bind");
            socket.local_addr().expect("its address")
        };
        let socket = socket(&world, address);
        socket.connect(closed).expect("connect");
        socket.send(b"hello").expect("send");
        let error = socket.recv(&mut [0; 16]).expect_err("nobody is there");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{address}");
    }
}

pub fn refused_datagrams_are_reported() {
    let server = echo_datagrams(FAR);
    let world = World::new(Options::new(Verdict::Allow).with(server, Verdict::Deny));
    let socket = socket(&world, FAR);
    socket.connect(server).expect("connect");
    socket.send(b"hello").expect("send");
    let error = socket.recv(&mut [0; 16]).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    match world.event() {
        Event::Refused { peer, .. } => assert_eq!(peer, server.to_string()),
        other => panic!("no refusal, but {other:?}"),
    }
}

pub fn datagrams_wait_for_an_answer() {
    let world = World::all(Verdict::Ask);
    let server = echo_datagrams(FAR);
    let socket = socket(&world, FAR);
    socket.send_to(b"one", server).expect("send");
    socket.send_to(b"two", server).expect("send");
    let Event::Asked { question, peer, .. } = world.event() else {
        panic!("no question");
    };
    assert_eq!(peer, server.to_string());
    world.relay.answer(question, Verdict::Allow);
    assert_eq!(receive(&socket), (b"one".to_vec(), server));
    assert_eq!(receive(&socket), (b"two".to_vec(), server));
    world.none_of(|_| true);
}

pub fn held_datagrams_leave_in_order_and_are_answered() {
    let world = World::all(Verdict::Hold);
    let server = UdpSocket::bind((FAR, 0)).expect("bind");
    server.set_read_timeout(Some(SOON)).expect("bound reads");
    let to = server.local_addr().expect("its address");
    let (first, second) = (socket(&world, FAR), socket(&world, FAR));
    let mut holds = Vec::new();
    for (number, socket) in [&first, &second].into_iter().enumerate() {
        socket.send_to(&[number as u8], to).expect("send");
        let (hold, target) = held(&world);
        assert_eq!(target, Target::Udp(Host::Address(FAR), to.port()));
        waits_after(&world, hold, 1);
        holds.push(hold);
    }
    for number in 2..10 {
        // In turn: what counts is the order over both.
        let socket = [&first, &second][number % 2];
        socket.send_to(&[number as u8], to).expect("send");
        let bytes = world.event_of(|event| match event {
            Event::Waiting { hold, bytes, .. } => {
                assert_eq!(hold, holds[number % 2]);
                Some(bytes)
            }
            _ => None,
        });
        assert_eq!(bytes, number as u64 / 2 + 1);
    }
    server.set_nonblocking(true).expect("set");
    assert!(server.recv(&mut [0; 16]).is_err());
    server.set_nonblocking(false).expect("set");
    assert_eq!(world.release().sent.len(), 2);
    for number in 0..10 {
        let (bytes, from) = receive(&server);
        assert_eq!(bytes, [number]);
        server.send_to(&[number + 100], from).expect("send");
    }
    for number in 0..5 {
        assert_eq!(receive(&first), (vec![100 + 2 * number], to));
        assert_eq!(receive(&second), (vec![101 + 2 * number], to));
    }
}

pub fn a_ping_is_answered_by_its_destination() {
    let world = World::all(Verdict::Allow);
    assert_eq!(ping(&world, FAR), Some(0));
    // The outer network has no route there: an error comes, not a reply.
    assert_eq!(ping(&world, IpAddr::from([198, 51, 100, 1])), Some(3));
}

pub fn a_ping_is_not_held() {
    let world = World::all(Verdict::Hold);
    assert_eq!(ping(&world, FAR), Some(3));
}

/// The type of the ICMP message that a ping gets.
fn ping(world: &World, to: IpAddr) -> Option<u8> {
    world.inside(move || {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP))
            .expect("a raw socket");
        let timeout = rustix::net::sockopt::Timeout::Recv;
        rustix::net::sockopt::set_socket_timeout(&socket, timeout, Some(SOON)).expect("set");
        // An echo request, number 7 of 0x1234, with a checksum.
        let message = [8, 0, 0xe5, 0xc4, 0x12, 0x34, 0, 7];
        let to = SocketAddr::new(to, 0);
        rustix::net::sendto(&socket, &message, SendFlags::empty(), &to).expect("send");
        let mut reply = [0; 256];
        loop {
            let (length, _) = rustix::net::recv(&socket, &mut reply, RecvFlags::empty()).ok()?;
            let icmp = &reply[20..length];
            match icmp[0] {
                0 => {
                    assert_eq!(icmp[4..], message[4..]);
                    assert_eq!(IpAddr::from(*reply[12..].first_chunk::<4>()?), to.ip());
                    return Some(0);
                }
                // The request itself, which a raw socket may see.
                8 => {}
                other => return Some(other),
            }
        }
    })
}

fn socket(world: &World, like: IpAddr) -> UdpSocket {
    let any: IpAddr = if like.is_ipv4() {
        [0; 4].into()
    } else {
        [0_u16; 8].into()
    };
    let socket = world.inside(move || UdpSocket::bind((any, 0)).expect("bind"));
    socket.set_read_timeout(Some(SOON)).expect("bound reads");
    socket
}

#[track_caller]
fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = vec![0; 65536];
    let (length, from) = socket.recv_from(&mut buffer).expect("receive");
    (buffer[..length].to_vec(), from)
}
