//! S13: what POSIX and Linux promise of files holds inside as it does outside.

use std::fs;
use std::os::unix::fs::FileTypeExt;

use crate::setting::{Setting, as_each_user};

/// What the programs below share.
const CHECKS: &str = include_str!("posix/checks.py");

/// How many names the directory has that is listed while it changes, unless this variable says.
const LISTED: (&str, &str) = ("SURMISE_LISTED", "10000");

/// Runs a program that prints what its file system does, outside and inside, and expects the same.
fn is_the_same_inside(name: &str, program: &str) {
    as_each_user(|setting| {
        let scratch = &setting.scratch;
        let programs = scratch.root().join("programs");
        fs::create_dir(&programs).expect("make a directory");
        fs::write(programs.join("checks.py"), CHECKS).expect("write a program");
        fs::write(programs.join(name), program).expect("write a program");
        let path = programs.join(name);
        let command = ["python3", "-B", path.to_str().expect("Unicode")];
        plant(setting, "outside");
        plant(setting, "inside");
        let listed = std::env::var(LISTED.0).unwrap_or_else(|_| LISTED.1.to_owned());
        let seconds = 300 + listed.parse::<u64>().expect("a number") / 200;
        let outside = setting
            .plain(&command)
            .directory("outside")
            .env("LISTED", &listed)
            .seconds(seconds)
            .outcome();
        outside.assert_success();
        let inside = [&["run", "--dry-run", "--"], &command[..]].concat();
        let inside = setting
            .surmise(&inside)
            .directory("inside")
            .env("LISTED", &listed)
            .seconds(seconds)
            .outcome();
        inside.assert_success();
        assert_eq!(inside.lines(), outside.lines(), "{name}");
        assert!(outside.lines().len() > 80, "few checks ran");
    });
}

fn plant(setting: &Setting, top: &str) {
    let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(100_000).collect();
    setting
        .scratch
        .file(format!("{top}/data"), bytes)
        .file(format!("{top}/lower/file"), "file")
        .file(format!("{top}/lower/full/deeper/leaf"), "leaf")
        .file(format!("{top}/lower/other/x"), "x")
        .directory(format!("{top}/lower/other/sub"))
        .directory(format!("{top}/lower/empty"));
}

/// S13: nameless files, renames and their flags, names, deep paths, links, FIFOs, sockets, listings.
#[test]
fn names_behave_inside_as_they_do_outside() {
    is_the_same_inside("names.py", include_str!("posix/names.py"));
}

/// S13: locks, extended attributes, set-id bits, times, holes, copies, mappings, running programs.
#[test]
fn contents_behave_inside_as_they_do_outside() {
    is_the_same_inside("contents.py", include_str!("posix/contents.py"));
}

/// S3, S13: a whiteout takes no right over devices, so everyone can commit one.
#[test]
fn a_whiteout_is_committed() {
    as_each_user(|setting| {
        let twin = setting.twin();
        setting.scratch.file("file", "f");
        twin.scratch.file("file", "f");
        let rename = "python3 -c 'import ctypes; \
            ctypes.CDLL(None).renameat2(-100, b\"file\", -100, b\"moved\", 4) and exit(1)'";
        setting.commits_as_plain(&twin, rename);
        let left = fs::symlink_metadata(setting.scratch.path("file")).expect("the whiteout");
        assert!(left.file_type().is_char_device());
    });
}
