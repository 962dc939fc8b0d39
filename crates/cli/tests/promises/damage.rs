//! S50: what is kept of a domain is believed only as long as it is what was kept.

mod every_byte;
mod half_committed;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use surmise_testkit::{Facets, TreeSnapshot, assert_same_tree};

use crate::setting::{Setting, as_each_user};

/// Changes of several kinds, and held output.
const SCRIPT: &str = "\
    echo told; echo more >> small; rm gone; mkdir made; echo new > made/new; \
    mv moved made/moved; ln -s new made/link; chmod 600 dated";

/// A tree, and a kept domain `t` of changes to it.
fn keep(setting: &Setting) {
    for name in ["small", "moved", "gone", "dated"] {
        setting.scratch.file(name, format!("{name}\n"));
    }
    let run = [
        "run", "--name", "t", "--stdio", "hold", "--", "sh", "-ec", SCRIPT,
    ];
    setting.succeed(&run);
}

fn state(setting: &Setting) -> PathBuf {
    setting.scratch.state().join("surmise/t")
}

/// Flips a bit of a file's byte, and again when called again.
fn flip(path: &Path, offset: u64) {
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x20], offset).unwrap();
}

/// Every command that would rely on what is damaged says what is, where, and what to do; and does nothing.
#[test]
fn a_damaged_domain_is_refused_with_the_file_and_the_place() {
    as_each_user(|setting| {
        keep(setting);
        let before = TreeSnapshot::of(setting.scratch.work());
        let log = state(setting).join("log");
        // In the last operation but one or so: those before it can be read.
        let place = fs::metadata(&log).unwrap().len() - 200;
        flip(&log, place);
        let commands: [(&[&str], i32); 6] = [
            (&["commit", "t"], 1),
            (&["commit", "--strict", "t"], 1),
            (&["diff", "t"], 1),
            (&["diff", "-p", "t"], 1),
            (&["shell", "t", "--", "true"], 125),
            (&["commit", "--json", "t"], 1),
        ];
        for (command, code) in commands {
            let outcome = setting.surmise(command).outcome();
            outcome.assert_code(code);
            let told = format!("{}{}", outcome.stdout, outcome.stderr);
            assert!(
                told.contains("/log: damaged at byte "),
                "{command:?}: {told}"
            );
            assert!(
                told.contains("surmise diff --damaged t"),
                "{command:?}: {told}"
            );
        }
        assert_same_tree(
            &before,
            &TreeSnapshot::of(setting.scratch.work()),
            Facets::EXACT,
        );
        let list = setting.succeed(&["list"]).stdout;
        assert!(list.contains("damaged"), "{list}");

        let salvaged = setting.succeed(&["diff", "--damaged", "t"]);
        assert!(
            salvaged.stderr.contains("cannot be read"),
            "{}",
            salvaged.stderr
        );
        assert!(salvaged.stdout.lines().count() >= 2, "{}", salvaged.stdout);

        // Nothing else has been touched: when the bit is flipped back, all is as it was.
        flip(&log, place);
        setting.succeed(&["diff", "t"]);
        flip(&log, place);
        setting.succeed(&["abort", "t"]);
        assert_same_tree(
            &before,
            &TreeSnapshot::of(setting.scratch.work()),
            Facets::EXACT,
        );
    });
}

/// Of what was read alone a commit can do without, and only of that.
#[test]
fn a_damaged_record_of_reads_can_be_forgotten_and_nothing_else_with_it() {
    as_each_user(|setting| {
        keep(setting);
        let whole = setting
            .surmise(&["commit", "--forget-reads", "t"])
            .outcome();
        whole
            .assert_code(1)
            .assert_stderr_contains("is not damaged");
        let reads = state(setting).join("reads");
        flip(&reads, 1700);
        let object = object_of(setting);
        flip(&object, 1);
        let refused = setting
            .surmise(&["commit", "--forget-reads", "t"])
            .outcome();
        refused
            .assert_code(1)
            .assert_stderr_contains("objects/0000/1: damaged at byte 0");
        assert!(
            reads.exists(),
            "nothing is forgotten where nothing comes of it"
        );
        flip(&object, 1);
        let refused = setting.surmise(&["commit", "t"]).outcome();
        refused
            .assert_code(1)
            .assert_stderr_contains("`surmise commit --forget-reads t`");
        setting.succeed(&["commit", "--forget-reads", "t"]);
        assert!(setting.scratch.path("made/new").exists());
    });
}

/// A domain that is entered again is sealed anew, and so is one whose shell could not be started.
#[test]
fn a_shell_leaves_a_domain_sealed() {
    as_each_user(|setting| {
        keep(setting);
        let seal = state(setting).join("seal");
        setting.succeed(&[
            "shell",
            "t",
            "--",
            "sh",
            "-c",
            "test ! -e made/gone; echo 2 >> small",
        ]);
        assert!(seal.exists());
        let missing = setting.surmise(&["shell", "t", "--", "/no/such/program"]);
        missing.outcome().assert_code(127);
        assert!(seal.exists());
        let object = object_of(setting);
        flip(&object, 1);
        let refused = setting.surmise(&["shell", "t", "--", "true"]).outcome();
        refused.assert_code(125);
        assert!(
            refused.stderr.contains("damaged at byte 0"),
            "{}",
            refused.stderr
        );
        flip(&object, 1);
        setting.succeed(&["commit", "t"]);
        let small = fs::read_to_string(setting.scratch.work().join("small")).unwrap();
        assert_eq!(small, "small\nmore\n2\n");
    });
}

/// S50: also what only a commit goes by is looked at before the domain is entered, and what is held is listed.
#[test]
fn damage_is_told_before_a_shell_and_in_the_list() {
    as_each_user(|setting| {
        keep(setting);
        for name in ["reads", "outbox"] {
            let log = state(setting).join(name);
            let place = fs::metadata(&log).unwrap().len() - 1;
            flip(&log, place);
            let shell = setting.surmise(&["shell", "t", "--", "echo", "ran"]);
            let shell = shell.outcome();
            shell
                .assert_code(125)
                .assert_stderr_contains(&format!("/{name}: damaged at byte "));
            assert_eq!(shell.stdout, "");
            let list = setting.succeed(&["list"]).stdout;
            assert_eq!(list.contains("damaged"), name == "outbox", "{list}");
            let salvaged = setting.succeed(&["diff", "--damaged", "t"]);
            salvaged.assert_stderr_contains(&format!("/{name}: damaged at byte "));
            flip(&log, place);
        }
        setting.succeed(&["commit", "t"]);
    });
}

/// Any object.
fn object_of(setting: &Setting) -> PathBuf {
    let shard = state(setting).join("objects/0000");
    let mut objects: Vec<_> = fs::read_dir(shard)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    objects.sort();
    objects.swap_remove(0)
}

/// All regular files below a directory, in order.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(files(&entry.path()));
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}
