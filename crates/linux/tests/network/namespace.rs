//! What the gate knows about its network namespace, and has done to it.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;

use rustix::fs::OFlags;
use rustix::io::FdFlags;
use rustix::net::SocketFlags;
use surmise_linux::network::gate::{
    ADDRESS_V4, ADDRESS_V6, Loopback, Protocol, has_listener, owner, set_up,
};

use crate::relay::Answer;
use crate::steps::*;
use crate::world::{NAMES, Network, setup};

pub fn the_owner_of_a_socket_is_found(network: &mut Network) {
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

pub fn servers_are_found(network: &mut Network) {
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

pub fn names_are_served(network: &mut Network) {
    let (datagrams, listener) = network.gate().names.as_ref().expect("a name server");
    let [datagrams, listener] = [datagrams, listener].map(|socket| {
        rustix::io::ioctl_fionbio(socket, false).expect("let it block");
        socket.try_clone().expect("clone")
    });
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

/// The `/proc` of the tests is the machine's own, and shows what its reader's network has.
pub fn the_namespace_has_its_settings(_: &mut Network) {
    let get = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/{name}")).expect("read");
        text.trim().to_owned()
    };
    for (name, value) in [
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/eth0/rp_filter", "0"),
        ("ipv4/conf/eth0/accept_local", "1"),
        ("ipv4/conf/eth0/route_localnet", "0"),
        ("ipv4/conf/lo/accept_local", "0"),
    ] {
        assert_eq!(get(name), value, "{name}");
    }
    // Older kernels show it in the first network namespace only.
    if let Ok(backlog) = fs::read_to_string("/proc/sys/net/core/somaxconn") {
        assert_eq!(backlog.trim(), "65535");
    }
    // Whatever the host lets ordinary users do, root of the user namespace serves any port.
    TcpListener::bind("127.0.0.1:80").expect("bind");
}

pub fn a_failure_names_its_step(network: &mut Network) {
    let again = network.set_up_again().expect_err("there is an eth0");
    assert_eq!(again.kind(), ErrorKind::ResourceBusy);
    assert!(
        again.to_string().starts_with("make a TUN device: "),
        "{again}"
    );
    let elsewhere = fs::File::open("/proc").expect("open a directory");
    let missing = set_up(&setup(elsewhere.as_fd(), Loopback::None)).expect_err("no device");
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

pub fn descriptors_never_block_and_are_closed_on_exec(network: &mut Network) {
    let gate = network.gate();
    let names = gate.names.as_ref().expect("a name server");
    let loopback = gate.loopback.as_ref().expect("gated loopback");
    for fd in [
        &gate.tun,
        &gate.listener,
        &gate.diagnostics,
        &names.0,
        &names.1,
        &loopback.inside,
        &loopback.relay,
    ] {
        let flags = rustix::io::fcntl_getfd(fd).expect("read");
        assert!(flags.contains(FdFlags::CLOEXEC));
        let flags = rustix::fs::fcntl_getfl(fd).expect("read");
        assert!(flags.contains(OFlags::NONBLOCK));
    }
}

fn mapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().into(),
        IpAddr::V6(_) => address,
    }
}
