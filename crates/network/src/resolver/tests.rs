use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use surmise_testkit::watchdog;

use super::*;
use crate::names::{Kind, Query};

type Handler = dyn Fn(&Query, Way) -> Vec<Vec<u8>> + Send + Sync;

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Udp,
    Tcp,
}

/// A name server on loopback that sends what a test says.
struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Server {
    fn start(handler: impl Fn(&Query, Way) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Self {
        let (udp, tcp) = bind_both();
        let address = udp.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let handler: Arc<Handler> = Arc::new(handler);
        let (for_udp, stop_udp) = (handler.clone(), stop.clone());
        let serve_udp = thread::spawn(move || serve_udp(&udp, &*for_udp, &stop_udp));
        let stop_tcp = stop.clone();
        let serve_tcp = thread::spawn(move || serve_tcp(&tcp, &*handler, &stop_tcp));
        Self {
            address,
            stop,
            threads: vec![serve_udp, serve_tcp],
        }
    }

    fn resolver(&self) -> Resolver {
        Resolver::with(self.address, Hosts::default())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

/// Both on one port; somebody else may have the other one.
fn bind_both() -> (UdpSocket, TcpListener) {
    for _ in 0..100 {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()) {
            return (udp, tcp);
        }
    }
    panic!("no port is free for both UDP and TCP");
}

const PAUSE: Duration = Duration::from_millis(5);

fn serve_udp(socket: &UdpSocket, handler: &Handler, stop: &AtomicBool) {
    socket.set_read_timeout(Some(PAUSE)).unwrap();
    let mut buffer = [0; 2000];
    while !stop.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        let query = Query::parse(&buffer[..length]).unwrap();
        for message in handler(&query, Way::Udp) {
            let _ = socket.send_to(&message, from);
        }
    }
}

fn serve_tcp(listener: &TcpListener, handler: &Handler, stop: &AtomicBool) {
    listener.set_nonblocking(true).unwrap();
    while !stop.load(Ordering::Relaxed) {
        let Ok((mut stream, _)) = listener.accept() else {
            thread::sleep(PAUSE);
            continue;
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(watchdog::LIMIT)).unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut message = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut message).unwrap();
        let query = Query::parse(&message).unwrap();
        for message in handler(&query, Way::Tcp) {
            let mut framed = (message.len() as u16).to_be_bytes().to_vec();
            framed.extend_from_slice(&message);
            // In two parts, as a network may deliver it.
            let (first, second) = framed.split_at(framed.len() / 2);
            stream.write_all(first).unwrap();
            thread::sleep(PAUSE);
            stream.write_all(second).unwrap();
        }
    }
}

fn both() -> [IpAddr; 2] {
    ["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()]
}

fn bounded<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> T {
    watchdog::within(Duration::from_secs(60), look)
}

#[test]
fn both_kinds_of_addresses_are_found() {
    let server = Server::start(|query, _| {
        assert_eq!(query.question().name, "a.example");
        vec![query.addresses(&both())]
    });
    let resolver = server.resolver();
    assert_eq!(
        bounded(move || resolver.lookup("A.example.")).unwrap(),
        both()
    );
}

#[test]
fn the_order_of_the_answers_and_forgeries_do_not_matter() {
    let server = Server::start(|query, _| {
        let evil = ["6.6.6.6".parse().unwrap(), "::6".parse().unwrap()];
        let mut other_id = query.addresses(&evil);
        other_id[1] ^= 1;
        let other_name = Query::new(query.id(), "b.example", query.question().kind).unwrap();
        if query.question().kind == Kind::V4 {
            thread::sleep(PAUSE);
        }
        let right = query.addresses(&both());
        let broken = right[..right.len() - 1].to_vec();
        vec![other_id, other_name.addresses(&evil), broken, right]
    });
    let resolver = server.resolver();
    assert_eq!(
        bounded(move || resolver.lookup("a.example")).unwrap(),
        both()
    );
}

#[test]
fn what_was_cut_off_is_asked_again_over_tcp() {
    let server = Server::start(|query, way| match (way, query.question().kind) {
        (Way::Udp, Kind::V4) => vec![query.truncated()],
        (Way::Udp, _) => vec![query.addresses(&[])],
        (Way::Tcp, _) => vec![query.addresses(&[[1, 1, 1, 1].into(); 2000])],
    });
    let resolver = server.resolver();
    let found = bounded(move || resolver.lookup("a.example")).unwrap();
    assert_eq!(found[0], IpAddr::from([1, 1, 1, 1]));
}

#[test]
fn a_server_that_lost_the_first_question_is_asked_again() {
    let asked = AtomicU32::new(0);
    let server = Server::start(
        move |query, _| match asked.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Vec::new(),
            _ => vec![query.addresses(&both())],
        },
    );
    let resolver = server.resolver();
    assert_eq!(
        bounded(move || resolver.lookup("a.example")).unwrap(),
        both()
    );
}

#[test]
fn one_kind_is_enough_when_the_other_is_never_answered() {
    let server = Server::start(|query, _| match query.question().kind {
        Kind::V4 => vec![query.addresses(&both())],
        _ => Vec::new(),
    });
    let resolver = server.resolver();
    assert_eq!(
        bounded(move || resolver.lookup("a.example")).unwrap(),
        both()[..1]
    );
}

#[test]
fn another_server_is_asked_when_one_cannot_tell() {
    let failing = Server::start(|query, _| vec![query.failed()]);
    let refusing = Server::start(|query, _| vec![query.refused()]);
    let right = Server::start(|query, _| vec![query.addresses(&both())]);
    let mut resolver = right.resolver();
    let nobody = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    resolver.configuration.nameservers =
        vec![nobody, failing.address, refusing.address, right.address];
    assert_eq!(
        bounded(move || resolver.lookup("a.example")).unwrap(),
        both()
    );
    let resolver = failing.resolver();
    let error = bounded(move || resolver.lookup("a.example")).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("a.example: no name server could tell"),
        "{error}"
    );
}

#[test]
fn what_is_not_there_is_told_at_once() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = asked.clone();
    let server = Server::start(move |query, _| {
        count.fetch_add(1, Ordering::Relaxed);
        match query.question().name.as_str() {
            "gone.example" => vec![query.no_such_name()],
            _ => vec![query.addresses(&[])],
        }
    });
    for (name, wanted) in [
        ("gone.example", "no such host"),
        ("mail.example", "no address"),
    ] {
        let resolver = server.resolver();
        let error = bounded(move || resolver.lookup(name)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains(wanted), "{error}");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 4);
}

#[test]
fn a_silent_server_ends_in_a_timeout() {
    let server = Server::start(|_, _| Vec::new());
    let mut resolver = server.resolver();
    resolver.configuration.timeout = Duration::from_millis(20);
    let error = bounded(move || resolver.lookup("a.example")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(error.to_string().contains("did not answer"), "{error}");
}

#[test]
fn what_needs_no_server_asks_none() {
    let server = Server::start(|query, _| panic!("asked {query:?}"));
    let hosts = Hosts::parse("10.1.1.1 build\n::2 build\n");
    let resolver = Resolver::with(server.address, hosts);
    let loopback: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    assert_eq!(resolver.lookup("x.localhost").unwrap(), loopback);
    assert_eq!(
        resolver.lookup("1.2.3.4").unwrap(),
        [IpAddr::from([1, 2, 3, 4])]
    );
    assert_eq!(resolver.lookup("BUILD.").unwrap().len(), 2);
    let error = resolver.lookup(&"a".repeat(64)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn a_nameserver_on_loopback_is_found_behind_others() {
    let text = "nameserver 1.1.1.1\nnameserver 127.0.0.53\n";
    let mut resolver = Resolver::with("9.9.9.9:53".parse().unwrap(), Hosts::default());
    assert_eq!(resolver.loopback_nameserver(), None);
    resolver.configuration = Configuration::parse(text);
    assert_eq!(resolver.loopback_nameserver(), Some([127, 0, 0, 53].into()));
    assert_eq!(resolver.nameservers().len(), 2);
    assert!(!Resolver::system().unwrap().nameservers().is_empty());
}
