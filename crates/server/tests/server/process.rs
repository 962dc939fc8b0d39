//! A server in a process of its own, which is this test's program started again.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use surmise_server::{Options, serve};

const DIRECTORY: &str = "SURMISE_TEST_SERVES";
const LEASE_MS: &str = "SURMISE_TEST_LEASE_MS";
const ORDINARY: &str = "SURMISE_TEST_ORDINARY";

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
        let program = std::env::current_exe().expect("the test's program");
        let mut command = Command::new(program);
        command
            .env(DIRECTORY, export)
            .env(LEASE_MS, lease_ms.to_string())
            .stdout(Stdio::null());
        if is_ordinary {
            command.env(ORDINARY, "1");
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
    if let Err(error) = serve(Path::new(&export), options, || {}) {
        surmise_testkit::tell(format_args!("the server: {error}"));
        std::process::exit(1);
    }
    std::process::exit(0);
}
