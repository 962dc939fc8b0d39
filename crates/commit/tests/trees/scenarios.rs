//! Commits of what commands do, against what a plain run leaves.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use crate::harness::{Act, World};
use surmise_commit::Resumed;

fn s(text: &str) -> String {
    text.to_owned()
}

fn create(path: &str, data: &str) -> [Act; 2] {
    [
        Act::Create(s(path)),
        Act::Write(s(path), 0, data.as_bytes().to_vec()),
    ]
}

fn rename(from: &str, to: &str) -> Act {
    Act::Rename(s(from), s(to))
}

/// A tree with files, a deep directory, links of both kinds and modes.
fn plant(root: &Path) {
    let write = |path: &str, data: &str| fs::write(root.join(path), data).unwrap();
    write("b", "b");
    write("c", "c");
    write("big", &"big".repeat(10_000));
    fs::create_dir_all(root.join("tree/in/deep")).unwrap();
    write("tree/one", "1");
    write("tree/in/two", "2");
    write("tree/in/deep/three", "3");
    fs::hard_link(root.join("tree/one"), root.join("tree/in/one")).unwrap();
    symlink("one", root.join("tree/link")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
}

#[track_caller]
fn commits(acts: &[Act], lines: &[&str]) {
    let world = World::new(plant);
    world.act(acts);
    assert_eq!(world.lines(), lines);
    world.assert_commits();
}

#[test]
fn the_example_of_the_manual() {
    let acts = [
        &create("a", "new\n")[..],
        &[
            Act::Unlink(s("b")),
            Act::MakeDirectory(s("d")),
            Act::MakeDirectory(s("d/e")),
            rename("c", "d/c"),
            Act::Write(s("big"), 30_000, b"x".to_vec()),
        ],
    ]
    .concat();
    let lines = ["A a", "D b", "A d/", "A d/e/", "R c -> d/c", "M big"];
    commits(&acts, &lines);
}

#[test]
fn moved_away_and_back_is_no_change() {
    commits(&[rename("b", "x"), rename("x", "b")], &[]);
    commits(&[rename("tree", "x"), rename("x", "tree")], &[]);
    commits(&[Act::Create(s("x")), Act::Unlink(s("x"))], &[]);
}

#[test]
fn names_swap_and_turn_in_a_ring() {
    commits(&[Act::Exchange(s("b"), s("c"))], &["R c -> b", "R b -> c"]);
    commits(
        &[
            rename("b", "x"),
            rename("c", "b"),
            rename("big", "c"),
            rename("x", "big"),
        ],
        &["R b -> big", "R c -> b", "R big -> c"],
    );
    commits(
        &[Act::Exchange(s("tree"), s("b"))],
        &["R tree/ -> b/", "R b -> tree"],
    );
}

#[test]
fn directories_turn_inside_out() {
    commits(
        &[
            rename("tree/in", "x"),
            rename("tree", "x/tree"),
            rename("x", "in"),
        ],
        &["R tree/in/ -> in/", "R tree/ -> in/tree/"],
    );
    commits(
        &[
            rename("tree/in/deep", "x"),
            rename("tree/in", "x/in"),
            rename("tree", "x/in/tree"),
            rename("x", "tree"),
        ],
        &[
            "R tree/in/deep/ -> tree/",
            "R tree/in/ -> tree/in/",
            "R tree/ -> tree/in/tree/",
        ],
    );
}

#[test]
fn a_removed_tree_goes_name_by_name() {
    commits(
        &[
            Act::Unlink(s("tree/in/deep/three")),
            Act::RemoveDirectory(s("tree/in/deep")),
            Act::Unlink(s("tree/in/two")),
            Act::Unlink(s("tree/in/one")),
            Act::RemoveDirectory(s("tree/in")),
        ],
        &[
            "D tree/in/deep/three",
            "D tree/in/deep/",
            "D tree/in/two",
            "D tree/in/one",
            "D tree/in/",
        ],
    );
}

#[test]
fn what_is_moved_out_of_a_removed_tree_survives() {
    let acts = [
        rename("tree/in/deep", "deep"),
        rename("tree/in/two", "b"),
        Act::Unlink(s("tree/in/one")),
        Act::RemoveDirectory(s("tree/in")),
        Act::Write(s("deep/three"), 1, b"!".to_vec()),
        Act::MakeDirectory(s("tree/in")),
        rename("deep", "tree/in/deep2"),
    ];
    commits(
        &acts,
        &[
            "R tree/in/deep/ -> tree/in/deep2/",
            "R tree/in/two -> b",
            "D tree/in/one",
            "M tree/in/",
            "M tree/in/deep2/three",
        ],
    );
}

#[test]
fn kinds_change_both_ways() {
    let acts = [
        Act::Unlink(s("b")),
        Act::MakeDirectory(s("b")),
        Act::Create(s("b/inside")),
        Act::RemoveDirectory(s("empty")),
        Act::Symlink(s("empty"), s("tree")),
        Act::Unlink(s("tree/link")),
        Act::Create(s("tree/link")),
    ];
    commits(&acts, &["T b/", "A b/inside", "T empty", "T tree/link"]);
}

#[test]
fn every_kind_of_inode_is_made() {
    let mut acts = create("f", "data").to_vec();
    acts.extend([
        Act::Symlink(s("l"), s("nowhere")),
        Act::Fifo(s("p")),
        Act::Socket(s("s")),
        Act::MakeDirectory(s("d")),
        Act::Chmod(s("d"), 0o1777),
        Act::Chmod(s("f"), 0o4755),
        Act::SetModified(s("l"), -5),
        Act::SetModified(s("f"), 86_400),
        Act::SetModified(s("p"), 9_000_000_000),
        Act::SetXattr(s("f"), s("user.note"), Some(b"v".to_vec())),
    ]);
    let mut lines = vec!["A f", "A l", "A p", "A s", "A d/"];
    if surmise_testkit::is_root() {
        acts.push(Act::Device(s("null"), rustix::fs::makedev(1, 3)));
        acts.push(Act::Chown(s("l2"), 7, 8));
        acts.push(Act::Chown(s("f"), 1234, 5678));
        lines.push("A null");
    }
    commits(&acts, &lines);
}

#[test]
fn a_file_that_is_changed_keeps_its_inode_and_its_links() {
    let acts = [
        Act::Write(s("tree/one"), 1, b" and more".to_vec()),
        Act::Chmod(s("tree/in/one"), 0o640),
        Act::Truncate(s("big"), 7),
        Act::SetModified(s("c"), 77),
        Act::SetXattr(s("b"), s("user.x"), Some(vec![0, 1, 2])),
    ];
    commits(&acts, &["M tree/one", "M big", "M c", "M b"]);
}

#[test]
fn a_changed_file_that_loses_the_name_it_was_known_by_is_still_changed() {
    let acts = [
        Act::Write(s("tree/one"), 0, b"changed".to_vec()),
        Act::Unlink(s("tree/one")),
    ];
    commits(&acts, &["M tree/one", "D tree/one"]);
}

#[test]
fn a_changed_file_loses_a_name_in_a_removed_directory() {
    let world = World::new(|root| {
        fs::create_dir(root.join("d")).unwrap();
        fs::write(root.join("f"), "one file").unwrap();
        fs::hard_link(root.join("f"), root.join("d/f")).unwrap();
    });
    world.act(&[
        Act::Write(s("f"), 0, b"changed, and longer".to_vec()),
        Act::Unlink(s("d/f")),
        Act::RemoveDirectory(s("d")),
    ]);
    world.assert_commits();
}

#[test]
fn hard_links_are_made_moved_and_broken() {
    commits(
        &[
            Act::Link(s("b"), s("b2")),
            Act::Link(s("tree/one"), s("empty/one")),
        ],
        &["A b2", "A empty/one"],
    );
    commits(
        &[rename("tree/one", "x"), Act::Unlink(s("tree/in/one"))],
        &["R tree/one -> x", "D tree/in/one"],
    );
    let made = [
        &create("n", "new")[..],
        &[
            Act::MakeDirectory(s("d")),
            Act::Link(s("n"), s("d/n")),
            Act::Link(s("n"), s("tree/n")),
            Act::Link(s("b"), s("d/b")),
        ],
    ]
    .concat();
    commits(&made, &["A n", "A d/", "A d/n", "A tree/n", "A d/b"]);
}

#[test]
fn a_file_that_is_saved_by_replacement_gets_a_new_inode() {
    let mut acts = create("big.new", "short").to_vec();
    acts.push(rename("big.new", "big"));
    commits(&acts, &["M big"]);
    commits(&[rename("b", "c")], &["R b -> c"]);
}

#[test]
fn a_directory_that_ends_read_only_is_filled_first() {
    let acts = [
        Act::MakeDirectory(s("d")),
        Act::MakeDirectory(s("d/e")),
        rename("tree/in", "d/e/in"),
        Act::Create(s("d/f")),
        Act::Chmod(s("d/e"), 0o500),
        Act::Chmod(s("d"), 0o555),
        Act::Unlink(s("tree/link")),
        Act::Chmod(s("tree"), 0o555),
    ];
    commits(
        &acts,
        &[
            "A d/",
            "A d/e/",
            "R tree/in/ -> d/e/in/",
            "A d/f",
            "D tree/link",
            "M tree/",
        ],
    );
}

#[test]
fn a_read_only_tree_is_removed_and_filled_by_its_owner() {
    let read_only = |root: &Path| {
        plant(root);
        for path in ["tree/in/deep", "tree/in", "tree"] {
            fs::set_permissions(root.join(path), fs::Permissions::from_mode(0o555)).unwrap();
        }
    };
    let acts = [
        Act::Chmod(s("tree"), 0o755),
        Act::Chmod(s("tree/in"), 0o755),
        Act::Chmod(s("tree/in/deep"), 0o755),
        Act::Unlink(s("tree/in/deep/three")),
        Act::RemoveDirectory(s("tree/in/deep")),
        Act::Create(s("tree/in/new")),
        Act::Chmod(s("tree/in"), 0o555),
        rename("tree/in", "in"),
    ];
    for stop in 0.. {
        let world = World::new(read_only);
        world.act(&acts);
        let stopped = world.commit_until(stop);
        if stopped.is_some() && world.resume(&[]) == Resumed::Undone {
            let modes = ["tree", "tree/in", "tree/in/deep"]
                .map(|path| fs::metadata(world.real().join(path)).unwrap().mode() & 0o7777);
            assert_eq!(modes, [0o555; 3], "stopped before step {stop}");
            world.commit().unwrap();
        }
        world.assert_same();
        if stopped.is_none() {
            break;
        }
    }
}

#[test]
fn a_commit_leaves_nothing_beside_the_tree() {
    let world = World::new(plant);
    world.act(&create("a", "a"));
    world.assert_commits();
    let objects = world.state().join("objects");
    let mut files = 0;
    crate::harness::each_path(&objects, &mut |path| files += usize::from(path.is_file()));
    assert_eq!(
        files, 0,
        "the new file's object still has its name in the store"
    );
    let phase = surmise_commit::pending(&world.state()).unwrap();
    assert_eq!(phase, Some(surmise_commit::Phase::Done));
}

#[test]
fn a_tree_on_another_file_system_gets_copies() {
    let elsewhere = Path::new("/dev/shm");
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev());
    if device(elsewhere).ok() == device(&std::env::temp_dir()).ok() || device(elsewhere).is_err() {
        surmise_testkit::skip("no second file system at /dev/shm");
        return;
    }
    let world = World::with_state_in(elsewhere, plant);
    let mut acts = create("holes", "start").to_vec();
    acts.extend([
        Act::Write(s("holes"), 5_000_000, b"end".to_vec()),
        Act::Truncate(s("holes"), 9_000_000),
        Act::Chmod(s("holes"), 0o4711),
        Act::Link(s("holes"), s("tree/holes")),
        Act::Write(s("tree/one"), 3, b"in place".to_vec()),
        Act::Truncate(s("big"), 1_000_000),
        Act::SetModified(s("big"), 12_345),
    ]);
    world.act(&acts);
    world.assert_commits();
    let blocks = fs::metadata(world.real().join("holes")).unwrap().blocks();
    assert!(
        blocks * 512 < 1_000_000,
        "the holes were filled: {blocks} blocks"
    );
}
