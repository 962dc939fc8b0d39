//! A full file system below the object store, while changes may have to be undone.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::io::Errno;
use surmise_testkit::{is_root, skip};
use surmise_view::{FileKind, NodeId, View};
use tempfile::TempDir;

use crate::marks::{objects, waits};
use crate::{World, create, errno, lookup};

/// Where the test's second process mounts, in a mount namespace of its own.
const PLACE: &str = "SURMISE_VIEW_TEST_MOUNT";

const KIB: usize = 1 << 10;

/// Runs `test` on a small file system of these options.
fn with_mounted(name: &str, options: &str, test: impl Fn(&Path)) {
    if let Some(place) = env::var_os(PLACE).map(PathBuf::from) {
        let words = ["-t", "tmpfs", "-o", options, "tmpfs"];
        let mounted = Command::new("mount").args(words).arg(&place).status();
        assert!(mounted.unwrap().success());
        return test(&place);
    }
    if !is_root() {
        return skip("to mount takes root");
    }
    let place = TempDir::new().unwrap();
    let mut words = Command::new("unshare");
    words.args(["--mount", "--propagation", "private"]);
    words.arg(env::current_exe().unwrap());
    words.args(["--exact", &format!("full::{name}")]);
    assert!(words.env(PLACE, place.path()).status().unwrap().success());
}

/// Takes all space but for this much.
fn fill(place: &Path, left: usize) -> PathBuf {
    let filler = place.join("filler");
    let free = rustix::fs::statvfs(place).unwrap();
    let free = usize::try_from(free.f_bfree * free.f_frsize).unwrap();
    fs::write(&filler, vec![1; free - left]).unwrap();
    filler
}

/// Takes all inodes.
fn take_inodes(place: &Path) -> PathBuf {
    let filler = place.join("filler");
    fs::create_dir(&filler).unwrap();
    let made = (0..).find(|number: &u32| fs::write(filler.join(number.to_string()), "").is_err());
    assert_ne!(made, Some(0));
    filler
}

/// The first byte and the size.
fn look(view: &View, node: NodeId) -> (u8, u64) {
    let mut first = [0];
    assert_eq!(view.read(node, 0, &mut first).unwrap(), 1);
    let attributes = view.attributes(node).unwrap().attributes;
    (first[0], attributes.identity.size)
}

const SIZE: usize = 200 * KIB;

/// What cannot be copied waits, and nothing of it has happened; then there is room, and it can be undone.
fn waits_for_room(place: &Path, take: impl Fn(&Path) -> PathBuf, give: impl Fn(&Path)) {
    let world = World::with_state_in(place);
    let view = world.view();
    let made = create(&view, NodeId::ROOT, "made", FileKind::Regular).unwrap();
    view.write(made.node, 0, &vec![b'o'; SIZE], false).unwrap();
    let filler = take(place);
    let mark = view.mark(std::process::id(), false).unwrap();
    for _ in 0..2 {
        assert!(view.write(made.node, 0, b"n", false).is_err_and(waits));
        assert_eq!(look(&view, made.node), (b'o', SIZE as u64));
        assert_eq!(objects(&world), 1);
    }
    let file = lookup(&view, NodeId::ROOT, "file");
    assert!(view.write(file.node, 0, b"n", false).is_err_and(waits));
    view.give_up(&[mark]);
    let failed = view.write(made.node, 0, b"n", false);
    assert_eq!(errno(failed), Some(Errno::INTR.raw_os_error()));
    view.undo(&[mark]).unwrap();
    // Nothing is undecided that might take the room.
    view.write(made.node, 0, b"p", false).unwrap();
    let failed = view.write(file.node, 0, b"n", false);
    assert_eq!(errno(failed), Some(Errno::NOSPC.raw_os_error()));

    give(&filler);
    let mark = view.mark(std::process::id(), false).unwrap();
    view.write(made.node, 0, b"n", false).unwrap();
    view.write(file.node, 0, b"n", false).unwrap();
    assert_eq!(look(&view, made.node), (b'n', SIZE as u64));
    view.undo(&[mark]).unwrap();
    assert_eq!(look(&view, made.node), (b'p', SIZE as u64));
    assert_eq!(objects(&world), 1);
}

#[test]
fn a_change_that_finds_no_space_for_a_copy_waits_for_a_decision() {
    let name = "a_change_that_finds_no_space_for_a_copy_waits_for_a_decision";
    with_mounted(name, "size=1m", |place| {
        waits_for_room(
            place,
            |place| fill(place, 0),
            |filler| fs::remove_file(filler).unwrap(),
        );
    });
}

#[test]
fn a_change_that_finds_no_inode_for_a_copy_waits_for_a_decision() {
    let name = "a_change_that_finds_no_inode_for_a_copy_waits_for_a_decision";
    with_mounted(name, "size=1m,nr_inodes=40", |place| {
        waits_for_room(place, take_inodes, |filler| {
            fs::remove_dir_all(filler).unwrap();
        });
    });
}
