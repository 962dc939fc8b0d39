//! Commits of a domain that goes on and holds large files.

use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;

use surmise_commit::{Report, Request};
use surmise_view::NodeId;

use crate::world::{Call, Opened, SIZE, World};

fn commit(world: &World, opened: &Opened<'_>) {
    opened.view.prepare_commit().unwrap();
    let map = surmise_view::load(world.state.path()).unwrap();
    let request = Request {
        name: "t",
        directory: world.state.path(),
        map: &map,
        root: world.lower.path(),
        keep: None,
    };
    let report = surmise_commit::commit(&request, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(report, Report::default());
    opened.view.rebase().unwrap();
    surmise_commit::forget(world.state.path()).unwrap();
    opened.view.go_on().unwrap();
    opened.view.sweep().unwrap();
}

fn changes() -> [Call; 3] {
    let write = |at, length, fill| Call::Write { at, length, fill };
    [
        write(SIZE, 1, 1),
        write(100_000, 3, 2),
        write(1 << 19, 1 << 17, 3),
    ]
}

#[test]
fn a_large_file_is_committed_and_borrowed_from_anew() {
    let world = World::new();
    let mut opened = world.open();
    for round in 0..3 {
        changes().iter().for_each(|call| opened.call(call));
        opened.call(&Call::Truncate(SIZE + round));
        opened.compare();
        assert!(world.stored() < SIZE / 2, "{} bytes", world.stored());
        commit(&world, &opened);
        opened.compare();
        assert_eq!(world.stored(), 0, "what was committed is real");
        assert_eq!(fs::metadata(world.real()).unwrap().len(), SIZE + round);
    }
}

#[test]
fn a_removed_large_file_outlives_the_commit_for_who_holds_it() {
    let world = World::new();
    let mut opened = world.open();
    changes().iter().for_each(|call| opened.call(call));
    let modified = opened.view.attributes(opened.node).unwrap().attributes;
    opened
        .view
        .unlink(NodeId::ROOT, OsStr::new("file"))
        .unwrap();
    commit(&world, &opened);
    assert!(!world.real().exists());
    opened.compare();
    let found = opened.view.attributes(opened.node).unwrap().attributes;
    assert_eq!(found.identity.modified, modified.identity.modified);
    changes().iter().for_each(|call| opened.call(call));
    opened.compare();
}

#[test]
fn a_commit_that_is_given_up_leaves_a_large_file_borrowing() {
    let world = World::new();
    let mut opened = world.open();
    changes().iter().for_each(|call| opened.call(call));
    let before = fs::metadata(world.real()).unwrap();
    opened.view.prepare_commit().unwrap();
    assert!(opened.view.prepare_commit().is_err(), "prepared twice");
    opened.view.go_on().unwrap();
    changes().iter().for_each(|call| opened.call(call));
    opened.compare();
    let after = fs::metadata(world.real()).unwrap();
    assert_eq!(
        (after.mtime(), after.ctime()),
        (before.mtime(), before.ctime())
    );
}
