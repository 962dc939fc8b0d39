//! `surmise serve` as ssh starts it.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use surmise_remote::frame::{ClientKey, Decoder, PROTOCOL, ToClient, ToServer, Welcome, encode};
use surmise_testkit::{Run, Scratch, surmise_binary};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What ssh would start, and a client at its streams.
struct Remote(Child);

impl Remote {
    fn start(export: &Path) -> Self {
        let child = Command::new(surmise_binary())
            .args(["serve", "--stdio"])
            .arg(export)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Self(child.expect("start it"))
    }

    fn introduce(&mut self, key: u8) -> Welcome {
        let mut bytes = Vec::new();
        let hello = ToServer::Hello {
            protocol: PROTOCOL,
            client: ClientKey([key; 16]),
            prefix: None,
            decided: 0,
        };
        encode(&hello, &mut bytes).expect("a short message");
        let input = self.0.stdin.as_mut().expect("a pipe");
        input.write_all(&bytes).expect("send");
        let mut decoder = Decoder::default();
        let mut chunk = [0; 1024];
        loop {
            let output = self.0.stdout.as_mut().expect("a pipe");
            let length = output.read(&mut chunk).expect("read");
            assert!(length > 0, "no welcome");
            decoder.feed(&chunk[..length]);
            match decoder.message().expect("a message") {
                Some(ToClient::Welcome(welcome)) => return welcome,
                Some(other) => panic!("{other:?}"),
                None => {}
            }
        }
    }

    /// The connection ends, and with it the process.
    fn end(mut self) {
        drop(self.0.stdin.take());
        let status = self.0.wait().expect("wait");
        assert!(status.success(), "{status}");
    }
}

/// Ends the server in the background.
fn stop(export: &Path) {
    let lock = fs::read_to_string(export.join(".surmise/lock")).expect("a lock");
    let number = lock.trim().parse().expect("a process number");
    let pid = Pid::from_raw(number).expect("a process number");
    rustix::process::kill_process(pid, Signal::TERM).expect("signal it");
    let deadline = Instant::now() + PATIENCE;
    while export.join(".surmise/socket").exists() {
        assert!(Instant::now() < deadline, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn all_streams_come_to_one_server() {
    let scratch = Scratch::new();
    let export = scratch.root().join("export");
    fs::create_dir(&export).expect("mkdir");
    // Started at the same time, when there is no server.
    let mut remotes: Vec<_> = (0..3).map(|_| Remote::start(&export)).collect();
    let mut prefixes = Vec::new();
    for (remote, key) in remotes.iter_mut().zip(1..) {
        prefixes.push(remote.introduce(key).prefix);
    }
    prefixes.sort();
    prefixes.dedup();
    assert_eq!(prefixes.len(), 3);
    for remote in remotes {
        remote.end();
    }
    stop(&export);
    let errors = fs::read_to_string(export.join(".surmise/errors")).expect("a file");
    assert_eq!(errors, "");
}

#[test]
fn what_cannot_be_served_is_said_with_its_fix() {
    let scratch = Scratch::new();
    let serve = |path: &Path, more: &[&str]| {
        let path = path.to_str().expect("text");
        let arguments = [&["serve", path], more].concat();
        Run::surmise(&scratch, arguments).outcome()
    };
    let missing = scratch.root().join("missing");
    for more in [&[][..], &["--stdio"]] {
        let outcome = serve(&missing, more);
        outcome
            .assert_code(1)
            .assert_stderr_contains("missing: No such file");
    }
    let file = scratch.root().join("file");
    fs::write(&file, "").expect("write");
    serve(&file, &[])
        .assert_code(1)
        .assert_stderr_contains("Not a directory");
    let export = scratch.root().join("export");
    fs::create_dir_all(export.join(".surmise")).expect("mkdir");
    fs::write(export.join(".surmise/log"), vec![1; 4000]).expect("write");
    for more in [&[][..], &["--stdio"]] {
        let outcome = serve(&export, more);
        outcome
            .assert_code(1)
            .assert_stderr_contains(".surmise/log: damaged at byte 0");
        outcome.assert_stderr_contains("Hint: ");
    }
}
