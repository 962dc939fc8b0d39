//! `surmise serve` as ssh starts it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use surmise_remote::frame::{ClientKey, Decoder, PROTOCOL, ToClient, ToServer, Welcome, encode};
use surmise_testkit::{Run, Scratch, is_installed, skip, surmise_binary};

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

/// The unit that is shipped says `Type=notify`.
#[test]
fn the_manager_of_services_hears_when_clients_can_come() {
    let scratch = Scratch::new();
    let export = scratch.root().join("export");
    fs::create_dir(&export).expect("mkdir");
    let socket = scratch.root().join("notify");
    let manager = UnixDatagram::bind(&socket).expect("bind");
    manager.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut server = Command::new(surmise_binary())
        .arg("serve")
        .arg(&export)
        .env("NOTIFY_SOCKET", &socket)
        .stderr(Stdio::null())
        .spawn()
        .expect("start it");
    let mut text = [0; 32];
    let length = manager.recv(&mut text).expect("hear");
    assert_eq!(&text[..length], b"READY=1");
    assert!(export.join(".surmise/socket").exists());
    stop(&export);
    assert!(server.wait().expect("wait").success());
}

#[test]
fn the_unit_of_the_package_is_well_formed() {
    if !is_installed("systemd-analyze") {
        return skip("systemd-analyze is not installed");
    }
    let scratch = Scratch::new();
    let unit = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../packaging/systemd/surmise-serve@.service");
    let unit = fs::read_to_string(unit).expect("it is there");
    let program = surmise_binary().display().to_string();
    let installed = unit.replace("/usr/bin/surmise", &program);
    let user = Run::plain(&scratch, ["id", "-un"]).outcome();
    let file = format!("surmise-serve@{}.service", user.stdout.trim());
    scratch.file(&file, installed);
    let words = ["systemd-analyze", "verify", "--man=no", &file];
    let outcome = Run::plain(&scratch, words).outcome();
    outcome.assert_success().assert_no_stderr();
}
