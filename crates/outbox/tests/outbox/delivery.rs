//! Delivery of every kind of hold.

use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;
use std::time::Duration;

use surmise_outbox::{
    Delivered, Delivery, DeliveryError, End, HeldState, Host, Limits, Outbox, Target, load,
};
use surmise_testkit::{Scratch, watchdog};

use crate::server::{Ended, Manner, Server};
use crate::{directory, tcp, udp};

/// Short, so that what never comes is soon given up.
const LIMITS: Limits = Limits {
    connect: Duration::from_secs(5),
    write_idle: Duration::from_millis(400),
    reply_idle: Duration::from_millis(400),
    reply_total: Duration::from_secs(2),
    reply_bytes_max: 64 << 20,
};

fn no_names(name: &str) -> io::Result<Vec<IpAddr>> {
    Err(io::Error::other(format!("no name server for {name}")))
}

pub fn show_nothing(target: &Target, _: &[u8]) -> io::Result<()> {
    panic!("{target} is not shown")
}

pub fn prepare(outbox: &Outbox) -> Delivery {
    Delivery::of(outbox, &|_| true, LIMITS, &mut no_names).expect("all are reached")
}

pub fn deliver(outbox: &Outbox) -> Delivered {
    prepare(outbox).deliver(&mut show_nothing)
}

pub fn states(directory: &Path) -> Vec<HeldState> {
    let held = load(directory).expect("load");
    held.channels.iter().map(|channel| channel.state).collect()
}

pub fn wait_quiet(server: &Server) {
    watchdog::until("all connections end", watchdog::LIMIT, || server.is_quiet());
}

/// Far more than the kernels of both ends keep.
pub fn much() -> Vec<u8> {
    (0..24 << 20).map(|index: u32| (index / 7) as u8).collect()
}

#[test]
fn nothing_is_sent_before_and_everything_once() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    let server = Server::start(Manner::Answer);
    let outbox = Outbox::open(&directory).expect("open");
    let request = b"POST / HTTP/1.0\r\n\r\n";
    let (first, second) = (
        outbox.hold(tcp(server.port), None),
        outbox.hold(tcp(server.port), None),
    );
    outbox.append(first, request);
    outbox.finish(first, End::Closed);
    outbox.append(second, b"two");
    drop(outbox);
    assert_eq!(server.seen().len(), 0);

    let delivery = Delivery::prepare(&directory, &mut no_names).expect("reached");
    assert_eq!(server.bytes(), 0);
    let delivered = delivery.deliver(&mut show_nothing);
    assert!(delivered.failed.is_empty(), "{:?}", delivered.failed);
    let target = tcp(server.port);
    assert_eq!(delivered.sent, [(target.clone(), 19), (target, 3)]);
    wait_quiet(&server);
    let seen: Vec<_> = server.seen().into_iter().map(|seen| seen.bytes).collect();
    assert_eq!(seen, [request.to_vec(), b"two".to_vec()]);
    assert_eq!(states(&directory), [HeldState::Sent; 2]);

    let again = Delivery::prepare(&directory, &mut no_names).expect("nothing to reach");
    assert!(again.is_empty());
    assert!(again.deliver(&mut show_nothing).sent.is_empty());
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn every_unreachable_target_is_named_and_nothing_is_sent() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    let server = Server::start(Manner::Answer);
    let closed = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listen");
        listener.local_addr().expect("an address").port()
    };
    let mut wanted = vec![tcp(closed()), tcp(closed())];
    wanted.push(Target::Udp(Host::Name("nowhere.invalid".into()), 53));
    wanted.sort();
    let outbox = Outbox::open(&directory).expect("open");
    let hold = outbox.hold(tcp(server.port), None);
    outbox.append(hold, b"not yet");
    for target in wanted.iter().chain(&wanted) {
        outbox.append(outbox.hold(target.clone(), None), b"x");
    }
    drop(outbox);
    let error = Delivery::prepare(&directory, &mut no_names).expect_err("unreachable");
    let told = error.to_string();
    let DeliveryError::Unreachable(unreachable) = error else {
        panic!("{error}");
    };
    let named: Vec<_> = unreachable.into_iter().map(|each| each.target).collect();
    assert_eq!(named, wanted);
    assert!(told.contains("Connection refused"), "{told}");
    assert!(
        told.contains("no name server for nowhere.invalid"),
        "{told}"
    );
    wait_quiet(&server);
    assert_eq!(server.bytes(), 0);
    assert_eq!(load(&directory).expect("load").pending().count(), 7);
}

#[test]
fn names_are_resolved_once_each_at_delivery() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    let (one, other) = (Server::start(Manner::Answer), Server::start(Manner::Answer));
    let outbox = Outbox::open(&directory).expect("open");
    for port in [one.port, other.port, one.port] {
        let target = Target::Tcp(Host::Name("service.test".into()), port);
        outbox.append(outbox.hold(target, None), b"hello");
    }
    drop(outbox);
    let mut asked = Vec::new();
    let mut resolve = |name: &str| {
        asked.push(name.to_owned());
        // Nobody listens at the first address.
        Ok(vec![[127, 9, 9, 9].into(), [127, 0, 0, 1].into()])
    };
    let delivery = Delivery::prepare(&directory, &mut resolve).expect("reached");
    assert_eq!(asked, ["service.test"]);
    assert_eq!(delivery.deliver(&mut show_nothing).sent.len(), 3);
    for (server, wanted) in [(&one, 10), (&other, 5)] {
        wait_quiet(server);
        assert_eq!(server.bytes(), wanted);
    }
}

#[test]
fn pieces_of_all_channels_leave_in_the_order_in_which_they_came() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    let (one, other) = (Server::start(Manner::Echo), Server::start(Manner::Echo));
    let outbox = Outbox::open(&directory).expect("open");
    let (a, b) = (
        outbox.hold(tcp(one.port), None),
        outbox.hold(tcp(other.port), None),
    );
    let shown = outbox.hold(Target::Output, None);
    // What is shown stands between the pieces of the connections: by then, exactly the ones before
    // it have left.
    for round in 0..50u8 {
        outbox.append(a, &[round; 3]);
        outbox.append(shown, &[2 * round]);
        outbox.append(b, &[round; 5]);
        outbox.append(shown, &[2 * round + 1]);
    }
    let mut order = Vec::<u8>::new();
    let delivered = prepare(&outbox).deliver(&mut |target, bytes| {
        assert_eq!(target, &Target::Output);
        order.extend(bytes);
        let step = bytes[0] as usize;
        let wanted = [(step / 2 + 1) * 3, step.div_ceil(2) * 5];
        let what = format!("the pieces before step {step} arrive");
        watchdog::until(&what, watchdog::LIMIT, || {
            [one.bytes(), other.bytes()] == wanted
        });
        Ok(())
    });
    assert!(delivered.failed.is_empty(), "{:?}", delivered.failed);
    assert_eq!(order, (0..100).collect::<Vec<u8>>());
    let rounds = |length| (0..50u8).flat_map(move |round| vec![round; length]);
    wait_quiet(&one);
    wait_quiet(&other);
    assert_eq!(one.seen()[0].bytes, rounds(3).collect::<Vec<_>>());
    assert_eq!(other.seen()[0].bytes, rounds(5).collect::<Vec<_>>());
}

#[test]
fn a_channel_that_the_program_reset_is_sent_and_then_reset() {
    let scratch = Scratch::new();
    let server = Server::start(Manner::NeverClose);
    let outbox = Outbox::open(&directory(&scratch)).expect("open");
    for bytes in [much(), Vec::new()] {
        let hold = outbox.hold(tcp(server.port), None);
        outbox.append(hold, &bytes);
        outbox.finish(hold, End::Reset);
    }
    let delivered = deliver(&outbox);
    assert!(delivered.failed.is_empty(), "{:?}", delivered.failed);
    watchdog::until("both connections end", watchdog::LIMIT, || {
        server.seen().len() == 2 && server.is_quiet()
    });
    let seen = server.seen();
    assert!(seen[0].bytes == much());
    assert!(seen.iter().all(|seen| seen.end == Some(Ended::Reset)));
}

#[test]
fn a_connection_without_a_byte_is_made_and_closed() {
    let scratch = Scratch::new();
    let server = Server::start(Manner::Answer);
    let outbox = Outbox::open(&directory(&scratch)).expect("open");
    outbox.hold(tcp(server.port), None);
    let delivered = deliver(&outbox);
    assert_eq!(delivered.sent, [(tcp(server.port), 0)]);
    watchdog::until("the connection ends", watchdog::LIMIT, || {
        server.seen().len() == 1 && server.is_quiet()
    });
    assert_eq!(server.seen()[0].end, Some(Ended::Closed));
}

#[test]
fn datagrams_leave_one_by_one_from_one_socket_a_hold() {
    let scratch = Scratch::new();
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
    receiver
        .set_read_timeout(Some(watchdog::LIMIT))
        .expect("set a limit");
    let port = receiver.local_addr().expect("an address").port();
    let outbox = Outbox::open(&directory(&scratch)).expect("open");
    let (a, b) = (outbox.hold(udp(port), None), outbox.hold(udp(port), None));
    let longest = vec![9; 65_507];
    let wanted: [(_, &[u8]); 6] = [
        (a, b"one"),
        (b, b"two"),
        (a, b""),
        (b, b"four"),
        (a, b"one"),
        (b, &longest),
    ];
    for (hold, bytes) in wanted {
        outbox.append(hold, bytes);
    }
    let delivered = deliver(&outbox);
    assert_eq!(delivered.sent, [(udp(port), 6), (udp(port), 7 + 65_507)]);
    let mut buffer = vec![0; 1 << 16];
    let mut sources = Vec::new();
    for (_, bytes) in wanted {
        let (length, source) = receiver.recv_from(&mut buffer).expect("a datagram");
        assert!(buffer[..length] == *bytes);
        sources.push(source);
    }
    assert_ne!(sources[0], sources[1]);
    for pair in sources.windows(3) {
        assert_eq!(pair[0], pair[2]);
    }
}

#[test]
fn a_host_that_refuses_datagrams_is_told() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    let closed = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
    let port = closed.local_addr().expect("an address").port();
    drop(closed);
    let outbox = Outbox::open(&directory).expect("open");
    outbox.append(outbox.hold(udp(port), None), b"hello");
    let delivered = deliver(&outbox);
    assert_eq!(delivered.failed.len(), 1);
    assert_eq!(states(&directory), [HeldState::Failed { errno: 111 }]);
}

#[test]
fn a_failure_to_show_ends_its_channel_alone() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    let outbox = Outbox::open(&directory).expect("open");
    let (output, error) = (
        outbox.hold(Target::Output, None),
        outbox.hold(Target::Error, None),
    );
    for text in ["one", "two", "three"] {
        outbox.append(output, text.as_bytes());
        outbox.append(error, text.as_bytes());
    }
    let mut shown = Vec::new();
    let delivered = prepare(&outbox).deliver(&mut |target, bytes| {
        if *target == Target::Output && bytes == b"two" {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        shown.push(format!("{target} {}", String::from_utf8_lossy(bytes)));
        Ok(())
    });
    let wanted = [
        "standard output one",
        "standard error one",
        "standard error two",
        "standard error three",
    ];
    assert_eq!(shown, wanted);
    assert_eq!(delivered.sent, [(Target::Error, 11)]);
    assert_eq!(delivered.failed[0].sent, 3);
    assert_eq!(
        states(&directory),
        [HeldState::Failed { errno: 32 }, HeldState::Sent]
    );
}

#[test]
fn ten_thousand_holds_are_kept_and_delivered() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    let server = Server::start(Manner::Answer);
    let outbox = Outbox::open(&directory).expect("open");
    for index in 0..10_000u32 {
        let is_shown = index % 10 != 0;
        let target = if is_shown {
            Target::Output
        } else {
            tcp(server.port)
        };
        let hold = outbox.hold(target, None);
        outbox.append(hold, &index.to_le_bytes());
        outbox.finish(hold, End::Closed);
    }
    outbox.flush().expect("flush");
    assert_eq!(load(&directory).expect("load").pending().count(), 10_000);
    let mut shown = Vec::new();
    let delivered = prepare(&outbox).deliver(&mut |_, bytes| {
        shown.push(u32::from_le_bytes(bytes.try_into().expect("a number")));
        Ok(())
    });
    assert!(delivered.failed.is_empty(), "{:?}", delivered.failed);
    assert_eq!(delivered.sent.len(), 10_000);
    let wanted: Vec<_> = (0..10_000).filter(|index| index % 10 != 0).collect();
    assert_eq!(shown, wanted);
    wait_quiet(&server);
    let seen = server.seen().into_iter();
    let numbers = seen.map(|seen| u32::from_le_bytes(seen.bytes.try_into().expect("a number")));
    let wanted: Vec<_> = (0..10_000).filter(|index| index % 10 == 0).collect();
    assert_eq!(numbers.collect::<Vec<_>>(), wanted);
}
