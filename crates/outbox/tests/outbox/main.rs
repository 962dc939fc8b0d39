//! The outbox: its file, its writer, and delivery over real sockets on the loopback device.

mod again;
mod delivery;
mod file;
mod full;
mod histories;
mod killed;
mod live;
mod model;
mod receivers;
mod server;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use surmise_outbox::{Host, Sender, Target};
use surmise_testkit::Scratch;

/// A state directory of its own for one outbox.
fn directory(scratch: &Scratch) -> PathBuf {
    let directory = scratch.root().join("state/test");
    fs::create_dir_all(&directory).expect("make a directory");
    directory
}

fn tcp(port: u16) -> Target {
    Target::Tcp(Host::Address([127, 0, 0, 1].into()), port)
}

fn udp(port: u16) -> Target {
    Target::Udp(Host::Address([127, 0, 0, 1].into()), port)
}

fn curl() -> Option<Sender> {
    Some(Sender {
        pid: 41,
        name: "curl".into(),
    })
}

/// The command that runs the test `name` of this program as a process of its own, behind
/// `shell`, which ends in `exec "$0" "$@"`.
fn child(name: &str, shell: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", shell])
        .arg(std::env::current_exe().expect("this program's path"))
        .args([name, "--exact", "--nocapture", "--test-threads=1"]);
    command
}
