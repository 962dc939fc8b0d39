//! What the domain merely read and somebody outside has changed since: told, or a conflict.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use surmise_commit::{Choice, CommitError, ConflictKind, Report, Terms, Winner, forget};
use surmise_testkit::{Facets, TreeSnapshot, assert_same_tree};
use surmise_view::{Entry, FileKind, NodeId, OpenHow, ReadsUnknown, View};

use crate::harness::{Act, World, plant_files};

const STRICT: Terms<'_> = Terms {
    choices: &[],
    is_strict: true,
};

fn read(view: &View, path: &str) {
    let mut found: Option<Entry> = None;
    for name in path.split('/') {
        let parent = found.map_or(NodeId::ROOT, |entry| entry.node);
        let entry = view.lookup(parent, name.as_ref()).unwrap();
        found = Some(entry.unwrap_or_else(|_| panic!("no {path}")));
    }
    let found = found.unwrap();
    match found.attributes.identity.kind {
        FileKind::Symlink => drop(view.read_link(found.node).unwrap()),
        _ => {
            let opened = view.open_file(found.node, OpenHow::default()).unwrap();
            view.close_file(found.node, opened.number, false);
        }
    }
}

fn write(path: &str) -> Act {
    Act::Write(path.into(), 0, b"ours".to_vec())
}

/// A domain that has read some paths, then acted, and has ended.
fn world(paths: &[&str], acts: &[Act]) -> World {
    let world = World::new(|root| {
        plant_files(root);
        symlink("a", root.join("link")).unwrap();
    });
    let view = world.view();
    for path in paths {
        read(&view, path);
    }
    world.act_on(&view, acts);
    view.end_reads();
    world
}

fn theirs(world: &World, path: &str) {
    fs::write(world.real().join(path), "theirs, and longer").unwrap();
}

/// A file of the same text in the place of one.
fn replace(world: &World, path: &str) {
    let (new, path) = (world.real().join("new"), world.real().join(path));
    fs::copy(&path, &new).unwrap();
    fs::rename(&new, path).unwrap();
}

#[track_caller]
fn assert_conflicts(world: &World, terms: Terms<'_>, wanted: &[(&str, ConflictKind)]) {
    let before = TreeSnapshot::of(world.real());
    let refused = world.commit_on(terms);
    let Err(CommitError::Conflicts(conflicts)) = refused else {
        panic!("{refused:?}")
    };
    world.assert_conflicts(conflicts, wanted);
    assert_same_tree(&before, &TreeSnapshot::of(world.real()), Facets::EXACT);
}

/// S29.
#[test]
fn what_was_read_and_has_changed_outside_is_told_or_a_conflict() {
    let read = ["a", "b", "c", "d/e/g", "d/f", "link"];
    let world = world(&read, &[Act::Create("made".into())]);
    theirs(&world, "a");
    replace(&world, "b");
    fs::remove_file(world.real().join("d/f")).unwrap();
    // Renamed over it: one made after its removal may get its very inode number.
    symlink("b", world.real().join("new")).unwrap();
    fs::rename(world.real().join("new"), world.real().join("link")).unwrap();
    let wanted = [
        ("a", ConflictKind::ReadChanged),
        ("b", ConflictKind::ReadReplaced),
        ("d/f", ConflictKind::ReadRemoved),
        ("link", ConflictKind::ReadReplaced),
    ];
    assert_conflicts(&world, STRICT, &wanted);
    let report = world.commit().expect("no conflict");
    world.assert_conflicts(report.read_changed, &wanted);
    assert!(world.real().join("made").exists());
}

/// S29: what the commit itself does to files that were read is nobody's change.
#[test]
fn the_commit_of_what_was_read_is_no_change_outside() {
    let read = ["a", "b", "c", "d/e/g", "d/f", "link"];
    let acts = [
        write("a"),
        Act::Rename("b".into(), "moved".into()),
        Act::Unlink("c".into()),
        Act::Link("d/f".into(), "linked".into()),
        Act::Rename("d".into(), "renamed".into()),
        Act::Chmod("renamed/e/g".into(), 0o600),
    ];
    for terms in [STRICT, Terms::default()] {
        let world = world(&read, &acts);
        let report = world.commit_on(terms).expect("no conflict");
        assert_eq!(report, Report::default());
        world.assert_same();
    }
}

/// S29, S6: nor is that a commit was taken back.
#[test]
fn a_commit_that_is_taken_back_leaves_what_was_read_as_it_was() {
    let mut undone = 0;
    for stop in 0.. {
        let read = ["a", "b", "c", "d/e/g", "d/f", "link"];
        let acts = [
            write("a"),
            Act::Rename("b".into(), "moved".into()),
            Act::Link("d/f".into(), "linked".into()),
            Act::Link("link".into(), "linked2".into()),
            Act::Rename("d".into(), "renamed".into()),
        ];
        let world = world(&read, &acts);
        if world.commit_until(stop).is_none() {
            break;
        }
        if !world.undo(&[]) {
            continue;
        }
        undone += 1;
        let report = world.commit_on(STRICT);
        assert_eq!(report.expect("no conflict"), Report::default(), "{stop}");
        world.assert_same();
    }
    assert!(undone > 10, "{undone}");
}

/// S29.
#[test]
fn what_the_commit_changes_is_told_once() {
    let world = World::new(|root| {
        plant_files(root);
        fs::hard_link(root.join("a"), root.join("z")).unwrap();
        fs::hard_link(root.join("b"), root.join("y")).unwrap();
    });
    let view = world.view();
    for path in ["a", "z", "b", "y", "c", "d/f"] {
        read(&view, path);
    }
    world.act_on(&view, &[write("a"), write("b"), Act::Unlink("c".into())]);
    view.end_reads();
    theirs(&world, "a");
    theirs(&world, "c");
    replace(&world, "y");
    fs::rename(world.real().join("d"), world.real().join("elsewhere")).unwrap();
    let wanted = [
        ("a", ConflictKind::Changed),
        ("b", ConflictKind::Changed),
        ("c", ConflictKind::Changed),
        ("d/f", ConflictKind::ReadRemoved),
        ("y", ConflictKind::ReadReplaced),
    ];
    assert_conflicts(&world, STRICT, &wanted);
    let wanted: Vec<_> = wanted
        .into_iter()
        .filter(|(_, what)| !what.is_of_read())
        .collect();
    assert_conflicts(&world, Terms::default(), &wanted);
}

/// S29: that a name is free, as the domain found it in the end, does not undo what it read there.
#[test]
fn what_was_read_removed_outside_and_made_inside_is_told() {
    let world = world(&["a"], &[]);
    fs::remove_file(world.real().join("a")).unwrap();
    fs::remove_file(world.copy().join("a")).unwrap();
    let view = world.view();
    world.act_on(&view, &[Act::Create("a".into())]);
    view.end_reads();
    assert_conflicts(&world, STRICT, &[("a", ConflictKind::ReadRemoved)]);
    let report = world.commit().expect("no conflict");
    world.assert_conflicts(report.read_changed, &[("a", ConflictKind::ReadRemoved)]);
    world.assert_same();
}

/// S29.
#[test]
fn no_link_is_followed_to_what_was_read() {
    let world = world(&["d/e/g"], &[Act::Create("made".into())]);
    fs::rename(world.real().join("d"), world.real().join("elsewhere")).unwrap();
    symlink("elsewhere", world.real().join("d")).unwrap();
    assert_conflicts(&world, STRICT, &[("d/e/g", ConflictKind::ReadRemoved)]);
}

/// S29: what a person names has been looked at.
#[test]
fn what_was_read_at_a_chosen_path_is_no_conflict() {
    let acts = [write("a"), Act::Create("made".into())];
    let world = world(&["a", "b", "d/e/g", "d/f"], &acts);
    for path in ["a", "b", "d/e/g", "d/f"] {
        theirs(&world, path);
    }
    let choice = |path: &str, winner| Choice {
        path: world.real().join(path),
        winner,
    };
    let strict = |choices: &[Choice]| {
        world.commit_on(Terms {
            choices,
            is_strict: true,
        })
    };
    let before = TreeSnapshot::of(world.real());
    let all = [
        choice("d", Winner::Ours),
        choice("b", Winner::Theirs),
        choice("a", Winner::Theirs),
    ];
    let refused = strict(&all[..2]);
    let Err(CommitError::Conflicts(left)) = refused else {
        panic!("{refused:?}")
    };
    world.assert_conflicts(left, &[("a", ConflictKind::Changed)]);
    let refused = strict(&[all[0].clone(), choice("c", Winner::Ours)]);
    assert!(
        matches!(&refused, Err(CommitError::NoConflict(path)) if path.ends_with("c")),
        "{refused:?}"
    );
    // Without --strict there is no conflict there.
    let refused = world.commit_for(Winner::Ours, &["d"]);
    assert!(
        matches!(refused, Err(CommitError::NoConflict(_))),
        "{refused:?}"
    );
    assert_same_tree(&before, &TreeSnapshot::of(world.real()), Facets::EXACT);
    // What is left out of the commit was read, too.
    assert_eq!(strict(&all).expect("all decided"), Report::default());
    let a = fs::read_to_string(world.real().join("a")).unwrap();
    assert_eq!(a, "theirs, and longer");
    assert!(world.real().join("made").exists());
}

/// S29: nothing is guessed.
#[test]
fn a_strict_commit_needs_to_know_what_was_read() {
    let killed = |world: &World| {
        let view = world.view();
        read(&view, "b");
        read(&view, "c");
    };
    let old = |world: &World| fs::remove_file(world.state().join("reads")).unwrap();
    type Case<'c> = (&'c dyn Fn(&World), fn(&ReadsUnknown) -> bool);
    let cases: [Case<'_>; 2] = [
        (&killed, |why| matches!(why, ReadsUnknown::NotWhole)),
        (&old, |why| matches!(why, ReadsUnknown::Absent)),
    ];
    for (what, why) in cases {
        let world = world(&["a"], &[Act::Create("made".into())]);
        theirs(&world, "a");
        what(&world);
        let before = TreeSnapshot::of(world.real());
        let refused = world.commit_on(STRICT);
        assert!(
            matches!(&refused, Err(CommitError::ReadsUnknown(unknown)) if why(unknown)),
            "{refused:?}"
        );
        assert_same_tree(&before, &TreeSnapshot::of(world.real()), Facets::EXACT);
        let report = world.commit().expect("no conflict");
        assert_eq!(report, Report::default());
    }
}

/// S50: what was known and is damaged is missed by every commit.
#[test]
fn no_commit_goes_without_what_was_read_where_that_is_damaged() {
    let world = world(&["a"], &[Act::Create("made".into())]);
    let path = world.state().join("reads");
    fs::write(&path, [b'x'; 2000]).unwrap();
    let before = TreeSnapshot::of(world.real());
    for refused in [world.commit_on(STRICT), world.commit()] {
        let Err(CommitError::ReadsUnknown(unknown)) = refused else {
            panic!("{refused:?}");
        };
        assert!(unknown.is_damage(), "{unknown}");
    }
    assert_same_tree(&before, &TreeSnapshot::of(world.real()), Facets::EXACT);
    fs::remove_file(&path).unwrap();
    assert_eq!(world.commit().expect("committed"), Report::default());
}

/// S29: a domain that goes on is judged by what it read since.
#[test]
fn what_was_read_before_a_commit_does_not_count_for_the_next() {
    let world = World::new(plant_files);
    let view = world.view();
    read(&view, "a");
    read(&view, "b");
    world.act_on(&view, &[Act::Create("made".into())]);
    view.prepare_commit().unwrap();
    theirs(&world, "b");
    assert_conflicts(&world, STRICT, &[("b", ConflictKind::ReadChanged)]);
    let report = world.commit().unwrap();
    world.assert_conflicts(report.read_changed, &[("b", ConflictKind::ReadChanged)]);
    view.rebase().unwrap();
    forget(&world.state()).unwrap();
    view.go_on().unwrap();
    read(&view, "c");
    view.rename(
        (NodeId::ROOT, "made".as_ref()),
        (NodeId::ROOT, "moved".as_ref()),
        surmise_view::RenameMode::Replace,
    )
    .unwrap();
    theirs(&world, "a");
    view.prepare_commit().unwrap();
    let report = world.commit_on(STRICT).expect("no conflict");
    assert_eq!(report, Report::default());
    assert!(world.real().join("moved").exists());
}

/// S29: a path that no single call takes.
#[test]
fn what_was_read_far_below_is_found() {
    const DEPTH: usize = 40;
    let name = "n".repeat(200);
    let deep = |root: &Path, each: &mut dyn FnMut(&rustix::fd::OwnedFd)| {
        use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = openat(CWD, root, flags, Mode::empty()).unwrap();
        for _ in 0..DEPTH {
            // It may be there.
            let _ = mkdirat(&at, &name, Mode::RWXU);
            at = openat(&at, &name, flags, Mode::empty()).unwrap();
        }
        each(&at);
    };
    let write = |root: &Path, text: &[u8]| {
        deep(root, &mut |directory| {
            use rustix::fs::{Mode, OFlags, openat};
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
            let file = openat(directory, "file", flags, Mode::RUSR | Mode::WUSR).unwrap();
            rustix::io::write(file, text).unwrap();
        });
    };
    let home = tempfile::tempdir().unwrap();
    let real = tempfile::tempdir().unwrap();
    write(real.path(), b"old");
    let view = View::open(surmise_view::ViewConfig::new(home.path(), real.path()));
    let view = view.unwrap();
    let path: PathBuf = vec![&*name; DEPTH].into_iter().collect();
    read(&view, path.join("file").to_str().unwrap());
    view.end_reads();
    let map = surmise_view::load(home.path()).unwrap();
    let request = surmise_commit::Request {
        name: "t",
        directory: home.path(),
        map: &map,
        root: real.path(),
        keep: None,
    };
    surmise_commit::check_on(&request, STRICT).expect("nothing has changed");
    write(real.path(), b"changed");
    let refused = surmise_commit::check_on(&request, STRICT);
    let Err(CommitError::Conflicts(conflicts)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(conflicts[0].what, ConflictKind::ReadChanged);
}
