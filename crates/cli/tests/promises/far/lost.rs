//! Changes that a client has lost, since it was away for longer than its lease, are made again.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use surmise_testkit::Outcome;

use super::{Far, Mount};
use crate::setting::as_each_user;

/// What is there before.
const BEFORE: &str = "\
mkdir -p export/keep export/old export/empty
echo first > export/keep/file
echo others > export/keep/shared
echo moved > export/old/moved
echo gone > export/old/gone
";

/// The client gets leases to write on all that it changes later, and the data.
const HOLDING: &str = "\
cd one
for one in . keep old empty; do touch $one/x && rm $one/x; done
touch keep/file keep/shared old/moved old/gone
cat keep/file keep/shared old/moved old/gone >/dev/null
sync keep
";

/// What a client loses.
const LOST: &str = "\
cd one
mkdir -p new/deep && echo made > new/deep/file && chmod 751 new
echo more >> keep/file && chmod 640 keep/file
head -c 3000000 /dev/urandom > new/large
mv old/moved new/moved && rm old/gone && rmdir empty
ln -s deep/file new/link && ln new/deep/file new/second
echo whole > new/temporary && mv new/temporary keep/shared
echo closed > new/closed && chmod 444 new/closed
";

pub(super) const TREE: &str = include_str!("tree.py");

/// A client at `one`, and what it has lost.
struct Losing<'f, 's> {
    far: &'f Far<'s>,
    _one: Mount<'f>,
    /// What was at `one` when the changes were made.
    wanted: String,
    file: PathBuf,
}

impl<'f, 's> Losing<'f, 's> {
    /// The changes of `LOST` are made while `one` has no connection, and lost, since `then` is done at `two` meanwhile.
    fn new(far: &'f Far<'s>, then: &str) -> Self {
        let scratch = &far.setting.scratch;
        scratch.file("tree.py", TREE);
        far.sh(BEFORE);
        let export = far.export();
        let program = surmise_testkit::copied_binary(scratch);
        far.sh(&format!(
            "{} serve --lease 5 {} </dev/null >serve.log 2>&1 &
            until test -S export/.surmise/socket; do sleep 0.02; done",
            program.display(),
            export.display(),
        ));
        let one = far.mount("one");
        let connection = far.connection();
        let two = far.mount("two");
        far.sh(HOLDING);
        far.sh("mv ssh ssh.away");
        let connection = Pid::from_raw(connection).expect("a process");
        kill_process(connection, Signal::KILL).expect("it runs");
        far.sh(LOST);
        let wanted = far.tree("one");
        far.sh(then);
        far.sh("mv ssh.away ssh");
        let file = far.lost_file(&one.name);
        two.unmount();
        Self {
            far,
            _one: one,
            wanted,
            file,
        }
    }

    fn shown(&self) -> String {
        self.file.display().to_string()
    }

    fn replay(&self, more: &[&str]) -> Outcome {
        self.replay_file(&self.shown(), more)
    }

    fn replay_file(&self, file: &str, more: &[&str]) -> Outcome {
        let words = [&["mounts", "--replay", file], more].concat();
        self.far.setting.surmise(&words).in_place().outcome()
    }

    /// The export once all of the client's changes are in it.
    fn made(&self) -> String {
        // It tells of what it has lost.
        let unmount = self.far.setting.surmise(&["umount", "one"]);
        let told = unmount.in_place().outcome();
        told.assert_code(1)
            .assert_stderr_contains("changes or locks were lost")
            .assert_stderr_contains(&self.shown());
        self.far.tree("export")
    }
}

impl Far<'_> {
    pub(super) fn tree(&self, name: &str) -> String {
        self.sh(&format!("python3 tree.py {name}")).stdout
    }

    /// The file of what the mount of this name has lost, once that tells so.
    fn lost_file(&self, name: &str) -> PathBuf {
        let deadline = Instant::now() + Duration::from_secs(60);
        let place = self.path(name).display().to_string();
        loop {
            let all = self.succeed(&["mounts", "--json"]);
            let all: serde_json::Value = serde_json::from_str(&all.stdout).expect("JSON");
            let mut mounts = all["mounts"].as_array().expect("an array").iter();
            let own = mounts
                .find(|one| one["mount_point"] == place)
                .expect("listed");
            let lines = own["status"]["lost"].as_array().expect("an array").iter();
            let mut lines = lines.filter_map(|line| line.as_str());
            if let Some((_, file)) = lines.find_map(|line| line.split_once("; kept in ")) {
                assert_eq!(all["lost"][0]["file"], file);
                assert_eq!(all["lost"][0]["state"], "waits");
                return file.into();
            }
            assert!(Instant::now() < deadline, "nothing is lost: {all}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn s63_lost_changes_are_kept_and_made_again_by_a_replay() {
    as_each_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let losing = Losing::new(&far, "echo theirs > two/other");
        let file = fs::metadata(&losing.file).expect("it is there");
        assert_eq!(file.mode() & 0o777, 0o600);
        let directory = losing.file.parent().expect("a directory");
        let directory = fs::metadata(directory).expect("it is there");
        assert_eq!(
            (directory.mode() & 0o777, directory.uid()),
            (0o700, file.uid())
        );
        assert!(!far.export().join("new").exists());
        far.succeed(&["mounts"])
            .assert_stdout_contains("LOST CHANGES")
            .assert_stdout_contains(&losing.shown());
        losing
            .replay(&["--show"])
            .assert_success()
            .assert_stdout_contains("make directory new/deep")
            .assert_stdout_contains("write new/large: 3000000 bytes at 0")
            .assert_stdout_contains("rename old/moved: new/moved")
            .assert_stdout_contains("make link new/link: deep/file");
        let replayed = losing.replay(&[]);
        replayed
            .assert_success()
            .assert_stderr_contains("the file is removed");
        assert!(!losing.file.exists());
        // What is gone cannot be made twice.
        losing
            .replay(&[])
            .assert_code(1)
            .assert_stderr_contains("Hint: `surmise mounts` lists");
        let made = losing.made();
        let is_own = |line: &&str| !line.starts_with("other ");
        let made: Vec<_> = made.lines().filter(is_own).collect();
        let wanted: Vec<_> = losing.wanted.lines().collect();
        assert_eq!(made, wanted);
    });
}

/// What others have done meanwhile to the same.
const THEIRS: &str = "\
cd two
mkdir new && echo theirs > new/moved && echo theirs > new/closed
echo other > keep/file
echo theirs > keep/shared
echo theirs > old/gone
";

#[test]
fn s63_what_others_have_changed_meanwhile_keeps_its_name() {
    as_each_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let losing = Losing::new(&far, THEIRS);
        let replayed = losing.replay(&[]);
        replayed
            .assert_code(1)
            .assert_stderr_contains("keep/file: others have changed it")
            .assert_stderr_contains("remove old/gone: others have changed it");
        assert!(losing.file.exists());
        far.succeed(&["mounts"]).assert_stdout_contains("  left  ");
        let after = far.tree("one");
        // Once more, it does nothing, and tells the same.
        losing
            .replay(&[])
            .assert_code(1)
            .assert_stderr_contains("left out earlier");
        assert_eq!(far.tree("one"), after);
        losing.made();
        let read = |name: &str| fs::read_to_string(far.export().join(name)).expect(name);
        for name in ["new/moved", "new/closed", "keep/shared", "old/gone"] {
            assert_eq!(read(name), "theirs\n", "{name}");
        }
        assert_eq!(read("new/moved.conflict-1"), "moved\n");
        assert_eq!(read("new/closed.conflict-1"), "closed\n");
        assert_eq!(read("keep/shared.conflict-1"), "whole\n");
        // Theirs, with what was lost in it.
        assert_eq!(read("keep/file"), "other\n");
        assert_eq!(read("keep/file.conflict-1"), "other\nmore\n");
        assert_eq!(read("new/deep/file"), "made\n");
    });
}

#[test]
fn s63_a_damaged_file_is_told_and_nothing_of_it_is_made() {
    as_each_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let losing = Losing::new(&far, "echo theirs > two/other");
        let before = far.tree("one");
        let whole = fs::read(&losing.file).expect("read");
        let other = setting.scratch.path("damaged.lost");
        let shown = other.display().to_string();
        far.sh(&format!("cp {} {shown}", losing.shown()));
        let mut damaged = vec![Vec::new(), b"no such file".to_vec()];
        for length in [1000, 1536, 1600, whole.len() / 2, whole.len() - 1] {
            damaged.push(whole[..length].to_vec());
        }
        for at in [3, 17, 1545, 1700, whole.len() / 2, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            damaged.push(bytes);
        }
        for bytes in damaged {
            fs::write(&other, &bytes).expect("write");
            for more in [&["--show"][..], &[]] {
                let told = losing.replay_file(&shown, more);
                told.assert_code(1).assert_stderr_contains("Hint: ");
            }
            assert_eq!(fs::read(&other).expect("read"), bytes);
        }
        assert_eq!(far.tree("one"), before);
        let kept = losing.file.with_file_name("damaged.lost");
        far.sh(&format!("cp {shown} {}", kept.display()));
        far.succeed(&["mounts"]).assert_stdout_contains("damaged");
        fs::remove_file(&kept).expect("remove");
        losing.replay(&[]).assert_success();
    });
}

#[test]
fn s63_a_replay_that_is_killed_goes_on() {
    as_each_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let losing = Losing::new(&far, "echo theirs > two/other");
        let copy = setting.scratch.path("copy.lost");
        let shown = copy.display().to_string();
        for round in 0..12 {
            far.sh(&format!("cp {} {shown}", losing.shown()));
            let onto = format!("onto-{round}");
            // What was there before is there, as on the mount.
            far.sh(&format!(
                "mkdir {onto} && cp -a export/keep export/old export/empty {onto}"
            ));
            // The user's own process: another one would not be let at the file.
            let script = format!(
                "surmise() {{ \"{}\" \"$@\"; }}
                surmise mounts --replay {shown} --onto {onto} 2>/dev/null &
                sleep 0.0{}; kill -9 $! 2>/dev/null || true; wait || true",
                surmise_testkit::copied_binary(&setting.scratch).display(),
                round,
            );
            far.sh(&script);
            if copy.exists() {
                losing
                    .replay_file(&shown, &["--onto", &onto])
                    .assert_success();
            }
            assert!(!copy.exists(), "round {round}");
            let made = far.tree(&onto);
            assert_eq!(made, losing.wanted, "round {round}");
        }
        losing.replay(&[]).assert_success();
    });
}
