//! S32: volumes, made, mounted, checked and mended by the built command.

use std::os::unix::fs::MetadataExt;

use surmise_testkit::{Outcome, is_root, skip, surmise_binary, tell};

use crate::setting::{Setting, as_each_user};

const SIZE: &str = "40M";
const BYTES: u64 = 40 << 20;

/// What a script does where mounts are its own and go with it; `None` where none can be made.
pub fn mounting(setting: &Setting, script: &str) -> Option<Outcome> {
    if setting.user.is_some() || !is_root() {
        tell("mounting a volume takes root");
        return None;
    }
    let loops = setting.plain(&["losetup", "--find"]).outcome();
    if loops.code != 0 {
        skip(format_args!("no loop device: {}", loops.stderr));
        return None;
    }
    let surmise = surmise_binary().display().to_string();
    let script = format!("surmise() {{ {surmise} \"$@\"; }}; mkdir m n; {script}");
    let outcome = setting
        .plain(&[
            "unshare",
            "-m",
            "--propagation",
            "private",
            "sh",
            "-ec",
            &script,
        ])
        .outcome();
    outcome.assert_success();
    Some(outcome)
}

#[test]
fn a_volume_is_made_whole_or_not_at_all() {
    as_each_user(|setting| {
        setting.succeed(&["volume", "create", SIZE, "base.img"]);
        let made = setting.scratch.path("base.img").metadata().expect("a file");
        assert_eq!((made.len(), made.mode() & 0o777), (BYTES, 0o600));
        assert!(made.blocks() * 512 >= BYTES, "its space is not taken");
        setting.succeed(&["volume", "check", "base.img"]);
        for (arguments, words) in [
            (["create", SIZE, "base.img"], "base.img exists"),
            (["create", "1M", "small.img"], "the least is 32 MiB"),
            (["create", SIZE, "nowhere/base.img"], "nowhere"),
            (["create", "4000000T", "huge.img"], "huge.img"),
        ] {
            let mut words_of = vec!["volume"];
            words_of.extend(arguments);
            let outcome = setting.surmise(&words_of).outcome();
            assert_eq!(outcome.code, 1, "{outcome:?}");
            assert!(outcome.stderr.contains(words), "{outcome:?}");
        }
        let left: Vec<_> = std::fs::read_dir(setting.scratch.work())
            .expect("list")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert_eq!(left, ["base.img"]);
    });
}

#[test]
fn what_is_no_volume_is_left_alone() {
    as_each_user(|setting| {
        setting.scratch.file("text", "no volume\n".repeat(400));
        for arguments in [["check", "text"], ["check", "--repair"], ["mount", "text"]] {
            let mut words = vec!["volume"];
            words.extend(arguments);
            words.push(if arguments[1] == "text" { "." } else { "text" });
            words.dedup();
            if arguments == ["check", "text"] {
                words.pop();
            }
            let outcome = setting.surmise(&words).outcome();
            assert_eq!(outcome.code, 1, "{outcome:?}");
            assert!(outcome.stderr.contains("text is no volume"), "{outcome:?}");
        }
        let text = std::fs::read_to_string(setting.scratch.path("text")).expect("read");
        assert_eq!(text, "no volume\n".repeat(400));
    });
}

#[test]
fn a_volume_in_two_places_is_one_file_system() {
    as_each_user(|setting| {
        setting.succeed(&["volume", "create", SIZE, "base.img"]);
        let script = "
            surmise volume create 32M -- -a.img
            surmise volume mount -- -a.img m
            surmise volume umount m
            surmise volume check -- -a.img >/dev/null
            surmise volume mount base.img m
            surmise volume mount base.img n
            echo text > m/file
            cat n/file
            losetup --associated base.img | wc -l
            grep -c '^data=journal$' /proc/fs/ext4/$(basename $(losetup -n -O NAME -j base.img))/options
            surmise volume list --json
            if surmise volume check base.img; then exit 9; fi
            surmise volume umount m
            cat n/file
            surmise volume umount n
            surmise volume check base.img
            losetup --associated base.img | wc -l
            if surmise volume umount n; then exit 9; fi";
        if let Some(outcome) = mounting(setting, script) {
            let lines: Vec<_> = outcome.stdout.lines().collect();
            assert_eq!(lines[..3], ["text", "1", "1"], "{outcome:?}");
            let told: serde_json::Value = serde_json::from_str(lines[3]).expect("JSON");
            let volumes = told["volumes"].as_array().expect("volumes");
            let file = setting.scratch.path("base.img");
            let own = |volume: &&serde_json::Value| volume["file"] == file.to_str().expect("text");
            assert_eq!(volumes.iter().filter(own).count(), 2, "{told}");
            assert_eq!(lines[4..], ["text", "base.img is whole.", "0"]);
            assert!(outcome.stderr.contains("is in use as /dev/loop"));
            assert!(outcome.stderr.contains("no volume is mounted on"));
        }
    });
}

/// As after a power loss: the copy of a volume that is in use has a journal to be finished.
#[test]
fn a_volume_that_was_not_unmounted_is_finished_by_mounting_it() {
    as_each_user(|setting| {
        setting.succeed(&["volume", "create", SIZE, "base.img"]);
        let script = "
            surmise volume mount base.img m
            echo text > m/file
            sync m/file
            cp base.img copy.img
            surmise volume umount m
            cp copy.img before.img
            if surmise volume check copy.img; then exit 9; fi
            cmp copy.img before.img
            surmise volume mount copy.img n
            cat n/file
            surmise volume umount n
            surmise volume check copy.img
            surmise volume check --repair before.img
            surmise volume check before.img";
        if let Some(outcome) = mounting(setting, script) {
            assert!(
                outcome.stdout.starts_with("text\ncopy.img is whole.\n"),
                "{outcome:?}"
            );
            assert!(
                outcome.stdout.ends_with("before.img is whole.\n"),
                "{outcome:?}"
            );
            assert!(outcome.stderr.contains("copy.img was not unmounted"));
        }
    });
}

#[test]
fn a_damaged_volume_is_told_and_mended() {
    as_each_user(|setting| {
        setting.succeed(&["volume", "create", SIZE, "base.img"]);
        // Its group descriptors, bitmaps and first inodes, the journal's among them.
        let damage = "dd if=/dev/urandom of=base.img bs=4096 seek=1 count=300 conv=notrunc";
        setting
            .plain(&["sh", "-c", damage])
            .outcome()
            .assert_success();
        let read = || std::fs::read(setting.scratch.path("base.img")).expect("read");
        let before = read();
        let outcome = setting.surmise(&["volume", "check", "base.img"]).outcome();
        assert_eq!(outcome.code, 1, "{outcome:?}");
        assert!(before == read(), "the check wrote");
        setting.succeed(&["volume", "check", "--repair", "base.img"]);
        setting.succeed(&["volume", "check", "base.img"]);
    });
}

#[test]
fn mounting_takes_root_and_says_so() {
    as_each_user(|setting| {
        if setting.user.is_none() && is_root() {
            return;
        }
        setting.succeed(&["volume", "create", SIZE, "base.img"]);
        let outcome = setting
            .surmise(&["volume", "mount", "base.img", "."])
            .outcome();
        assert_eq!(outcome.code, 1);
        assert!(
            outcome.stderr.contains("sudo surmise volume"),
            "{outcome:?}"
        );
    });
}
