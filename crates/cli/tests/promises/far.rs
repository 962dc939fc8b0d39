//! S55 to S59, S61, S63 and S64: directories of other machines. Here the other machine is this one.

mod breaks;
mod cache;
mod giving_up;
mod histories;
mod locks;
mod lost;
mod noticed;
mod power;
mod programs;
mod several;
mod synced;
mod tls;
mod usage;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use surmise_testkit::{Outcome, Run, is_installed, skip};

use crate::setting::Setting;

/// What ssh is here: a shell is given the words behind the host. The process that connects leaves its number.
const SSH: &str = "\
#!/bin/sh
while [ \"$1\" != -- ]; do shift; done
shift 2
echo $$ > \"$TMPDIR/connection\"
exec sh -c \"$*\"
";

/// `work/export`, which is served.
struct Far<'s> {
    setting: &'s Setting,
}

impl<'s> Far<'s> {
    /// `None` where this user can mount nothing.
    fn new(setting: &'s Setting) -> Option<Self> {
        if !setting.is_root() {
            if !is_installed("fusermount3") {
                skip("an ordinary user mounts by fusermount3, of the package fuse3");
                return None;
            }
            let mode = fs::metadata("/dev/fuse").map_or(0, |device| device.mode());
            if mode & 0o006 != 0o006 {
                skip("/dev/fuse is closed to ordinary users");
                return None;
            }
        }
        setting
            .scratch
            .directory("export")
            .directory("tmp")
            .executable("ssh", SSH);
        Some(Self { setting })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.setting.scratch.path(name)
    }

    fn export(&self) -> PathBuf {
        self.path("export")
    }

    /// `surmise mount` with these options, on a directory of this name in `work/`.
    fn try_mount(&self, options: &[&str], source: &str, name: &str) -> Outcome {
        self.mounting(options, source, name).outcome()
    }

    fn mounting(&self, options: &[&str], source: &str, name: &str) -> Run<'_> {
        self.setting.scratch.directory(name);
        let ssh = self.path("ssh").display().to_string();
        let words = [&["mount", "--ssh", &ssh][..], options, &[source, name]].concat();
        let run = self.setting.surmise(&words);
        run.in_place().env("TMPDIR", self.path("tmp"))
    }

    #[track_caller]
    fn mount(&self, name: &str) -> Mount<'_> {
        let source = format!("near:{}", self.export().display());
        self.mount_from(&source, name)
    }

    #[track_caller]
    fn mount_from(&self, source: &str, name: &str) -> Mount<'_> {
        let program = surmise_testkit::copied_binary(&self.setting.scratch);
        let program = program.display().to_string();
        let options = ["--server-command", &program];
        self.try_mount(&options, source, name)
            .assert_success()
            .assert_no_stderr();
        Mount {
            far: self,
            name: name.to_owned(),
            process: self.process_of(name),
            is_mounted: true,
        }
    }

    /// Serves the directory, with a short lease, until the value is dropped.
    fn serve(&self, lease: &str) -> Server {
        let server = Command::new(surmise_testkit::surmise_binary())
            .args(["serve", "--lease", lease])
            .arg(self.export())
            .stderr(Stdio::null())
            .spawn()
            .expect("start the server");
        let socket = self.export().join(".surmise/socket");
        while UnixStream::connect(&socket).is_err() {
            thread::sleep(Duration::from_millis(10));
        }
        Server(server)
    }

    /// The process that serves the mount of this name.
    fn process_of(&self, name: &str) -> i32 {
        let number = self.listed(name)["process"].as_i64().expect("a number");
        i32::try_from(number).expect("a number")
    }

    /// What `surmise mounts` tells of a mount; of the last one at this place, since an earlier one may still be ending.
    fn listed(&self, name: &str) -> serde_json::Value {
        let all = self.succeed(&["mounts", "--json"]);
        let all: serde_json::Value = serde_json::from_str(&all.stdout).expect("JSON");
        let place = self.path(name).display().to_string();
        let mut all = all["mounts"].as_array().expect("an array").iter();
        let own = all.rfind(|one| one["mount_point"] == place);
        own.expect("listed").clone()
    }

    /// The process by which the last mount is connected.
    fn connection(&self) -> i32 {
        let number = fs::read_to_string(self.path("tmp/connection")).expect("it was written");
        number.trim().parse().expect("a number")
    }

    /// The process that serves the directory.
    fn server(&self) -> Option<i32> {
        process_with(&["serve".as_ref(), self.export().as_os_str()])
    }

    #[track_caller]
    fn sh(&self, script: &str) -> Outcome {
        let run = self.setting.plain(&["sh", "-ec", script]).in_place();
        let outcome = run.outcome();
        outcome.assert_success();
        outcome
    }

    /// `surmise` with these arguments, which succeeds.
    #[track_caller]
    fn succeed(&self, arguments: &[&str]) -> Outcome {
        let outcome = self.setting.surmise(arguments).in_place().outcome();
        outcome.assert_success();
        outcome
    }
}

impl Drop for Far<'_> {
    fn drop(&mut self) {
        // It would wait a minute for other clients.
        let server = self.server().and_then(Pid::from_raw);
        if let Some(server) = server {
            let _ = kill_process(server, Signal::TERM);
        }
    }
}

/// A server that the test has started.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have been killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The number in this variable of the environment, where it is set.
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is a number")),
    )
}

/// The process whose arguments contain these.
fn process_with(words: &[&std::ffi::OsStr]) -> Option<i32> {
    use std::os::unix::ffi::OsStrExt;
    let processes = fs::read_dir("/proc").expect("there is /proc");
    let mut numbers = processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.find(|number: &i32| {
        let line = fs::read(Path::new("/proc").join(number.to_string()).join("cmdline"));
        let line = line.unwrap_or_default();
        let arguments: Vec<_> = line.split(|byte| *byte == 0).collect();
        // Not the process that only connects.
        !arguments.contains(&&b"--stdio"[..])
            && words
                .iter()
                .all(|word| arguments.contains(&word.as_bytes()))
    })
}

/// An unmount tells nothing, unless a domain of another test has a copy of the mount.
#[track_caller]
fn assert_unmounted_quietly(outcome: &Outcome) {
    let is_elsewhere = |line: &str| line.contains("is still mounted in another mount namespace");
    assert!(
        outcome.stderr.lines().all(is_elsewhere),
        "{}",
        outcome.stderr
    );
}

/// A mount, which is unmounted at the end.
struct Mount<'f> {
    far: &'f Far<'f>,
    name: String,
    /// That serves it.
    process: i32,
    is_mounted: bool,
}

impl Mount<'_> {
    fn path(&self) -> PathBuf {
        self.far.path(&self.name)
    }

    #[track_caller]
    fn unmount(mut self) {
        self.is_mounted = false;
        assert_unmounted_quietly(&self.far.succeed(&["umount", &self.name]));
    }

    /// Unmounts, and takes it if the mount tells that anything was lost.
    fn unmount_whatever(mut self) {
        self.is_mounted = false;
        let unmount = self.far.setting.surmise(&["umount", &self.name]);
        let _ = unmount.in_place().outcome();
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        if self.is_mounted {
            // A test that fails says why by itself; the mount must not outlive it.
            let lazily: &[&str] = match self.far.setting.is_root() {
                true => &["umount", "-l", &self.name],
                false => &["fusermount3", "-uz", &self.name],
            };
            let _ = self.far.setting.plain(lazily).in_place().outcome();
            // It would wait for a server that may never come again.
            let process = Pid::from_raw(self.process);
            let _ = process.map(|process| kill_process(process, Signal::KILL));
        }
    }
}
