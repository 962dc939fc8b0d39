//! What cannot be made now, and can later.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use surmise_remote::client::Intent;

use crate::client::Client;
use crate::kills::create;
use crate::process::Process;

const PATIENCE: Duration = Duration::from_secs(30);

pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A program that a client has built can be executed on the server, and is changed when it has ended.
pub fn a_program_is_changed_when_nobody_executes_it() {
    let export = tempfile::tempdir().expect("a directory");
    let server = Process::start(export.path());
    let mut client = Client::new(export.path(), 1);
    let object = create(&mut client, "program");
    let sleep = fs::read("/bin/sleep").expect("a program");
    let write = |offset, data: &[u8]| Intent::Write {
        object,
        offset: Some(offset),
        data: data.to_vec(),
        strip: false,
    };
    for (index, chunk) in sleep.chunks(1 << 18).enumerate() {
        client
            .change(write((index << 18) as u64, chunk))
            .expect("write");
    }
    client.sync().expect("sync");
    let path = export.path().join("program");
    let length = sleep.len() as u64;
    // It need not be there at once.
    let read = || fs::read(&path).unwrap_or_default();
    until("it is not made", || read() == sleep);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
    let mut running = None;
    until("it cannot be executed", || {
        running = Command::new(&path).arg("1000").spawn().ok();
        running.is_some()
    });
    let mut running = running.expect("it was started");
    client.change(write(length, b"more")).expect("write");
    client.sync().expect("sync");
    std::thread::sleep(Duration::from_millis(300));
    assert!(read() == sleep);
    // Questions are answered meanwhile.
    let other = create(&mut client, "other");
    client.sync().expect("sync");
    client.find(Path::new("other")).expect("look");
    client
        .call(surmise_remote::client::Request::Space)
        .expect("ask");
    client.forget(other);
    running.kill().expect("kill it");
    running.wait().expect("wait for it");
    until("it is not changed", || read().ends_with(b"more"));
    client.leave();
    server.stop();
}

/// A file system of this many bytes, until it is dropped.
struct Small(tempfile::TempDir);

impl Small {
    fn new(bytes: u64) -> Option<Self> {
        let path = tempfile::tempdir().expect("a directory");
        let size = format!("size={bytes}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "none"]);
        let mounted = mount.arg(path.path()).status();
        mounted
            .is_ok_and(|status| status.success())
            .then(|| Self(path))
    }

    /// Leaves no more than so many bytes.
    fn fill(&self, left: u64) {
        let found = rustix::fs::statvfs(self.0.path()).expect("its space");
        let free = found.f_bavail * found.f_frsize;
        let fill = vec![1; (free - left) as usize];
        fs::write(self.0.path().join("fill"), fill).expect("write");
    }

    fn free(&self) {
        fs::remove_file(self.0.path().join("fill")).expect("remove");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Others fill the file system, in which there was room when it was last looked: at first there is none for the log,
/// then none for what the log says.
pub fn a_full_disk_is_waited_for() {
    const MIB: u64 = 1 << 20;
    let Some(export) = Small::new(64 * MIB) else {
        return surmise_testkit::skip("tmpfs cannot be mounted here");
    };
    let path = export.0.path();
    let server = Process::start(path);
    let mut client = Client::new(path, 1);
    let object = create(&mut client, "a");
    client.sync().expect("sync");
    for (round, left) in [(1_u8, 16 << 10), (2, 3 * MIB / 2)] {
        // The server has looked by then, and looks again after a second.
        std::thread::sleep(Duration::from_millis(100));
        export.fill(left);
        let data = vec![round; MIB as usize];
        let is_made = || fs::read(path.join("a")).expect("read it").ends_with(&data);
        let write = Intent::Write {
            object,
            offset: Some(u64::from(round - 1) * MIB),
            data: data.clone(),
            strip: false,
        };
        client.change(write).expect("write");
        let sync = client.begin(surmise_remote::client::Request::Sync(client.pure.losses()));
        let until_freed = Instant::now() + Duration::from_millis(400);
        while Instant::now() < until_freed {
            client.pump();
        }
        assert!(!is_made());
        export.free();
        client.finish(sync).expect("sync");
        until("it is not made", is_made);
    }
    assert!(client.lost.is_empty(), "{:?}", client.lost);
    client.leave();
    server.stop();
}
