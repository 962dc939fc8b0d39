//! What a commit cannot send: it is told, kept, and sent or dropped as somebody decides.

use std::io::Read;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use surmise_testkit::{copied_binary, watchdog};

use crate::network::{Server, listing, read_all};
use crate::setting::{Setting, as_each_user};

/// More than a connection takes of which nobody reads.
const SIZE: usize = 251 * 60_000;

fn is_right(bytes: &[u8], from: usize) -> bool {
    let mut bytes = bytes.iter().enumerate();
    bytes.all(|(at, byte)| usize::from(*byte) == (from + at) % 251)
}

/// A kept domain that holds `SIZE` bytes for a server, and made a file.
fn hold(setting: &Setting, server: &Server) {
    let script = format!(
        "import socket\n\
         s = socket.create_connection(('127.0.0.1', {}))\n\
         s.sendall(bytes(range(251)) * ({SIZE} // 251))\n\
         open('made', 'w').close()\n",
        server.port
    );
    let peer = server.peer();
    let run = ["run", "--name", "t", "--hold-net", &peer, "--", "python3"];
    setting.succeed(&[&run[..], &["-c", &script]].concat());
}

/// A commit whose receiver resets the connection after some of the bytes.
fn commit_in_part(setting: &Setting, server: &Server) {
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut stream = server.accept();
            stream.read_exact(&mut vec![0; 300_000]).expect("read");
            // With bytes unread, to close it is to reset it.
            drop(stream);
        });
        let commit = setting.surmise(&["commit", "t"]).outcome();
        receiver.join().expect("received");
        commit
            .assert_code(1)
            .assert_stderr_contains("1 held output could not be sent whole")
            .assert_stderr_contains("`surmise commit --unsent rest t` sends the rest");
    });
    assert!(setting.scratch.path("made").exists(), "the files are real");
}

/// How many bytes are said to have left, and how many not.
fn told(setting: &Setting) -> (usize, usize) {
    let row = &listing(setting)[0];
    assert_eq!(row["status"], "unsent", "{row}");
    let held = &row["held"][0];
    let number = |name: &str| held[name].as_u64().expect("a number") as usize;
    (number("unsent_after"), number("bytes"))
}

fn receive<'s>(
    scope: &'s thread::Scope<'s, '_>,
    server: &'s Server,
) -> thread::ScopedJoinHandle<'s, Vec<u8>> {
    scope.spawn(|| read_all(&mut server.accept()))
}

/// S51.
#[test]
fn what_a_receiver_did_not_take_is_kept_and_its_rest_is_sent() {
    as_each_user(|setting| {
        let server = Server::start();
        hold(setting, &server);
        commit_in_part(setting, &server);
        let (sent, left) = told(setting);
        assert!(sent >= 300_000 && sent + left == SIZE, "{sent} {left}");
        let diff = setting.succeed(&["diff", "t"]).stdout;
        let line = format!("H {} ({left} bytes unsent, {sent} sent)", server.peer());
        assert!(
            diff.starts_with(&line) && diff.lines().count() == 1,
            "{diff}"
        );
        // Nobody has said yet what is to become of it.
        setting.surmise(&["commit", "t"]).outcome().assert_code(1);
        server.assert_untouched();
        assert_eq!(told(setting), (sent, left));
        thread::scope(|scope| {
            let receiver = receive(scope, &server);
            setting.succeed(&["commit", "--unsent", "rest", "t"]);
            let bytes = receiver.join().expect("received");
            assert!(bytes.len() == left && is_right(&bytes, sent));
        });
        assert_eq!(setting.succeed(&["list", "--names"]).stdout, "");
    });
}

/// S51.
#[test]
fn what_a_receiver_did_not_take_is_sent_once_more_or_dropped() {
    as_each_user(|setting| {
        let server = Server::start();
        hold(setting, &server);
        commit_in_part(setting, &server);
        thread::scope(|scope| {
            let receiver = receive(scope, &server);
            setting.succeed(&["commit", "--unsent", "whole", "t"]);
            let bytes = receiver.join().expect("received");
            assert!(bytes.len() == SIZE && is_right(&bytes, 0));
        });
        assert_eq!(setting.succeed(&["list", "--names"]).stdout, "");

        hold(setting, &server);
        commit_in_part(setting, &server);
        let undo = setting.surmise(&["commit", "--undo", "t"]).outcome();
        undo.assert_code(1);
        let shell = setting.surmise(&["shell", "t", "--", "true"]).outcome();
        shell
            .assert_code(125)
            .assert_stderr_contains("domain `t` is committed; held output is left")
            .assert_stderr_contains("Hint: `surmise commit --unsent rest t` sends what is left");
        let abort = setting.succeed(&["abort", "t"]);
        abort.assert_stderr_contains("had been committed, and stay");
        assert!(setting.scratch.path("made").exists());
        server.assert_untouched();
        assert_eq!(setting.succeed(&["list", "--names"]).stdout, "");
        let none = setting
            .surmise(&["commit", "--unsent", "rest", "t"])
            .outcome();
        none.assert_code(1).assert_stderr_contains("no domain `t`");
    });
}

/// S51: an answer that could not be acted upon can be given anew.
#[test]
fn what_could_not_even_be_connected_can_be_asked_for_again() {
    as_each_user(|setting| {
        let server = Server::start();
        hold(setting, &server);
        commit_in_part(setting, &server);
        let (_, left) = told(setting);
        let address = server.peer();
        drop(server);
        for _ in 0..2 {
            let commit = ["commit", "--unsent", "rest", "t"];
            let nowhere = setting.surmise(&commit).outcome();
            nowhere
                .assert_code(1)
                .assert_stderr_contains("held output has nowhere to go");
            let row = &listing(setting)[0];
            assert_eq!(row["status"], "unsent", "{row}");
            assert_eq!(row["held"][0]["bytes"], left, "{row}");
        }
        let server = Server::at(&address);
        thread::scope(|scope| {
            let receiver = receive(scope, &server);
            setting.succeed(&["commit", "--unsent", "whole", "t"]);
            let bytes = receiver.join().expect("received");
            assert!(bytes.len() == SIZE && is_right(&bytes, 0));
        });
        assert_eq!(setting.succeed(&["list", "--names"]).stdout, "");
    });
}

/// S51: a delivery that is killed has noted how far it had come.
#[test]
fn a_killed_delivery_tells_what_had_left() {
    as_each_user(|setting| {
        let server = Server::start();
        hold(setting, &server);
        let binary = copied_binary(&setting.scratch);
        let commit = [
            "sh",
            "-c",
            "\"$BINARY\" commit t & echo $! > pid; wait",
            "sh",
        ];
        thread::scope(|scope| {
            let killed = scope.spawn(|| {
                let run = setting.plain(&commit).env("BINARY", &binary);
                run.env("XDG_STATE_HOME", setting.scratch.state()).outcome()
            });
            let mut stream = server.accept();
            stream.read_exact(&mut vec![0; 500_000]).expect("read");
            wait_until_full(&stream);
            let pid = std::fs::read_to_string(setting.scratch.path("pid")).expect("its number");
            setting
                .plain(&["kill", "-KILL", pid.trim()])
                .outcome()
                .assert_success();
            killed.join().expect("killed");
        });
        let (sent, left) = told(setting);
        assert!(sent >= 300_000 && sent + left == SIZE, "{sent} {left}");
        let again = setting.surmise(&["commit", "t"]).outcome();
        again
            .assert_code(1)
            .assert_stderr_contains("an earlier delivery was interrupted");
        thread::scope(|scope| {
            let receiver = receive(scope, &server);
            setting.succeed(&["commit", "--unsent", "whole", "t"]);
            let bytes = receiver.join().expect("received");
            assert!(bytes.len() == SIZE && is_right(&bytes, 0));
        });
    });
}

/// Returns when no more comes into a connection that nobody reads.
fn wait_until_full(stream: &TcpStream) {
    let mut before = 0;
    watchdog::until("the connection is full", watchdog::LIMIT, || {
        thread::sleep(Duration::from_millis(100));
        let now = rustix::io::ioctl_fionread(stream).expect("asked");
        std::mem::replace(&mut before, now) == now && now > 0
    });
}
