//! What programs of a domain find.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket,
};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use surmise_sys::network::gate::{ADDRESS_V4, ADDRESS_V6, Loopback};
use surmise_sys::network::gate::{Protocol, has_listener, owner};

use crate::packet::Syn;
use crate::relay::{Answer, Seen};
use crate::world::{NAMES, Network};

type Scenario = (&'static str, Loopback<'static>, fn(&mut Network));

/// Ports that stand for those of servers on the host.
const LISTED: u16 = 7001;
const OTHER: u16 = 7002;
const PORTS: Loopback<'static> = Loopback::Ports(&[LISTED, 7003]);

macro_rules! scenarios {
    ($($loopback:expr => $($name:ident)*;)*) => {
        pub const SCENARIOS: &[Scenario] = &[$($((stringify!($name), $loopback, $name),)*)*];
    };
}

scenarios! {
    Loopback::None =>
        a_connection_that_is_let_through_reaches_the_listener
        a_refused_connection_is_refused
        a_connection_waits_for_the_decision
        a_non_blocking_connect_is_in_progress
        a_bound_source_is_kept
        the_listener_is_closed_to_programs_inside
        loopback_servers_work_untouched
        a_burst_of_connections_is_not_lost
        the_owner_of_a_socket_is_found
        servers_are_found
        datagrams_come_out_whole
        names_are_served
        the_namespace_has_the_hosts_settings;
    PORTS =>
        a_listed_port_without_a_server_is_gated
        a_server_inside_wins_its_port
        a_listed_port_can_be_refused
        loopback_servers_work_untouched
        a_connection_that_is_let_through_reaches_the_listener
        the_listener_is_closed_to_programs_inside;
    Loopback::All =>
        a_listed_port_without_a_server_is_gated
        a_server_inside_wins_its_port
        a_listed_port_can_be_refused
        the_listener_is_closed_to_programs_inside
        a_connection_that_is_let_through_reaches_the_listener
        names_are_served;
}

fn v4(port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(192, 0, 2, 7).into(), port)
}

fn v6(port: u16) -> SocketAddr {
    SocketAddr::new(
        "2001:db8::7"
            .parse::<Ipv6Addr>()
            .expect("an address")
            .into(),
        port,
    )
}

fn local(port: u16) -> [SocketAddr; 3] {
    [
        SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port),
        SocketAddr::new(Ipv4Addr::new(127, 3, 2, 1).into(), port),
        SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port),
    ]
}

/// Sends through `stream` and expects it back, then ends both directions.
fn converse(mut stream: TcpStream) {
    let message = vec![7; 100_000];
    let expected = message.clone();
    let mut writer = stream.try_clone().expect("clone");
    let thread = std::thread::spawn(move || {
        writer.write_all(&message).expect("send");
        writer.shutdown(Shutdown::Write).expect("half-close");
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).expect("receive");
    thread.join().expect("the writer");
    assert!(received == expected, "{} bytes came back", received.len());
}

/// The relay's next SYN, with its owner's inode.
fn next_syn(network: &Network) -> (Syn, u64) {
    match network.seen() {
        Seen::Syn(syn, owner) => (syn, owner.expect("the socket's owner").inode),
        seen => panic!("the relay has seen {seen:?}"),
    }
}

fn expect_accepted(network: &Network, source: SocketAddr, destination: SocketAddr) {
    match network.seen() {
        Seen::Accepted(from, to, true) => assert_eq!((from, to), (source, destination)),
        seen => panic!("the relay has seen {seen:?}"),
    }
}

fn inode(socket: &impl AsFd) -> u64 {
    rustix::fs::fstat(socket).expect("stat").st_ino
}

fn refused(address: SocketAddr) {
    let error = TcpStream::connect(address).expect_err("refused");
    assert_eq!(
        error.kind(),
        ErrorKind::ConnectionRefused,
        "{address}: {error}"
    );
}

fn a_connection_that_is_let_through_reaches_the_listener(network: &mut Network) {
    network.serve(|_| Answer::LetThrough);
    for (address, own) in [
        (v4(80), IpAddr::from(ADDRESS_V4)),
        (v6(443), ADDRESS_V6.into()),
    ] {
        let stream = TcpStream::connect(address).expect("connect");
        let source = stream.local_addr().expect("an address");
        assert_eq!(source.ip(), own);
        assert_eq!(stream.peer_addr().expect("an address"), address);
        let (syn, owner) = next_syn(network);
        assert_eq!((syn.source, syn.destination), (source, address));
        assert_eq!(owner, inode(&stream));
        expect_accepted(network, source, address);
        converse(stream);
    }
    network.nothing_seen();
}

fn a_refused_connection_is_refused(network: &mut Network) {
    network.serve(|_| Answer::Refuse);
    refused(v4(80));
    refused(v6(80));
    next_syn(network);
    next_syn(network);
    network.nothing_seen();
}

fn a_connection_waits_for_the_decision(network: &mut Network) {
    network.serve(|_| Answer::Wait);
    let stream = TcpStream::connect(v4(80)).expect("connect");
    let (first, second) = (next_syn(network), next_syn(network));
    assert_eq!(first.0.source, second.0.source);
    expect_accepted(network, stream.local_addr().expect("an address"), v4(80));
    converse(stream);
}

fn a_non_blocking_connect_is_in_progress(network: &mut Network) {
    let start = |address| {
        let socket = new_socket(SocketFlags::NONBLOCK);
        let result = rustix::net::connect(&socket, &address);
        assert_eq!(result, Err(Errno::INPROGRESS));
        socket
    };
    let (good, bad) = (start(v4(80)), start(v4(81)));
    network.serve(|syn| match syn.destination.port() {
        80 => Answer::LetThrough,
        _ => Answer::Refuse,
    });
    for (socket, expected) in [(good, Ok(())), (bad, Err(Errno::CONNREFUSED))] {
        let mut events = [PollFd::new(&socket, PollFlags::OUT)];
        rustix::event::poll(&mut events, None).expect("poll");
        let result = rustix::net::sockopt::socket_error(&socket).expect("ask");
        assert_eq!(result, expected);
    }
}

fn a_bound_source_is_kept(network: &mut Network) {
    network.serve(|_| Answer::LetThrough);
    let source = SocketAddr::new(ADDRESS_V4.into(), 12_345);
    let socket = new_socket(SocketFlags::empty());
    let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), source.port());
    rustix::net::bind(&socket, &any).expect("bind");
    rustix::net::connect(&socket, &v4(80)).expect("connect");
    assert_eq!(next_syn(network).0.source, source);
    expect_accepted(network, source, v4(80));
    converse(socket.into());
}

fn the_listener_is_closed_to_programs_inside(network: &mut Network) {
    let listener = &network.gate().listener;
    let address = rustix::net::getsockname(listener).expect("an address");
    let port = SocketAddr::try_from(address)
        .expect("an internet address")
        .port();
    network.serve(|_| Answer::LetThrough);
    let own = [ADDRESS_V4.into(), ADDRESS_V6.into()].map(|ip| SocketAddr::new(ip, port));
    for address in local(port).into_iter().chain(own) {
        refused(address);
    }
    network.nothing_seen();
    // The port of another address is a port like any.
    TcpStream::connect(v4(port)).expect("connect");
    next_syn(network);
}

fn loopback_servers_work_untouched(network: &mut Network) {
    network.serve(|_| Answer::Refuse);
    for address in local(OTHER)
        .into_iter()
        .chain([SocketAddr::new(ADDRESS_V4.into(), OTHER)])
    {
        refused(address);
        let server = TcpListener::bind(address).expect("bind");
        let client = TcpStream::connect(address).expect("connect");
        let (stream, peer) = server.accept().expect("accept");
        assert_eq!(peer, client.local_addr().expect("an address"));
        let echo = std::thread::spawn(move || {
            let mut from = stream.try_clone().expect("clone");
            std::io::copy(&mut from, &mut &stream).expect("echo");
        });
        converse(client);
        echo.join().expect("the echo");
    }
    network.nothing_seen();
}

fn a_burst_of_connections_is_not_lost(network: &mut Network) {
    const COUNT: usize = 500;
    let sockets: Vec<OwnedFd> = (0..COUNT)
        .map(|number| {
            let socket = new_socket(SocketFlags::NONBLOCK);
            let result = rustix::net::connect(&socket, &v4(1000 + number as u16));
            assert_eq!(result, Err(Errno::INPROGRESS));
            socket
        })
        .collect();
    network.serve(|_| Answer::LetThrough);
    let (mut syns, mut accepted) = (0, 0);
    while accepted < COUNT {
        match network.seen() {
            Seen::Syn(..) => syns += 1,
            Seen::Accepted(_, _, true) => accepted += 1,
            seen => panic!("the relay has seen {seen:?}"),
        }
    }
    // One that was lost on the way would have been sent again.
    assert_eq!(syns, COUNT);
    for socket in sockets {
        rustix::io::ioctl_fionbio(&socket, false).expect("block");
        let mut stream = TcpStream::from(socket);
        stream.write_all(b"x").expect("send");
        stream.read_exact(&mut [0]).expect("receive");
    }
}

fn the_owner_of_a_socket_is_found(network: &mut Network) {
    let gate = network.gate();
    let find =
        |protocol, from, to| owner(gate.diagnostics.as_fd(), protocol, from, to).expect("ask");
    let uid = rustix::process::geteuid().as_raw();
    for remote in [v4(53), v6(53), SocketAddr::new(mapped(v4(53).ip()), 53)] {
        // From an IPv6 socket where the address is one of IPv6.
        let any: IpAddr = match remote {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind(SocketAddr::new(any, 0)).expect("bind");
        let port = socket.local_addr().expect("an address").port();
        let own = match remote.ip().to_canonical() {
            IpAddr::V4(_) => SocketAddr::new(ADDRESS_V4.into(), port),
            IpAddr::V6(_) => SocketAddr::new(ADDRESS_V6.into(), port),
        };
        let found = find(Protocol::Udp, own, remote).expect("bound");
        assert_eq!((found.inode, found.uid), (inode(&socket), uid));
        socket.connect(remote).expect("connect");
        let found = find(Protocol::Udp, own, remote).expect("connected");
        assert_eq!(found.inode, inode(&socket));
        drop(socket);
        assert_eq!(find(Protocol::Udp, own, remote), None);
    }
    let socket = new_socket(SocketFlags::NONBLOCK);
    let _ = rustix::net::connect(&socket, &v4(80));
    let own = SocketAddr::try_from(rustix::net::getsockname(&socket).expect("an address"));
    let own = own.expect("an internet address");
    let found = find(Protocol::Tcp, own, v4(80)).expect("connecting");
    assert_eq!((found.inode, found.uid), (inode(&socket), uid));
    assert_eq!(find(Protocol::Udp, own, v4(80)), None);
    assert_eq!(find(Protocol::Tcp, own, v4(81)), None);
    drop(socket);
    assert_eq!(find(Protocol::Tcp, own, v4(80)), None);
    let error = owner(gate.diagnostics.as_fd(), Protocol::Tcp, v4(1), v6(1));
    assert_eq!(
        error.expect_err("two families").raw_os_error(),
        Some(libc::EINVAL)
    );
}

fn mapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().into(),
        IpAddr::V6(_) => address,
    }
}

fn servers_are_found(network: &mut Network) {
    let gate = network.gate();
    let found = |address| has_listener(gate.diagnostics.as_fd(), address).expect("ask");
    let [localhost, other, localhost_v6] = local(OTHER);
    for (server, reached) in [
        (localhost, [true, false, false]),
        (
            SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), OTHER),
            [true, true, false],
        ),
        (localhost_v6, [false, false, true]),
        (
            SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), OTHER),
            [true, true, true],
        ),
    ] {
        let _server = TcpListener::bind(server).expect("bind");
        let answers = [localhost, other, localhost_v6].map(found);
        assert_eq!(answers, reached, "with a server on {server}");
    }
    assert!(!found(localhost));
    // A client's socket is no server.
    let socket = new_socket(SocketFlags::NONBLOCK);
    rustix::net::bind(&socket, &localhost).expect("bind");
    assert!(!found(localhost));
}

fn datagrams_come_out_whole(network: &mut Network) {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("bind");
    socket.send_to(&[9; 60_000], v4(53)).expect("send");
    let mut packet = vec![0; 70_000];
    let tun = &network.gate().tun;
    let mut events = [PollFd::new(tun, PollFlags::IN)];
    rustix::event::poll(&mut events, None).expect("poll");
    let length = rustix::io::read(tun, &mut packet).expect("a packet");
    assert_eq!((length, packet[0], packet[9]), (60_028, 0x45, 17));
    assert_eq!(packet[28..length], [9; 60_000]);
    // The kernel sends nothing of its own: no router is asked for, no group joined.
    assert_eq!(rustix::io::read(tun, &mut packet), Err(Errno::AGAIN));
}

fn names_are_served(network: &mut Network) {
    let (datagrams, listener) = network.gate().names.as_ref().expect("a name server");
    let [datagrams, listener] =
        [datagrams, listener].map(|socket| socket.try_clone().expect("clone"));
    network.serve(|_| Answer::Refuse);
    let server = SocketAddr::new(NAMES, 53);
    let client = UdpSocket::bind("127.0.0.1:0").expect("bind");
    client.send_to(b"query", server).expect("send");
    let mut buffer = [0; 16];
    let datagrams = UdpSocket::from(datagrams);
    let (length, peer) = datagrams.recv_from(&mut buffer).expect("receive");
    assert_eq!(
        (&buffer[..length], peer),
        (&b"query"[..], client.local_addr().expect("one"))
    );
    let stream = TcpStream::connect(server).expect("connect");
    let (_, peer) = TcpListener::from(listener).accept().expect("accept");
    assert_eq!(peer, stream.local_addr().expect("an address"));
}

fn the_namespace_has_the_hosts_settings(_: &mut Network) {
    // In this process' own network namespace; the test's mount of /proc is the host's.
    let get = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/{name}")).expect("read");
        text.trim().to_owned()
    };
    assert_eq!(get("core/somaxconn"), "65535");
    assert_eq!(get("ipv4/conf/eth0/accept_local"), "1");
    assert_eq!(get("ipv4/conf/eth0/rp_filter"), "0");
}

fn a_listed_port_without_a_server_is_gated(network: &mut Network) {
    network.serve(|_| Answer::LetThrough);
    for address in local(LISTED) {
        let stream = TcpStream::connect(address).expect("connect");
        let (syn, owner) = next_syn(network);
        assert_eq!(syn.destination, address);
        assert_eq!(owner, inode(&stream));
        expect_accepted(network, syn.source, address);
        converse(stream);
    }
    network.nothing_seen();
}

fn a_server_inside_wins_its_port(network: &mut Network) {
    network.serve(|_| Answer::Refuse);
    let [localhost, other, localhost_v6] = local(LISTED);
    for (address, client) in [
        (localhost, localhost),
        (SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), LISTED), other),
        (localhost_v6, localhost_v6),
        (
            SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), LISTED),
            localhost_v6,
        ),
        (
            SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), LISTED),
            localhost,
        ),
    ] {
        let server = TcpListener::bind(address).expect("bind");
        let mut stream = TcpStream::connect(client).expect("connect");
        let (mut accepted, peer) = server.accept().expect("accept");
        assert_eq!(
            peer.ip().to_canonical(),
            stream.local_addr().expect("one").ip()
        );
        stream.write_all(b"x").expect("send");
        accepted.read_exact(&mut [0]).expect("receive");
        match network.seen() {
            Seen::Inside(destination) => assert_eq!(destination, client),
            seen => panic!("the relay has seen {seen:?}"),
        }
        // So that the port is free again at once.
        accepted.shutdown(Shutdown::Both).expect("end");
        drop(stream);
    }
    network.nothing_seen();
}

fn a_listed_port_can_be_refused(network: &mut Network) {
    network.serve(|_| Answer::Refuse);
    for address in local(LISTED) {
        refused(address);
        next_syn(network);
    }
    network.nothing_seen();
}

fn new_socket(flags: SocketFlags) -> OwnedFd {
    let flags = flags | SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
        .expect("a socket")
}
