//! What the packets that the gate builds mean to a kernel: the error that a program sees, and that a
//! checksum is right.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use surmise_linux::network::{self, gate};
use surmise_network::packet::{self, Packet, Ping, Why};
use surmise_testkit::{is_root, skip, watchdog};

/// The device of a gated network, in whose namespace this thread is.
struct Tun(std::fs::File);

/// Runs a test in a network of its own, on a thread of its own.
fn gated(test: fn(&mut Tun)) {
    if !is_root() {
        return skip("only root makes a network namespace on a thread");
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = match rustix::fs::open("/dev/net", flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(errno) => return skip(format!("/dev/net: {errno}")),
    };
    watchdog::within(Duration::from_secs(60), move || {
        network::enter_new().expect("a network namespace");
        let setup = gate::Setup {
            tun_directory: directory.as_fd(),
            settings: None,
            loopback: gate::Loopback::None,
            names: None,
            ipv6: true,
        };
        let gate = gate::set_up(&setup).expect("a gate");
        test(&mut Tun(gate.tun.into()));
    });
}

impl Tun {
    /// The next packet that `wanted` takes; the kernel sends some on its own.
    fn next(&mut self, wanted: impl Fn(&Packet<'_>) -> bool) -> Vec<u8> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            wait_for(&self.0, PollFlags::IN);
            let length = self.0.read(&mut buffer).expect("read the device");
            if wanted(&packet::parse(&buffer[..length])) {
                return buffer[..length].to_vec();
            }
        }
    }

    fn send(&mut self, packet: &[u8]) {
        assert_eq!(
            self.0.write(packet).expect("write the device"),
            packet.len()
        );
    }
}

fn wait_for(file: &impl AsFd, flags: PollFlags) {
    let limit = Timespec {
        tv_sec: 20,
        tv_nsec: 0,
    };
    let mut events = [PollFd::new(file, flags)];
    assert_eq!(poll(&mut events, Some(&limit)), Ok(1), "nothing came");
}

fn peers() -> [SocketAddr; 2] {
    [
        "192.0.2.1:80".parse().unwrap(),
        "[2001:db8::1]:80".parse().unwrap(),
    ]
}

fn family_of(peer: SocketAddr) -> AddressFamily {
    match peer {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

fn socket(
    family: AddressFamily,
    kind: SocketType,
    protocol: Option<rustix::net::Protocol>,
) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, kind, flags, protocol).expect("a socket")
}

/// What `connect` says after the SYN was answered.
fn refusal(tun: &mut Tun, peer: SocketAddr, answer: impl Fn(&[u8]) -> Vec<u8>) -> Errno {
    let socket = socket(family_of(peer), SocketType::STREAM, None);
    assert_eq!(rustix::net::connect(&socket, &peer), Err(Errno::INPROGRESS));
    let syn = tun.next(|packet| matches!(packet, Packet::Syn(syn) if syn.destination == peer));
    tun.send(&answer(&syn));
    wait_for(&socket, PollFlags::OUT);
    let result = sockopt::socket_error(&socket).expect("the socket's error");
    result.expect_err("the connection was answered with an error")
}

#[test]
fn a_reset_refuses_a_connection() {
    gated(|tun| {
        for peer in peers() {
            let answer = |syn: &[u8]| match packet::parse(syn) {
                Packet::Syn(syn) => packet::reset(&syn),
                other => panic!("{other:?}"),
            };
            assert_eq!(refusal(tun, peer, answer), Errno::CONNREFUSED, "{peer}");
        }
    });
}

#[test]
fn each_reason_is_its_error_number() {
    gated(|tun| {
        let [v4, v6] = peers();
        let rows = [
            (v4, Why::Network, Errno::NETUNREACH),
            (v4, Why::Host, Errno::HOSTUNREACH),
            (v4, Why::Port, Errno::CONNREFUSED),
            (v4, Why::Prohibited, Errno::HOSTUNREACH),
            (v6, Why::Network, Errno::NETUNREACH),
            (v6, Why::Host, Errno::HOSTUNREACH),
            (v6, Why::Port, Errno::CONNREFUSED),
            (v6, Why::Prohibited, Errno::ACCESS),
        ];
        for (peer, why, wanted) in rows {
            let answer = |syn: &[u8]| packet::unreachable(syn, why).expect("an answer");
            assert_eq!(refusal(tun, peer, answer), wanted, "{peer} {why:?}");
        }
    });
}

#[test]
fn datagrams_are_answered_or_told_of() {
    gated(|tun| {
        for peer in peers() {
            let any = if peer.is_ipv4() {
                "0.0.0.0:0"
            } else {
                "[::]:0"
            };
            let inside = UdpSocket::bind(any).unwrap();
            inside.set_read_timeout(Some(watchdog::LIMIT)).unwrap();
            inside.connect(peer).unwrap();
            inside.send(b"question").unwrap();
            let sent = tun
                .next(|packet| matches!(packet, Packet::Datagram(one) if one.destination == peer));
            let Packet::Datagram(question) = packet::parse(&sent) else {
                unreachable!("it was one")
            };
            assert_eq!(question.payload, b"question");
            tun.send(&packet::datagram(peer, question.source, b"answer").unwrap());
            let mut buffer = [0; 100];
            let length = inside.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"answer");
            tun.send(&packet::unreachable(&sent, Why::Port).unwrap());
            let error = inside.recv(&mut buffer).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{peer}");
        }
    });
}

#[test]
fn a_ping_is_answered() {
    gated(|tun| {
        // Of this thread's network, where nobody may use ping sockets at first.
        if let Err(error) = std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0") {
            return skip(format!("no ping sockets: {error}"));
        }
        for peer in peers().map(|peer| SocketAddr::new(peer.ip(), 0)) {
            let protocol = match peer.ip() {
                IpAddr::V4(_) => rustix::net::ipproto::ICMP,
                IpAddr::V6(_) => rustix::net::ipproto::ICMPV6,
            };
            // A raw socket sees checksums that are wrong, but one for pings does not. Its use may be
            let inside = socket(family_of(peer), SocketType::DGRAM, Some(protocol));
            let request = packet::echo_request(&Ping {
                source: peer.ip(),
                destination: peer.ip(),
                identifier: 0,
                sequence: 7,
                payload: b"payload",
            });
            rustix::net::sendto(&inside, &request, SendFlags::empty(), &peer).unwrap();
            let sent = tun.next(
                |packet| matches!(packet, Packet::Ping(ping) if ping.destination == peer.ip()),
            );
            let Packet::Ping(ping) = packet::parse(&sent) else {
                unreachable!("it was one")
            };
            assert_eq!((ping.sequence, ping.payload), (7, &b"payload"[..]));
            tun.send(&packet::pong(&ping).unwrap());
            wait_for(&inside, PollFlags::IN);
            let mut buffer = [0; 100];
            let (length, _) =
                rustix::net::recv(&inside, &mut buffer[..], RecvFlags::empty()).unwrap();
            assert_eq!(
                packet::echo_reply(&buffer[..length]),
                Some((7, &b"payload"[..]))
            );
        }
    });
}
