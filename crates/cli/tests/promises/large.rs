//! S27: a change of a large file costs what is changed.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crate::setting::{Setting, as_each_user};

/// Changes parts of the two large files and reads them back by every way.
const CHANGES: &str = r#"
import mmap, os, sys
def check(what, holds):
    if not holds: sys.exit(what + " does not hold")
for name, size in ("sparse", 1 << 30), ("real", 200 << 20):
    before = open(name, "rb")
    with open(name, "ab") as file: file.write(b"!")
    check("an append", os.stat(name).st_size == size + 1)
    check("an old descriptor", os.pread(before.fileno(), 2, size - 1)[1:] == b"!")
with open("real", "r+b") as file:
    first = os.pread(file.fileno(), 16, 0)
    memory = mmap.mmap(file.fileno(), 1 << 20)
    memory[70000:70005] = b"mmap!"
    check("a mapping is read", os.pread(file.fileno(), 5, 70000) == b"mmap!")
    check("what is beside it", memory[:16] == first and memory[69999] != 0)
    memory.close()
with open("sparse", "r+b") as file:
    check("a hole", os.lseek(file.fileno(), 0, os.SEEK_DATA) == (1 << 30) - 4096)
    os.pwrite(file.fileno(), b"in the hole", 5 << 20)
    check("data in it", os.lseek(file.fileno(), 0, os.SEEK_DATA) <= 5 << 20)
    check("the hole behind", os.lseek(file.fileno(), 6 << 20, os.SEEK_DATA) == (1 << 30) - 4096)
"#;

/// Random calls; scripts/exercise-files makes more of them.
const EXERCISE: &str = include_str!("large.py");

/// S27, S13: whatever is done to it, a large file is as a plain one, and so it is committed.
#[test]
fn a_large_file_behaves_as_a_plain_one() {
    as_each_user(|setting| {
        let twin = setting.twin();
        for place in [setting, &twin] {
            let data: Vec<u8> = (0..3_000_001u32).map(|at| (at % 251) as u8).collect();
            place.scratch.file("file", data);
        }
        let exercise = ["python3", "-c", EXERCISE, "file", "5", "400"];
        let mut command = vec!["run", "--name", "t", "--"];
        command.extend(exercise);
        setting.surmise(&command).outcome().assert_success();
        setting.succeed(&["commit", "t"]);
        twin.plain(&exercise).outcome().assert_success();
        assert_same_data(&setting.scratch.path("file"), &twin.scratch.path("file"));
    });
}

/// S27: the state holds what was changed, and diff and commit make of it what a plain run leaves.
#[test]
fn a_byte_appended_to_a_large_file_costs_little() {
    as_each_user(|setting| {
        let twin = setting.twin();
        for place in [setting, &twin] {
            plant(place);
        }
        let inode = |name| fs::metadata(setting.scratch.path(name)).expect("it").ino();
        let before = (inode("sparse"), inode("real"));
        setting
            .surmise(&["run", "--name", "t", "--", "python3", "-c", CHANGES])
            .outcome()
            .assert_success();
        let stored = allocated(&setting.scratch.state());
        assert!(stored < 1 << 20, "{stored} bytes");
        let listed = setting.succeed(&["diff", "t"]);
        listed.assert_lines(&["M sparse", "M real"]);
        // A view that is opened again shows the same.
        let looked = "tail -c 1 sparse real; od -An -c -j 70000 -N 5 real";
        let again = setting
            .surmise(&["shell", "t", "--", "sh", "-c", looked])
            .outcome();
        assert!(
            again.stdout.contains("m   m   a   p   !"),
            "{}",
            again.stdout
        );
        setting.succeed(&["commit", "t"]);
        twin.plain(&["python3", "-c", CHANGES])
            .outcome()
            .assert_success();
        for name in ["sparse", "real"] {
            assert_same_data(&setting.scratch.path(name), &twin.scratch.path(name));
        }
        assert_eq!((inode("sparse"), inode("real")), before);
    });
}

fn plant(setting: &Setting) {
    setting.scratch.file("sparse", "").file("real", "");
    let open = |name| {
        let file = File::options().write(true).open(setting.scratch.path(name));
        file.expect("the file")
    };
    let sparse = open("sparse");
    sparse
        .write_all_at(&[b'e'; 4096], (1 << 30) - 4096)
        .expect("write");
    let mut real = open("real");
    for part in 0..200u32 {
        let word = part.to_le_bytes().map(|byte| byte | 1);
        real.write_all(&word.repeat(1 << 18)).expect("write");
    }
}

/// Bytes that the files of a tree take.
fn allocated(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).expect("a directory");
    let bytes = entries.map(|entry| {
        let path = entry.expect("an entry").path();
        let found = fs::symlink_metadata(&path).expect("it");
        match found.is_dir() {
            true => allocated(&path),
            false => found.blocks() * 512,
        }
    });
    bytes.sum()
}

/// Equal in data, and sparse alike.
#[track_caller]
fn assert_same_data(one: &Path, other: &Path) {
    let (a, b) = (File::open(one).expect("it"), File::open(other).expect("it"));
    let (size, blocks) = (a.metadata().expect("it").len(), |file: &File| {
        file.metadata().expect("it").blocks()
    });
    assert_eq!(size, b.metadata().expect("it").len());
    assert!(
        blocks(&a) <= blocks(&b) + 1024,
        "{one:?}: holes were filled"
    );
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let mut at = 0;
    while at < size {
        // Holes of both are passed over.
        let data = |file| rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)).unwrap_or(size);
        at = data(&a).min(data(&b));
        let length = usize::try_from(size - at).map_or(1 << 20, |rest| rest.min(1 << 20));
        a.read_exact_at(&mut left[..length], at).expect("read");
        b.read_exact_at(&mut right[..length], at).expect("read");
        assert!(
            left[..length] == right[..length],
            "{one:?} differs behind {at}"
        );
        at += length as u64;
    }
}
