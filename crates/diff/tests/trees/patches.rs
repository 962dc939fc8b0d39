//! Patches, applied by git itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use surmise_changes::Changes;
use surmise_diff::Diff;
use surmise_diff::forms::{self, Contents, FormError, LeftOut, LeftOutReason, Shown};
use surmise_twins::{Act, Twins};

/// Files and links of a tree: whether one may be executed, and what it holds.
type Files = BTreeMap<PathBuf, (&'static str, Vec<u8>)>;

fn plant(root: &Path) {
    let text: String = (0..40).map(|line| format!("line {line}\n")).collect();
    fs::write(root.join("a"), &text).unwrap();
    fs::write(root.join("b"), "no newline").unwrap();
    fs::create_dir_all(root.join("c/a")).unwrap();
    fs::write(root.join("c/b"), [0, 1, 2, 3, 255]).unwrap();
    fs::write(root.join("c/a/d"), "deep\n").unwrap();
    fs::create_dir_all(root.join("d/b/a")).unwrap();
    // A directory that holds no file does not exist for git, and would be in its way.
    fs::write(root.join("d/b/a/b"), "1\n2\n3").unwrap();
    symlink("a", root.join("d/c")).unwrap();
    fs::write(root.join("d/d"), "line 1\nline 2").unwrap();
}

fn patch(twins: &Twins, base: &Path) -> (Vec<u8>, Vec<LeftOut>) {
    let diff = Diff::without_notes(Changes::of(&twins.map()));
    let mut text = Vec::new();
    let left_out = try_patch(twins, &diff, base, &mut text).unwrap();
    (text, left_out)
}

fn try_patch(
    twins: &Twins,
    diff: &Diff,
    base: &Path,
    out: &mut Vec<u8>,
) -> Result<Vec<LeftOut>, FormError> {
    let (map, directory, root) = (twins.map(), twins.state(), twins.real());
    let contents = Contents {
        map: &map,
        directory: &directory,
        root: &root,
    };
    let shown = Shown {
        diff,
        held: &[],
        base,
    };
    forms::patch::write(&shown, &contents, out)
}

/// Applies the patch to the real tree, and expects it to hold the files of the copy.
fn assert_applies(twins: &Twins) {
    let (text, _) = patch(twins, Path::new("/"));
    if text.is_empty() {
        assert_eq!(files(&twins.real()), files(&twins.copy()));
        return;
    }
    apply(&twins.real(), &text, &[]);
    let (real, copy) = (files(&twins.real()), files(&twins.copy()));
    assert!(real == copy, "{real:?}\n{copy:?}\n{}", text.escape_ascii());
}

fn apply(directory: &Path, text: &[u8], options: &[&str]) {
    let mut git = Command::new("git")
        .args(["apply", "--whitespace=nowarn"])
        .args(options)
        .current_dir(directory)
        .env("GIT_CEILING_DIRECTORIES", directory.parent().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("git is installed");
    git.stdin.take().unwrap().write_all(text).unwrap();
    let output = git.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "git apply: {}\n{}",
        output.stderr.escape_ascii(),
        text.escape_ascii()
    );
}

fn files(root: &Path) -> Files {
    let mut files = Files::new();
    surmise_twins::each_path(root, &mut |path| {
        let metadata = fs::symlink_metadata(path).unwrap();
        let (mode, data) = if metadata.is_file() {
            let mode = match metadata.permissions().mode() & 0o100 {
                0 => "file",
                _ => "executable",
            };
            (mode, fs::read(path).unwrap())
        } else if metadata.is_symlink() {
            let target = fs::read_link(path).unwrap();
            ("link", target.as_os_str().as_bytes().to_owned())
        } else {
            return;
        };
        files.insert(path.strip_prefix(root).unwrap().to_owned(), (mode, data));
    });
    files
}

fn write(path: &str, offset: u64, data: &[u8]) -> Act {
    Act::Write(path.into(), offset, data.to_vec())
}

/// Of a large text the domain holds only what it changed.
#[test]
fn a_change_of_a_large_file_is_in_the_patch() {
    let twins = Twins::new(|root| {
        let text: String = (0..200_000).map(|line| format!("line {line}\n")).collect();
        fs::write(root.join("large"), text).unwrap();
        fs::write(root.join("moved"), "x\n".repeat(1 << 20)).unwrap();
    });
    twins.act(&[
        write("large", 1_500_000, b"changed"),
        Act::Rename("moved".into(), "elsewhere".into()),
        write("elsewhere", 1 << 21, b"appended\n"),
    ]);
    let (text, _) = patch(&twins, Path::new("/"));
    assert!(text.len() < 2000, "{}", text[..2000].escape_ascii());
    assert_applies(&twins);
    // What changed outside is not passed off as what the domain saw.
    fs::write(twins.real().join("large"), "other").unwrap();
    let diff = Diff::without_notes(Changes::of(&twins.map()));
    let refused = try_patch(&twins, &diff, Path::new("/"), &mut Vec::new()).unwrap_err();
    assert!(refused.to_string().contains("/large"), "{refused}");
}

#[test]
fn every_change_that_git_knows_is_in_the_patch() {
    let twins = Twins::new(plant);
    twins.act(&[
        write("a", 70, b"changed"),
        write("b", 10, b" still\n"),
        write("c/b", 2, &[9, 9, 9, 9, 9, 0, 200]),
        Act::Chmod("b".into(), 0o755),
        Act::Rename("c".into(), "moved".into()),
        Act::Unlink("d/c".into()),
        Act::Create("d/c".into()),
        Act::Create("empty".into()),
        Act::MakeDirectory("new dir".into()),
        Act::Create("new dir/with \"quotes\"".into()),
        write("new dir/with \"quotes\"", 0, b"x\ny"),
        Act::Create("new dir/a b".into()),
        write("new dir/a b", 0, b"x\n"),
        Act::Symlink("l".into(), "to/nowhere".into()),
    ]);
    let before = files(&twins.real());
    let (text, _) = patch(&twins, Path::new("/"));
    assert_applies(&twins);
    apply(&twins.real(), &text, &["-R"]);
    assert_eq!(files(&twins.real()), before);
}

#[test]
fn names_of_any_bytes_survive() {
    let twins = Twins::new(|root| {
        let name = |bytes: &[u8]| root.join(OsString::from(std::ffi::OsStr::from_bytes(bytes)));
        fs::write(name(b"old\xff\n"), "1\n").unwrap();
        fs::write(name("größe\t".as_bytes()), "2\n").unwrap();
    });
    twins.act(&[write("größe\t", 0, b"3")]);
    assert_applies(&twins);
}

#[test]
fn what_no_patch_can_hold_is_returned() {
    let twins = Twins::new(plant);
    twins.act(&[
        Act::Fifo("c/p".into()),
        write("a", 0, b"LINE"),
        write("c/a/d", 0, b"D"),
    ]);
    let (text, left_out) = patch(&twins, Path::new("/c"));
    let reasons: Vec<_> = left_out
        .iter()
        .map(|left| (left.path.to_str().unwrap(), left.reason))
        .collect();
    let fifo = LeftOutReason::Kind(surmise_view::FileKind::Fifo);
    assert_eq!(reasons, [("/a", LeftOutReason::Outside), ("/c/p", fifo)]);
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("diff --git a/a/d b/a/d\n"), "{text}");
    apply(&twins.real().join("c"), text.as_bytes(), &[]);
}

/// S4: git skips the lines of what no patch can carry, and applies the rest.
#[test]
fn what_matters_for_trust_comes_first_and_git_skips_it() {
    let twins = Twins::new(plant);
    twins.act(&[
        write("a", 70, b"changed"),
        Act::Chmod("a".into(), 0o4755),
        Act::Chmod("d/d".into(), 0o666),
        Act::Chmod("c/a".into(), 0o777),
        Act::Fifo("d/--- a\n+++ b\n@@ -1 +1 @@".into()),
        Act::Symlink("l".into(), "x\ndiff --git a/b b/b".into()),
        write("d/d", 0, b"LINE"),
    ]);
    let map = twins.map();
    let diff = Diff::of(&map, &twins.real()).unwrap();
    let mut text = Vec::new();
    try_patch(&twins, &diff, Path::new("/"), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let comments: Vec<_> = text
        .lines()
        .take_while(|line| line.starts_with('#'))
        .collect();
    let wanted: Vec<_> = diff
        .iter()
        .map(|row| format!("# {}", row.line(Path::new("/"))))
        .collect();
    assert_eq!(comments, wanted);
    assert!(comments[0].starts_with("# M a\tset-user-id "), "{text}");
    apply(&twins.real(), text.as_bytes(), &[]);
    let (real, copy) = (files(&twins.real()), files(&twins.copy()));
    assert!(real == copy, "{real:?}\n{copy:?}\n{text}");
}

fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(&["a", "b", "c", "d"][..]);
    prop::collection::vec(name, 1..4).prop_map(|parts| parts.join("/"))
}

fn act() -> impl Strategy<Value = Act> {
    let line = prop::sample::select(vec![&b"text\n"[..], b"x", b"\0\xff", b"\n\n\n"]);
    prop_oneof![
        4 => path().prop_map(Act::Create),
        3 => path().prop_map(Act::MakeDirectory),
        1 => (path(), path()).prop_map(|(path, target)| Act::Symlink(path, target)),
        4 => path().prop_map(Act::Unlink),
        3 => path().prop_map(Act::RemoveDirectory),
        8 => (path(), path()).prop_map(|(from, to)| Act::Rename(from, to)),
        4 => (path(), path()).prop_map(|(from, to)| Act::Exchange(from, to)),
        3 => (path(), path()).prop_map(|(from, to)| Act::Link(from, to)),
        6 => (path(), 0..300u64, line).prop_map(|(path, at, line)| write(&path, at, line)),
        2 => (path(), 0..300u64).prop_map(|(path, size)| Act::Truncate(path, size)),
        2 => (path(), any::<bool>()).prop_map(|(path, executable)| {
            Act::Chmod(path, if executable { 0o755 } else { 0o700 & 0o644 })
        }),
    ]
}

proptest! {
    #[test]
    fn a_patch_of_any_history_applies(acts in prop::collection::vec(act(), 1..30)) {
        let twins = Twins::new(plant);
        twins.act(&acts);
        assert_applies(&twins);
    }
}
