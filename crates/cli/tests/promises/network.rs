//! S16, S21, S22: what crosses the boundary over the network, and when.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::thread;
use std::time::Duration;

use surmise_testkit::watchdog;

use crate::setting::{Setting, as_each_user};

/// A server outside, on a loopback port of its own.
pub struct Server {
    pub listener: TcpListener,
    pub port: u16,
}

impl Server {
    pub fn start() -> Self {
        Self::on("127.0.0.1".parse().expect("an address"))
    }

    /// On another address of this machine.
    pub fn on(address: IpAddr) -> Self {
        Self::at((address, 0))
    }

    /// Where another one was.
    pub fn at(address: impl ToSocketAddrs) -> Self {
        let listener = TcpListener::bind(address).expect("listen");
        listener.set_nonblocking(true).expect("set");
        let port = listener.local_addr().expect("an address").port();
        Self { listener, port }
    }

    pub fn peer(&self) -> String {
        self.listener.local_addr().expect("an address").to_string()
    }

    /// Waits for a connection.
    #[track_caller]
    pub fn accept(&self) -> TcpStream {
        let mut accepted = None;
        watchdog::until("a connection arrives", watchdog::LIMIT, || {
            accepted = self.listener.accept().ok();
            accepted.is_some()
        });
        let (stream, _) = accepted.expect("accepted above");
        stream.set_nonblocking(false).expect("set");
        stream.set_read_timeout(Some(watchdog::LIMIT)).expect("set");
        stream
    }

    #[track_caller]
    pub fn assert_untouched(&self) {
        let seen = self.listener.accept();
        assert!(seen.is_err(), "a connection arrived: {seen:?}");
    }
}

/// Everything until the sender closes its side.
pub fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("read");
    bytes
}

pub fn listing(setting: &Setting) -> serde_json::Value {
    let outcome = setting.succeed(&["list", "--json"]);
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

pub fn wait_until_ended(setting: &Setting) {
    watchdog::until("the command ends", watchdog::LIMIT, || {
        let rows = listing(setting);
        let status = rows[0]["status"].as_str().map(str::to_owned);
        status.is_none_or(|status| status != "running")
    });
}

/// S16.
#[test]
fn denied_hosts_refuse_by_name() {
    as_each_user(|setting| {
        let server = Server::start();
        let script = format!(
            "import errno, socket\n\
             for address in [('127.0.0.1', {}), ('192.0.2.1', 80)]:\n\
             \x20   try: socket.create_connection(address, 5); print('reached')\n\
             \x20   except OSError as error: print(errno.errorcode[error.errno])\n",
            server.port
        );
        let run = [
            "run",
            "--dry-run",
            "--net",
            "deny",
            "--",
            "python3",
            "-c",
            &script,
        ];
        let outcome = setting.succeed(&run);
        outcome.assert_lines(&["ECONNREFUSED", "ENETUNREACH"]);
        // With a gate that lets somebody else through.
        let run = [
            "run",
            "--dry-run",
            "--net",
            "deny",
            "--allow-net",
            "192.0.2.9",
            "--",
        ];
        let outcome = setting.succeed(&[&run[..], &["python3", "-c", &script]].concat());
        outcome.assert_lines(&["ECONNREFUSED", "ECONNREFUSED"]);
        server.assert_untouched();
    });
}

/// S16.
#[test]
fn a_named_loopback_port_is_reached_and_a_server_inside_wins_its_own() {
    as_each_user(|setting| {
        let server = Server::start();
        let peer = server.peer();
        let port = server.port;
        let reach = format!(
            "import socket\n\
             with socket.create_connection(('127.0.0.1', {port}), 5) as client:\n\
             \x20   client.sendall(b'hello'); client.shutdown(socket.SHUT_WR)\n\
             \x20   print(client.recv(100).decode())\n"
        );
        thread::scope(|scope| {
            let serving = scope.spawn(|| {
                let mut stream = server.accept();
                assert_eq!(read_all(&mut stream), b"hello");
                stream.write_all(b"welcome").expect("reply");
            });
            let run = [
                "run",
                "--dry-run",
                "--allow-net",
                &peer,
                "--",
                "python3",
                "-c",
                &reach,
            ];
            setting.succeed(&run).assert_stdout("welcome\n");
            serving.join().expect("served");
        });
        let inside = format!(
            "import socket, threading\n\
             server = socket.create_server(('127.0.0.1', {port}))\n\
             def serve():\n\
             \x20   client, _ = server.accept(); client.recv(5); client.sendall(b'inside')\n\
             threading.Thread(target=serve).start()\n{reach}"
        );
        let run = [
            "run",
            "--dry-run",
            "--allow-net",
            &peer,
            "--",
            "python3",
            "-c",
            &inside,
        ];
        setting.succeed(&run).assert_stdout("inside\n");
        server.assert_untouched();
    });
}

/// S21.
#[test]
fn held_output_of_a_command_that_has_ended_goes_out_at_the_commit_once() {
    as_each_user(|setting| {
        let (one, two) = (Server::start(), Server::start());
        let udp = UdpSocket::bind("127.0.0.1:0").expect("bind");
        udp.set_read_timeout(Some(Duration::from_millis(200)))
            .expect("set");
        let datagrams = udp.local_addr().expect("an address").to_string();
        let script = format!(
            "import socket\n\
             one = socket.create_connection(('127.0.0.1', {}))\n\
             two = socket.create_connection(('127.0.0.1', {}))\n\
             one.sendall(b'first ' * 1000)\n\
             two.sendall(b'second')\n\
             one.sendall(b'last'); one.close(); two.close()\n\
             open('made', 'w').write('x')\n",
            one.port, two.port
        );
        let (first, second) = (one.peer(), two.peer());
        let hold = ["--hold-net", &first, "--hold-net", &second];
        let run = ["run", "--name", "t", "--net", "deny"];
        let command = ["--", "python3", "-c", &script];
        setting.succeed(&[&run[..], &hold, &command].concat());
        one.assert_untouched();
        two.assert_untouched();
        let diff = setting.succeed(&["diff", "t"]);
        diff.assert_stdout_contains(&format!("H {first} (6004 bytes): first first"));
        diff.assert_stdout_contains(&format!("H {second} (6 bytes): second"));
        let rows = listing(setting);
        assert_eq!(rows[0]["held"][0]["bytes"], 6004);
        assert!(!setting.scratch.path("made").exists());
        thread::scope(|scope| {
            let first = scope.spawn(|| read_all(&mut one.accept()));
            let second = scope.spawn(|| read_all(&mut two.accept()));
            setting.succeed(&["commit", "t"]);
            let wanted = [&b"first ".repeat(1000)[..], b"last"].concat();
            assert_eq!(first.join().expect("served"), wanted);
            assert_eq!(second.join().expect("served"), b"second");
        });
        assert!(setting.scratch.path("made").exists());
        one.assert_untouched();
        two.assert_untouched();
        drop(datagrams);
    });
}

/// S21.
#[test]
fn held_output_is_gone_after_an_abort() {
    as_each_user(|setting| {
        let server = Server::start();
        let peer = server.peer();
        let script = format!(
            "import socket; socket.create_connection(('127.0.0.1', {})).sendall(b'x')",
            server.port
        );
        let run = [
            "run",
            "--name",
            "t",
            "--hold-net",
            &peer,
            "--",
            "python3",
            "-c",
            &script,
        ];
        setting.succeed(&run);
        setting.succeed(&["abort", "t"]);
        server.assert_untouched();
        assert!(!setting.scratch.state().join("surmise").exists());
    });
}

/// S21: the server has gone meanwhile.
#[test]
fn a_commit_whose_held_output_has_nowhere_to_go_changes_nothing() {
    as_each_user(|setting| {
        let server = Server::start();
        let peer = server.peer();
        let script = format!(
            "import socket; socket.create_connection(('127.0.0.1', {})).sendall(b'x')\n\
             open('made', 'w')",
            server.port
        );
        let run = [
            "run",
            "--name",
            "t",
            "--hold-net",
            &peer,
            "--",
            "python3",
            "-c",
            &script,
        ];
        setting.succeed(&run);
        drop(server);
        setting
            .surmise(&["commit", "t"])
            .outcome()
            .assert_code(1)
            .assert_stderr_contains("Error:")
            .assert_stderr_contains(&peer)
            .assert_stderr_contains("Hint:");
        assert!(!setting.scratch.path("made").exists());
        setting.succeed(&["abort", "t"]);
    });
}

/// S21, S22, S23: curl waits for a reply that cannot come, nobody is there to be asked, and a commit
/// from elsewhere sends the request and lets curl have its answer.
#[test]
fn a_stalled_command_is_told_of_and_goes_on_after_a_commit() {
    as_each_user(|setting| {
        let server = Server::start();
        let peer = server.peer();
        let url = format!("http://{peer}/held");
        let run = ["run", "--name", "t", "--hold-net", &peer, "--"];
        let command = ["curl", "-sS", "-o", "answer", "--data", "a=b", &url];
        setting
            .surmise(&[&run[..], &command].concat())
            .outcome()
            .assert_code(125)
            .assert_stderr_contains(&format!("bytes for {peer} (curl, pid "))
            .assert_stderr_contains("waiting for commit")
            .assert_stderr_contains("surmise commit t");
        server.assert_untouched();
        assert_eq!(listing(setting)[0]["status"], "running");
        thread::scope(|scope| {
            let serving = scope.spawn(|| {
                let mut stream = server.accept();
                let mut request = Vec::new();
                let mut piece = [0; 4096];
                while !request.ends_with(b"\r\n\r\na=b") {
                    let length = stream.read(&mut piece).expect("read");
                    assert!(length > 0, "cut short: {request:?}");
                    request.extend_from_slice(&piece[..length]);
                }
                let reply = "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok";
                stream.write_all(reply.as_bytes()).expect("reply");
                request
            });
            let commit = setting.succeed(&["commit", "t"]);
            commit.assert_stderr_contains("the command goes on");
            let request = serving.join().expect("served");
            assert!(request.starts_with(b"POST /held HTTP/1.1\r\n"));
        });
        wait_until_ended(setting);
        // It was written under a new consent.
        assert!(!setting.scratch.path("answer").exists());
        setting.succeed(&["diff", "t"]).assert_lines(&["A answer"]);
        setting.succeed(&["commit", "t"]);
        assert_eq!(
            std::fs::read(setting.scratch.path("answer")).expect("read"),
            b"ok"
        );
    });
}

/// S16.
#[test]
fn a_published_server_is_reached_from_outside() {
    as_each_user(|setting| {
        let port = {
            let free = TcpListener::bind("127.0.0.1:0").expect("listen");
            free.local_addr().expect("an address").port()
        };
        let script = format!(
            "import socket\n\
             server = socket.create_server(('127.0.0.1', {port}))\n\
             client, _ = server.accept()\n\
             print(client.recv(100).decode()); client.sendall(b'from inside'); client.close()\n"
        );
        let number = port.to_string();
        thread::scope(|scope| {
            let client = scope.spawn(|| {
                let mut answer = Vec::new();
                watchdog::until("the server inside answers", watchdog::LIMIT, || {
                    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
                        return false;
                    };
                    stream.set_read_timeout(Some(watchdog::LIMIT)).expect("set");
                    let sent = stream.write_all(b"from outside").is_ok();
                    sent && stream.read_to_end(&mut answer).is_ok() && !answer.is_empty()
                });
                answer
            });
            let run = [
                "run",
                "--dry-run",
                "--publish",
                &number,
                "--",
                "python3",
                "-c",
                &script,
            ];
            setting.succeed(&run).assert_stdout("from outside\n");
            assert_eq!(client.join().expect("connected"), b"from inside");
        });
    });
}
