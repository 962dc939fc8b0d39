//! A server in a process of its own, which is this test's program started again.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use surmise_server::{Listener, Options, serve_also, users};
use surmise_tls::{Files, Terms};

const DIRECTORY: &str = "SURMISE_TEST_SERVES";
const LEASE_MS: &str = "SURMISE_TEST_LEASE_MS";
const ORDINARY: &str = "SURMISE_TEST_ORDINARY";
const TLS: &str = "SURMISE_TEST_TLS";

/// Where a server that listens for TLS says on which port, in the directory of its certificates.
const PORT: &str = "port";

pub struct Process {
    child: Child,
}

/// A test that fails leaves no server behind.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    pub fn start(export: &Path) -> Self {
        Self::start_with(export, 2_000, false)
    }

    pub fn start_with(export: &Path, lease_ms: u64, is_ordinary: bool) -> Self {
        Self::start_by(export, lease_ms, is_ordinary, None)
    }

    /// Takes clients by TLS, too, with the certificates in a directory; returns the port.
    pub fn start_with_tls(export: &Path, is_ordinary: bool, certificates: &Path) -> (Self, u16) {
        let path = certificates.join(PORT);
        let process = Self::start_by(export, 2_000, is_ordinary, Some(certificates));
        loop {
            let port = std::fs::read_to_string(&path).unwrap_or_default();
            if let Ok(port) = port.parse() {
                std::fs::remove_file(path).expect("remove the file");
                return (process, port);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn number(&self) -> u32 {
        self.child.id()
    }

    fn start_by(export: &Path, lease_ms: u64, is_ordinary: bool, tls: Option<&Path>) -> Self {
        let program = std::env::current_exe().expect("the test's program");
        let mut command = Command::new(program);
        command
            .env(DIRECTORY, export)
            .env(LEASE_MS, lease_ms.to_string())
            .stdout(Stdio::null());
        if is_ordinary {
            command.env(ORDINARY, "1");
        }
        if let Some(certificates) = tls {
            command.env(TLS, certificates);
        }
        let child = command.spawn().expect("start a server");
        Self { child }
    }

    /// Ends it without warning.
    pub fn kill(mut self) {
        self.child.kill().expect("kill the server");
        self.child.wait().expect("wait for the server");
    }

    /// Has it stand still, or go on.
    pub fn pause(&self, is_paused: bool) {
        let signal = if is_paused {
            Signal::STOP
        } else {
            Signal::CONT
        };
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("signal the server");
    }

    /// Has it end by itself, when all that it has promised is made.
    pub fn stop(mut self) {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, Signal::TERM).expect("signal the server");
        let status = self.child.wait().expect("wait for the server");
        assert!(status.success(), "the server: {status}");
    }
}

/// Serves, if this process is one that [`Process`] has started.
pub fn serve_if_told() {
    let Some(export) = std::env::var_os(DIRECTORY) else {
        return;
    };
    if std::env::var_os(ORDINARY).is_some() {
        surmise_testkit::become_ordinary_user();
    }
    let lease_ms = std::env::var(LEASE_MS).expect("a lease");
    let options = Options {
        lease: Duration::from_millis(lease_ms.parse().expect("a number")),
        ends_alone: false,
    };
    let tls = std::env::var_os(TLS).map(PathBuf::from);
    let listener = tls.as_ref().map(|certificates| listen(certificates));
    if let Err(error) = serve_also(Path::new(&export), options, listener, || {}) {
        surmise_testkit::tell(format_args!("the server: {error}"));
        std::process::exit(1);
    }
    std::process::exit(0);
}

/// Takes certificates of the name `ann`.
fn listen(certificates: &Path) -> Listener {
    let files = Files {
        certificate: certificates.join("server.crt"),
        key: certificates.join("server.key"),
        clients: certificates.join("ca.crt"),
    };
    let own = rustix::process::geteuid().as_raw().to_string();
    let users = users(&[("ann".to_owned(), own)]).expect("its own user");
    let terms = Terms::new(files, "export".into(), users);
    let terms = terms.expect("good certificates");
    let addresses = ["localhost:0".to_owned()];
    let listener = Listener::bind(&addresses, terms, |_| {}).expect("listen");
    let port = listener.addresses().expect("an address")[0].port();
    // By another file, so that nobody reads half of the number.
    let written = certificates.join("port.new");
    std::fs::write(&written, port.to_string()).expect("write");
    std::fs::rename(written, certificates.join(PORT)).expect("rename");
    listener
}
