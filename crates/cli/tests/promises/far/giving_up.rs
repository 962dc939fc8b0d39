//! Mounts whose server does not come back are given up, and what it has not confirmed is kept.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use surmise_testkit::Outcome;

use super::{Far, Mount};
use crate::setting::as_each_user;

/// The client gets leases to write on all that it changes later, and the data.
const HOLDING: &str = "\
echo before > one/before && touch one/x && rm one/x && cat one/before >/dev/null && sync one
";

const CHANGES: &str = "\
cd one
echo after >> before
mkdir -p new/deep && echo made > new/deep/file
mv new/deep new/moved && ln -s moved/file new/link
head -c 300000 /dev/urandom > new/large
echo first > saved.tmp && mv saved.tmp saved
echo second > saved.tmp && mv saved.tmp saved
";

/// A mount at `one` whose server is gone for good, and what it has changed since.
struct Alone<'f, 's> {
    far: &'f Far<'s>,
    one: Mount<'f>,
    /// What was at `one` then.
    wanted: String,
}

impl<'f, 's> Alone<'f, 's> {
    fn new(far: &'f Far<'s>) -> Self {
        far.setting.scratch.file("tree.py", super::lost::TREE);
        // The client goes on by its leases.
        far.start_server("20");
        let one = far.mount("one");
        far.sh(HOLDING);
        far.sh("mkdir onto && cp -a export/before onto/");
        far.end_server();
        far.sh(CHANGES);
        let wanted = far.tree("one");
        Self { far, one, wanted }
    }

    fn umount(&self, options: &[&str]) -> Outcome {
        let words = [&["umount"], options, &["one"]].concat();
        self.far.setting.surmise(&words).in_place().outcome()
    }

    fn give_up(self) -> (PathBuf, String) {
        let outcome = self.umount(&["--give-up"]);
        outcome
            .assert_success()
            .assert_stderr_contains("has not confirmed");
        let Self {
            far,
            mut one,
            wanted,
        } = self;
        one.is_mounted = false;
        assert!(!far.is_mounted("one"));
        far.assert_ends(one.process);
        let file = far.only_lost_file();
        let command = format!("surmise mounts --replay {}", file.display());
        outcome.assert_stderr_contains(&command);
        (file, wanted)
    }
}

impl Far<'_> {
    fn start_server(&self, lease: &str) {
        let program = surmise_testkit::copied_binary(&self.setting.scratch);
        self.sh(&format!(
            "rm -f export/.surmise/socket
            {} serve --lease {lease} {} </dev/null >serve.log 2>&1 &
            until test -S export/.surmise/socket; do sleep 0.02; done",
            program.display(),
            self.export().display(),
        ));
    }

    /// Kills the server, which no client can start again.
    fn end_server(&self) {
        self.sh("mv ssh ssh.away");
        let server = self.server().and_then(Pid::from_raw).expect("it runs");
        kill_process(server, Signal::KILL).expect("it runs");
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < deadline, "not so: {what}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_mounted(&self, name: &str) -> bool {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("there is /proc");
        let place = self.path(name).display().to_string();
        mounts.split_whitespace().any(|word| word == place)
    }

    fn assert_ends(&self, process: i32) {
        self.until("the process has ended", || {
            let stat = fs::read_to_string(format!("/proc/{process}/stat"));
            stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z "))
        });
    }

    fn only_lost_file(&self) -> PathBuf {
        let all = self.succeed(&["mounts", "--json"]);
        let all: serde_json::Value = serde_json::from_str(&all.stdout).expect("JSON");
        let lost = all["lost"].as_array().expect("an array");
        assert_eq!(lost.len(), 1, "{lost:?}");
        assert_eq!(lost[0]["state"], "waits");
        lost[0]["file"].as_str().expect("a path").into()
    }

    fn replay(&self, file: &std::path::Path, more: &[&str]) -> Outcome {
        let file = file.display().to_string();
        let words = [&["mounts", "--replay", &file], more].concat();
        self.setting.surmise(&words).in_place().outcome()
    }
}

#[test]
fn s63_a_mount_that_is_given_up_keeps_its_changes_for_another_directory() {
    as_each_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let (file, wanted) = Alone::new(&far).give_up();
        far.replay(&file, &["--onto", "onto"]).assert_success();
        assert!(!file.exists());
        assert_eq!(far.tree("onto"), wanted);
    });
}

#[test]
fn s63_a_mount_that_is_given_up_keeps_its_changes_for_the_next_mount() {
    as_each_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let (file, wanted) = Alone::new(&far).give_up();
        far.sh("mv ssh.away ssh");
        far.start_server("2");
        let two = far.mount("one");
        far.replay(&file, &[]).assert_success();
        assert_eq!(far.tree("one"), wanted);
        two.unmount();
        assert_eq!(far.tree("export"), wanted);
    });
}

#[test]
fn s63_a_mount_that_waits_in_the_background_can_be_given_up() {
    as_each_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let mut alone = Alone::new(&far);
        alone.one.is_mounted = false;
        let program = surmise_testkit::copied_binary(&setting.scratch);
        // Until it says that it waits.
        far.sh(&format!(
            "{} umount one 2>said & until test -s said; do sleep 0.05; done; kill $!; wait || true",
            program.display()
        ));
        let said = fs::read_to_string(far.path("said")).expect("it was written");
        assert!(said.contains("surmise umount --give-up"), "{said}");
        assert!(!far.is_mounted("one"));
        let (file, wanted) = alone.give_up();
        far.replay(&file, &["--onto", "onto"]).assert_success();
        assert_eq!(far.tree("onto"), wanted);
    });
}

/// A program whose `fsync` waits for the server.
fn waiting_program(far: &Far<'_>) -> Child {
    let child = Command::new("sync")
        .arg(far.path("one/before"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start sync");
    far.until("a call waits", || {
        far.listed("one")["status"]["waiting_calls"] != 0
    });
    child
}

#[test]
fn s63_calls_that_wait_fail_when_a_mount_is_given_up() {
    as_each_user(|setting| {
        if !setting.is_root() {
            // The program is root's here.
            return;
        }
        let Some(far) = Far::new(setting) else {
            return;
        };
        let alone = Alone::new(&far);
        let program = waiting_program(&far);
        let (file, _) = alone.give_up();
        let output = program.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("Input/output error"), "{said}");
        assert!(file.exists());
    });
}

#[test]
fn s63_a_mount_goes_on_while_its_changes_cannot_be_kept() {
    as_each_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let alone = Alone::new(&far);
        // The limit of all files together.
        let kept = far.setting.scratch.state().join("surmise-lost");
        far.sh(&format!("truncate -s 1G {}/full.lost", kept.display()));
        let refused = alone.umount(&["--give-up"]);
        refused
            .assert_code(1)
            .assert_stderr_contains("still mounted")
            .assert_stderr_contains("bytes already");
        assert!(far.is_mounted("one"));
        assert_eq!(far.tree("one"), alone.wanted);
        far.sh(&format!("rm {}/full.lost", kept.display()));
        // The server is back, and gets all.
        far.sh("mv ssh.away ssh");
        far.start_server("2");
        let Alone { one, wanted, .. } = alone;
        one.unmount();
        assert_eq!(far.tree("export"), wanted);
    });
}

#[test]
fn s63_a_mount_that_is_told_to_end_by_sigterm_keeps_what_no_server_takes() {
    as_each_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let Alone {
            mut one, wanted, ..
        } = Alone::new(&far);
        one.is_mounted = false;
        let process = Pid::from_raw(one.process).expect("a process");
        kill_process(process, Signal::TERM).expect("it runs");
        far.assert_ends(one.process);
        assert!(!far.is_mounted("one"));
        let file = far.only_lost_file();
        far.replay(&file, &["--onto", "onto"]).assert_success();
        assert_eq!(far.tree("onto"), wanted);
    });
}
