//! What is sent, to allowed hosts and to held ones.

use std::io::Read;
use std::net::{IpAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use surmise_testkit::{skip, watchdog};

use super::path;
use crate::network::{Server, read_all};
use crate::setting::as_each_user;

/// S17: an exit takes nothing back.
#[test]
fn what_was_sent_right_before_the_exit_arrives() {
    const SIZE: usize = 50 << 20;
    as_each_user(|setting| {
        let server = Server::start();
        let peer = server.peer();
        let script = format!(
            "import os, socket\n\
             s = socket.create_connection(('127.0.0.1', {}))\n\
             s.sendall(bytes(i % 251 for i in range(1 << 20)) * 50)\n\
             os._exit(0)\n",
            server.port
        );
        let run = ["run", "--dry-run", "--allow-net", &peer, "--", "python3"];
        thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                let mut stream = server.accept();
                let mut bytes = vec![0; SIZE];
                let (first, last) = bytes.split_at_mut(SIZE - (8 << 20));
                stream.read_exact(first).expect("read");
                for part in last.chunks_mut(64 << 10) {
                    thread::sleep(Duration::from_millis(2));
                    stream.read_exact(part).expect("read");
                }
                assert_eq!(read_all(&mut stream), b"");
                bytes
            });
            setting.succeed(&[&run[..], &["-c", &script]].concat());
            let bytes = receiver.join().expect("received");
            let whole = (0..SIZE).all(|at| usize::from(bytes[at]) == at % (1 << 20) % 251);
            assert!(whole, "the bytes came as they were sent");
        });
    });
}

/// S17, S21.
#[test]
fn many_connections_at_the_exit_hold_nothing_up() {
    as_each_user(|setting| {
        let server = Server::start();
        let peer = server.peer();
        let script = format!(
            "import os, socket\n\
             s = [socket.create_connection(('127.0.0.1', {})) for _ in range(700)]\n\
             for n, one in enumerate(s): one.sendall(b'%d' % n)\n\
             os._exit(0)\n",
            server.port
        );
        let run = ["run", "--name", "t", "--hold-net", &peer, "--", "python3"];
        setting.succeed(&[&run[..], &["-c", &script]].concat());
        server.assert_untouched();
        let diff = setting.succeed(&["diff", "t"]);
        diff.assert_stdout_contains("(3 bytes): 699");
        setting.succeed(&["abort", "t"]);
    });
}

/// S17, S21: more news than a socket holds, all at the end.
#[test]
fn many_held_datagrams_at_the_exit_hold_nothing_up() {
    as_each_user(|setting| {
        let script = "import os, socket\n\
             s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
             for port in range(1, 2001): s.sendto(b'x', ('192.0.2.77', port))\n\
             os._exit(0)\n";
        let run = [
            "run", "--name", "t", "--net", "hold", "--", "python3", "-c", script,
        ];
        setting.succeed(&run);
        let diff = setting.succeed(&["diff", "t"]);
        diff.assert_stdout_contains("H 192.0.2.77:2000 (UDP) (1 byte): x");
        setting.succeed(&["abort", "t"]);
    });
}

/// S17: an exit takes nothing back.
#[test]
fn datagrams_sent_right_before_the_exit_arrive() {
    let Some(address) = other_address() else {
        return;
    };
    as_each_user(|setting| {
        let server = Datagrams::on(address);
        let script = format!(
            "import os, socket\n\
             s = socket.socket(socket.AF_INET{}, socket.SOCK_DGRAM)\n\
             for n in range(50): s.sendto(b'%d' % n, ('{address}', {}))\n\
             os._exit(0)\n",
            if address.is_ipv6() { "6" } else { "" },
            server.port
        );
        let peer = server.peer();
        let run = ["run", "--dry-run", "--allow-net", &peer, "--", "python3"];
        setting.succeed(&[&run[..], &["-c", &script]].concat());
        let wanted: Vec<_> = (0..50).map(|number| number.to_string()).collect();
        assert_eq!(server.received(50), wanted);
    });
}

/// S21.
#[test]
fn held_datagrams_leave_at_the_commit_one_by_one() {
    let Some(address) = other_address() else {
        return;
    };
    as_each_user(|setting| {
        let server = Datagrams::on(address);
        let script = format!(
            "import socket\n\
             s = socket.socket(socket.AF_INET{}, socket.SOCK_DGRAM)\n\
             for text in [b'one', b'', b'three']: s.sendto(text, ('{address}', {}))\n",
            if address.is_ipv6() { "6" } else { "" },
            server.port
        );
        let peer = server.peer();
        let run = ["run", "--name", "t", "--hold-net", &peer, "--", "python3"];
        setting.succeed(&[&run[..], &["-c", &script]].concat());
        server.assert_untouched();
        let diff = setting.succeed(&["diff", "t"]);
        diff.assert_stdout_contains(&format!("H {peer} (UDP) (8 bytes): one"));
        setting.succeed(&["commit", "t"]);
        assert_eq!(server.received(3), ["one", "", "three"]);
        server.assert_untouched();
    });
}

/// S16, S21.
#[test]
fn with_net_hold_a_server_elsewhere_sees_nothing_before_the_commit_and_all_of_it_after() {
    let Some(address) = other_address() else {
        return;
    };
    as_each_user(|setting| {
        let server = Server::on(address);
        let script = format!(
            "import socket\n\
             s = socket.create_connection(('{address}', {}))\n\
             for n in range(1000): s.sendall(b'%d,' % n)\n",
            server.port
        );
        let run = ["run", "--name", "t", "--net", "hold", "--", "python3"];
        setting.succeed(&[&run[..], &["-c", &script]].concat());
        server.assert_untouched();
        let received = thread::scope(|scope| {
            let receiver = scope.spawn(|| read_all(&mut server.accept()));
            setting.succeed(&["commit", "t"]);
            receiver.join().expect("received")
        });
        let wanted: String = (0..1000).map(|number| format!("{number},")).collect();
        assert!(received == wanted.as_bytes(), "the exact bytes");
        server.assert_untouched();
    });
}

/// S16, S21.
#[test]
fn a_held_name_is_not_looked_up_before_the_commit() {
    as_each_user(|setting| {
        // No such name exists, which nobody finds out before.
        let script = "import socket\n\
             s = socket.create_connection(('nobody.invalid', 80))\n\
             print(s.getpeername()[0])\n\
             s.sendall(b'word'); open('made', 'w')\n";
        let hold = [
            "--hold-net",
            "nobody.invalid",
            "--",
            "python3",
            "-c",
            script,
        ];
        let run = ["run", "--name", "t"];
        let outcome = setting.succeed(&[&run[..], &hold].concat());
        let address = outcome.stdout.trim();
        assert!(
            address.starts_with("198.18.") || address.starts_with("198.19."),
            "it stands for the name: {address}"
        );
        let diff = setting.succeed(&["diff", "t"]);
        diff.assert_stdout_contains("H nobody.invalid:80 (4 bytes): word");
        let commit = setting.surmise(&["commit", "t"]).outcome();
        commit
            .assert_code(1)
            .assert_stderr_contains("cannot reach nobody.invalid:80")
            .assert_stderr_contains("Hint:");
        assert!(!path(setting, "made").exists());
        let diff = setting.succeed(&["diff", "t"]);
        diff.assert_stdout_contains("A made");
        setting.succeed(&["abort", "t"]);
    });
}

/// An address of this machine that is no loopback one. Nothing is sent to find it out.
fn other_address() -> Option<IpAddr> {
    let found = ["203.0.113.1:9", "[2001:db8::1]:9"]
        .into_iter()
        .find_map(|far| {
            let any = if far.starts_with('[') {
                "[::]:0"
            } else {
                "0.0.0.0:0"
            };
            let socket = UdpSocket::bind(any).ok()?;
            socket.connect(far).ok()?;
            let address = socket.local_addr().ok()?.ip();
            (!address.is_loopback()).then_some(address)
        });
    if found.is_none() {
        skip("this machine has no address but its loopback ones");
    }
    found
}

/// A receiver of datagrams outside.
struct Datagrams {
    socket: UdpSocket,
    port: u16,
}

impl Datagrams {
    fn on(address: IpAddr) -> Self {
        let socket = UdpSocket::bind((address, 0)).expect("bind");
        socket.set_nonblocking(true).expect("set");
        let port = socket.local_addr().expect("an address").port();
        Self { socket, port }
    }

    fn peer(&self) -> String {
        self.socket.local_addr().expect("an address").to_string()
    }

    fn received(&self, count: usize) -> Vec<String> {
        let mut all = Vec::new();
        let mut bytes = [0; 100];
        watchdog::until("the datagrams arrive", watchdog::LIMIT, || {
            while let Ok(length) = self.socket.recv(&mut bytes) {
                all.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
            }
            all.len() >= count
        });
        all
    }

    fn assert_untouched(&self) {
        let seen = self.socket.recv(&mut [0; 100]);
        assert!(seen.is_err(), "a datagram arrived: {seen:?}");
    }
}
