//! What an observer makes of calls of the test's own process, which stands for a task.

use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;

use rustix::net::{SocketFlags, socket_with};
use surmise_syscalls::{Syscall, row_of};

use super::*;

fn boundary() -> Boundary {
    Boundary {
        network: proc::namespace(Entry::own(), "net").expect("a namespace"),
        has_gate: false,
        nameservers: vec!["192.0.2.53".parse().expect("an address")],
        caught: Caught::None,
        sockets: Sockets::Apart(Vec::new()),
        unheard: Some("--quiet"),
    }
}

fn observer(boundary: Boundary) -> (Observer, Tally) {
    let tally = Tally::default();
    let inside = network::diagnostics().expect("a socket");
    let observer = Observer::new(boundary, tally.clone(), inside);
    (observer.expect("an observer"), tally)
}

fn call(name: Syscall, arguments: [u64; 6]) -> Notification {
    Notification {
        id: 0,
        thread: rustix::thread::gettid(),
        number: row_of(name).number(),
        arguments,
        instruction_pointer: 0,
    }
}

fn told(tally: &Tally) -> Vec<(Kind, String, Option<String>)> {
    let list = tally.refusals().list.into_iter();
    list.map(|one| (one.kind, one.target, one.allow)).collect()
}

fn row(kind: Kind, target: &str, allow: &str) -> (Kind, String, Option<String>) {
    (kind, target.into(), Some(allow.into()))
}

/// A socket is about to be connected to an address, or to send there.
fn reach(observer: &Observer, kind: SocketType, to: &str) {
    let to: SocketAddr = to.parse().expect("an address");
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).expect("a socket");
    let bytes = match to {
        SocketAddr::V4(to) => {
            let start = [&2_u16.to_ne_bytes()[..], &to.port().to_be_bytes()].concat();
            [&start[..], &to.ip().octets(), &[0; 8]].concat()
        }
        SocketAddr::V6(to) => {
            let start = [&10_u16.to_ne_bytes()[..], &to.port().to_be_bytes(), &[0; 4]].concat();
            [&start[..], &to.ip().octets(), &[0; 4]].concat()
        }
    };
    let (descriptor, place) = (socket.as_raw_fd() as u64, bytes.as_ptr() as u64);
    let length = bytes.len() as u64;
    let connect = call(Syscall::Connect, [descriptor, place, length, 0, 0, 0]);
    assert_eq!(observer.answer(&connect), Answer::Continue);
}

#[test]
fn a_refused_call_gets_the_tables_error_and_is_told_unless_programs_expect_it() {
    let (observer, tally) = observer(boundary());
    let error = |number| Answer::Error(rustix::io::Errno::from_raw_os_error(number));
    for (name, arguments, answer) in [
        (Syscall::Mount, [0; 6], error(1)),
        (Syscall::Mount, [0; 6], error(1)),
        (Syscall::PerfEventOpen, [0; 6], error(13)),
        (Syscall::Ioctl, [0, 0x5412, 0, 0, 0, 0], error(1)),
        (Syscall::IoUringSetup, [0; 6], error(38)),
        (Syscall::Getpid, [0; 6], Answer::Continue),
    ] {
        assert_eq!(observer.answer(&call(name, arguments)), answer, "{name}");
    }
    let list = tally.refusals().list;
    let told: Vec<_> = list
        .iter()
        .map(|one| (one.target.as_str(), one.count))
        .collect();
    assert_eq!(
        told,
        [("mount", 2), ("perf_event_open", 1), ("ioctl TIOCSTI", 1)]
    );
}

#[test]
fn hosts_are_told_of_unless_a_relay_tells_of_them() {
    let (first, tally) = observer(boundary());
    reach(&first, SocketType::STREAM, "192.0.2.1:80");
    reach(&first, SocketType::STREAM, "[2001:db8::1]:443");
    reach(&first, SocketType::DGRAM, "192.0.2.1:123");
    reach(&first, SocketType::DGRAM, "192.0.2.53:53");
    reach(&first, SocketType::STREAM, "192.0.2.53:53");
    assert_eq!(
        told(&tally),
        [
            row(Kind::Connection, "192.0.2.1:80", "--allow-net 192.0.2.1:80"),
            row(
                Kind::Connection,
                "[2001:db8::1]:443",
                "--allow-net [2001:db8::1]:443"
            ),
            row(Kind::Datagram, "192.0.2.1:123", "--allow-net 192.0.2.1"),
            row(
                Kind::Connection,
                "192.0.2.53:53",
                "--allow-net 192.0.2.53:53"
            ),
        ]
    );
    let gated = Boundary {
        has_gate: true,
        ..boundary()
    };
    let elsewhere = Boundary {
        network: 0,
        ..boundary()
    };
    for boundary in [gated, elsewhere] {
        let (observer, tally) = observer(boundary);
        reach(&observer, SocketType::STREAM, "192.0.2.1:80");
        assert_eq!(told(&tally), []);
    }
}

/// Here the inside and the outside are one namespace, so what is served is served inside.
#[test]
fn loopback_without_a_server_is_nobodys_doing_and_one_inside_is_met() {
    let (observer, tally) = observer(boundary());
    let server = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = server.local_addr().expect("an address").to_string();
    let earlier = call(Syscall::Getpid, [0; 6]);
    observer.record(earlier.thread, Kind::Connection, &address, None);
    reach(&observer, SocketType::STREAM, &address);
    assert_eq!(told(&tally), [], "the server came up");
    drop(server);
    reach(&observer, SocketType::STREAM, &address);
    assert_eq!(told(&tally), [], "nobody is outside");
}

#[test]
fn sockets_that_are_none_or_of_another_sort_are_not_told() {
    let (observer, tally) = observer(boundary());
    let bytes = [&2_u16.to_ne_bytes()[..], &[0, 80, 192, 0, 2, 1], &[0; 8]].concat();
    let place = bytes.as_ptr() as u64;
    let directory = tempfile::tempdir().expect("a directory");
    let server = UnixListener::bind(directory.path().join("s")).expect("listen");
    for descriptor in [-1_i64 as u64, server.as_raw_fd() as u64] {
        let connect = call(Syscall::Connect, [descriptor, place, 16, 0, 0, 0]);
        assert_eq!(observer.answer(&connect), Answer::Continue);
    }
    let unreadable = call(
        Syscall::Connect,
        [server.as_raw_fd() as u64, 8, 16, 0, 0, 0],
    );
    assert_eq!(observer.answer(&unreadable), Answer::Continue);
    assert_eq!(told(&tally), []);
}

#[test]
fn a_second_listener_is_told_with_what_makes_room_for_it() {
    let (observer, tally) = observer(boundary());
    let install = call(Syscall::Seccomp, [1, 8, 0x1000, 0, 0, 0]);
    assert_eq!(observer.answer(&install), Answer::Continue);
    let target = "seccomp SECCOMP_FILTER_FLAG_NEW_LISTENER";
    assert_eq!(told(&tally), [row(Kind::Call, target, "--quiet")]);
}

#[test]
fn a_process_that_is_inside_is_traced_and_told_of_to_nobody() {
    let (observer, tally) = observer(boundary());
    for number in [std::process::id().into(), 1 << 30] {
        let attach = call(Syscall::Ptrace, [16, number, 0, 0, 0, 0]);
        assert_eq!(observer.answer(&attach), Answer::Continue);
    }
    assert_eq!(told(&tally), []);
}
