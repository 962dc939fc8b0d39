//! Marks: what is undone, what stays, and what has to wait meanwhile.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::process::Command;

use rustix::io::Errno;
use surmise_fuse::Postponed;
use surmise_view::{Entry, FileKind, MarkId, NodeId, OpenHow, SetAttributes, load};

use crate::{DESCRIPTORS, World, create, errno, first_use, lookup};

/// What the store holds.
pub fn objects(world: &World) -> usize {
    let shards = fs::read_dir(world.state.path().join("objects"));
    let shards = shards
        .into_iter()
        .flatten()
        .map(|shard| shard.unwrap().path());
    shards
        .map(|shard| fs::read_dir(shard).unwrap().count())
        .sum()
}

pub fn waits(error: io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Postponed>())
}

#[test]
fn a_real_file_whose_adoption_is_undone_is_known_where_it_was() {
    let world = World::new();
    let view = world.view();
    let file = lookup(&view, NodeId::ROOT, "file");
    let mark = view.mark(std::process::id(), false).unwrap();
    let private = SetAttributes {
        permissions: Some(0o600),
        ..SetAttributes::default()
    };
    view.set_attributes(file.node, private).unwrap();
    view.write(file.node, 0, b"new", false).unwrap();
    assert_eq!(objects(&world), 1);
    view.undo(&[mark]).unwrap();
    // By its node, as who has it open.
    let after = view.attributes(file.node).unwrap();
    assert_eq!(after.attributes, file.attributes);
    let mut data = [0; 4];
    assert_eq!(view.read(file.node, 0, &mut data).unwrap(), 3);
    assert_eq!(&data[..3], b"old");
    assert_eq!(objects(&world), 0);
}

/// A process that only opened the directory depends on no name in it, so it is not rolled back with the change.
#[test]
fn a_directory_that_was_opened_before_a_name_was_undone_lists_none_of_that() {
    let world = World::new();
    let view = world.view();
    let mark = view.mark(std::process::id(), false).unwrap();
    create(&view, NodeId::ROOT, "made", FileKind::Regular).unwrap();
    view.unlink(NodeId::ROOT, OsStr::new("file")).unwrap();
    let handle = view.open_directory(NodeId::ROOT).unwrap().handle;
    view.undo(&[mark]).unwrap();
    let listing = view.read_directory(NodeId::ROOT, handle, true).unwrap();
    let has = |name| listing.iter().any(|entry| entry.name == name);
    assert!(has("file") && !has("made"), "{listing:?}");
}

#[test]
fn data_from_before_two_marks_stay_when_the_older_one_is_settled() {
    let world = World::new();
    let view = world.view();
    let made = create(&view, NodeId::ROOT, "made", FileKind::Regular).unwrap();
    view.write(made.node, 0, b"old", false).unwrap();
    let older = view.mark(std::process::id(), false).unwrap();
    let private = SetAttributes {
        permissions: Some(0o600),
        ..SetAttributes::default()
    };
    view.set_attributes(made.node, private).unwrap();
    let newer = view.mark(std::process::id(), false).unwrap();
    view.write(made.node, 0, b"new", false).unwrap();
    // The newer mark's data lie on what the older one has changed.
    assert!(view.settle(&[newer]).is_err());
    assert!(view.undo(&[older]).is_err());
    view.settle(&[older]).unwrap();
    assert_eq!(objects(&world), 2);
    view.undo(&[newer]).unwrap();
    let mut data = [0; 4];
    assert_eq!(view.read(made.node, 0, &mut data).unwrap(), 3);
    assert_eq!(&data[..3], b"old");
    assert_eq!(objects(&world), 1);
}

#[test]
fn what_the_kernel_forgot_goes_once_nothing_could_bring_it_back() {
    let world = World::new();
    let view = world.view();
    let mark = view.mark(std::process::id(), false).unwrap();
    let made = create(&view, NodeId::ROOT, "made", FileKind::Regular).unwrap();
    view.unlink(NodeId::ROOT, OsStr::new("made")).unwrap();
    view.forget(made.node, 1);
    assert_eq!(objects(&world), 1);
    view.settle(&[mark]).unwrap();
    assert_eq!(objects(&world), 0);
}

#[test]
fn data_that_others_may_have_mapped_wait_for_a_decision() {
    let world = World::new();
    let view = world.view();
    let file = lookup(&view, NodeId::ROOT, "file");
    let opened_by = |opener| OpenHow {
        reads: true,
        opener,
        ..OpenHow::default()
    };
    let (own, other) = (std::process::id(), 1);
    view.open_file(file.node, opened_by(own)).unwrap();
    let mark = view.mark(own, false).unwrap();
    view.write(file.node, 0, b"one", false).unwrap();
    let others = view.open_file(file.node, opened_by(other)).unwrap();
    assert!(view.write(file.node, 0, b"two", false).is_err_and(waits));
    view.close_file(file.node, others.number, false);
    view.write(file.node, 0, b"two", false).unwrap();
    view.settle(&[mark]).unwrap();

    // What was opened before the mark, its children may have, too.
    let mark = view.mark(own, true).unwrap();
    assert!(view.write(file.node, 0, b"six", false).is_err_and(waits));
    view.give_up(&[mark]);
    let failed = view.write(file.node, 0, b"six", false);
    assert_eq!(errno(failed), Some(Errno::INTR.raw_os_error()));
    view.undo(&[mark]).unwrap();
    view.write(file.node, 0, b"six", false).unwrap();
}

/// The caller of the view has looked that nobody else has the file mapped.
#[test]
fn what_a_process_writes_by_a_call_waits_only_if_it_is_to_be_checked() {
    let world = World::new();
    let view = world.view();
    let file = lookup(&view, NodeId::ROOT, "file");
    let (own, other, kernel) = (std::process::id(), 1, 0);
    for opener in [own, other] {
        let opened = OpenHow {
            reads: true,
            opener,
            ..OpenHow::default()
        };
        view.open_file(file.node, opened).unwrap();
    }
    let write = |caller| {
        view.serves(caller);
        view.write(file.node, 0, b"two", false)
    };
    let cut = || {
        let size = Some(1);
        let cut = SetAttributes {
            size,
            ..SetAttributes::default()
        };
        view.set_attributes(file.node, cut)
    };
    for is_checked in [false, true] {
        let mark = view.mark(own, false).unwrap();
        if is_checked {
            view.check_writes(own);
        }
        assert_eq!(write(own).is_err_and(waits), is_checked);
        assert!(cut().is_err_and(waits));
        assert!(
            write(kernel).is_err_and(waits),
            "others may have a page of it"
        );
        // A later mark is as the first.
        let later = view.mark(own, false).unwrap();
        assert_eq!(write(own).is_err_and(waits), is_checked);
        view.undo(&[later, mark]).unwrap();
    }
}

#[test]
fn what_is_undecided_is_not_committed() {
    let world = World::new();
    let view = world.view();
    let mark = view.mark(std::process::id(), false).unwrap();
    create(&view, NodeId::ROOT, "made", FileKind::Regular).unwrap();
    // The root, which is adopted.
    assert_eq!(load(world.state.path()).unwrap().nodes().count(), 1);
    let refused = view.prepare_commit();
    assert_eq!(errno(refused), Some(Errno::BUSY.raw_os_error()));
    view.settle(&[mark]).unwrap();
    assert_eq!(load(world.state.path()).unwrap().nodes().count(), 2);
    view.prepare_commit().unwrap();
    let refused = view.mark(std::process::id(), false);
    assert_eq!(errno(refused.map(drop)), Some(Errno::BUSY.raw_os_error()));
}

#[test]
fn a_file_stays_known_by_its_place_in_a_directory_that_the_kernel_forgot() {
    let world = World::new();
    let lower = world.lower.path();
    fs::create_dir(lower.join("directory")).unwrap();
    fs::hard_link(lower.join("file"), lower.join("directory/twin")).unwrap();
    let view = world.view();
    let file = lookup(&view, NodeId::ROOT, "file");
    let directory = lookup(&view, NodeId::ROOT, "directory");
    let twin = lookup(&view, directory.node, "twin");
    assert_eq!(twin.node, file.node);
    let mark = view.mark(std::process::id(), false).unwrap();
    create(&view, directory.node, "made", FileKind::Regular).unwrap();
    view.forget(directory.node, 1);
    // No descriptor of the directory is left.
    for number in 0..DESCRIPTORS {
        let name = number.to_string();
        fs::create_dir(lower.join(&name)).unwrap();
        let other = lookup(&view, NodeId::ROOT, &name);
        view.open_directory(other.node).unwrap();
    }
    view.undo(&[mark]).unwrap();
    let after = view.attributes(file.node).unwrap();
    assert_eq!(
        after.attributes.identity.key(),
        file.attributes.identity.key()
    );
}

#[test]
fn a_file_whose_change_is_undone_was_first_used_when_it_was() {
    let world = World::new();
    let lower = world.lower.path();
    fs::hard_link(lower.join("file"), lower.join("twin")).unwrap();
    let view = world.view();
    let file = lookup(&view, NodeId::ROOT, "file");
    let own = OpenHow {
        opener: std::process::id(),
        ..OpenHow::default()
    };
    view.open_file(file.node, own).unwrap();
    let mark = view.mark(own.opener, false).unwrap();
    view.write(file.node, 0, b"new", false).unwrap();
    view.undo(&[mark]).unwrap();
    fs::write(lower.join("file"), "newer and longer").unwrap();
    lookup(&view, NodeId::ROOT, "twin");
    view.unlink(NodeId::ROOT, OsStr::new("twin")).unwrap();
    let recorded = first_use(&world, "twin").unwrap();
    assert_eq!(recorded, file.attributes.identity);
}

#[test]
fn nothing_is_given_up_where_nothing_is_undecided() {
    let world = World::new();
    let view = world.view();
    let file = lookup(&view, NodeId::ROOT, "file");
    let own = std::process::id();
    let opener = OpenHow {
        reads: true,
        opener: own,
        ..OpenHow::default()
    };
    view.open_file(file.node, opener).unwrap();
    view.give_up(&[MarkId(1)]);
    assert_eq!(view.mark(own, true).unwrap(), MarkId(1));
    assert!(view.write(file.node, 0, b"new", false).is_err_and(waits));
}

#[test]
fn what_is_undone_when_a_view_is_opened_is_one_more_operation_to_whoever_reads_the_log() {
    let world = World::new();
    let view = world.view();
    create(&view, NodeId::ROOT, "stays", FileKind::Regular).unwrap();
    view.mark(std::process::id(), false).unwrap();
    create(&view, NodeId::ROOT, "goes", FileKind::Regular).unwrap();
    drop(view);
    let before = load(world.state.path()).unwrap();
    let view = world.view();
    let after = load(world.state.path()).unwrap();
    assert_eq!(before.operations(), after.operations());
    // Adopted: the root. Made: one file.
    assert_eq!((before.nodes().count(), after.nodes().count()), (2, 2));
    assert!(
        view.lookup(NodeId::ROOT, OsStr::new("goes"))
            .unwrap()
            .is_err()
    );
}

#[test]
fn data_are_kept_from_before_a_mark_that_has_changed_the_inode_already() {
    let world = World::new();
    let view = world.view();
    let made = create(&view, NodeId::ROOT, "made", FileKind::Regular).unwrap();
    view.write(made.node, 0, b"old", false).unwrap();
    let mark = view.mark(std::process::id(), false).unwrap();
    let private = SetAttributes {
        permissions: Some(0o600),
        ..SetAttributes::default()
    };
    view.set_attributes(made.node, private).unwrap();
    view.write(made.node, 0, b"new", false).unwrap();
    view.undo(&[mark]).unwrap();
    let mut data = [0; 4];
    assert_eq!(view.read(made.node, 0, &mut data).unwrap(), 3);
    assert_eq!(&data[..3], b"old");
}

/// What hides a real file may be undecided when the file, which is still open, is changed and comes into the map.
#[test]
fn a_file_that_is_changed_after_its_name_went_has_it_again_when_the_removal_is_undone() {
    let world = World::new();
    let view = world.view();
    let file = lookup(&view, NodeId::ROOT, "file");
    let removal = view.mark(std::process::id(), false).unwrap();
    view.unlink(NodeId::ROOT, OsStr::new("file")).unwrap();
    let change = view.mark(std::process::id(), false).unwrap();
    view.write(file.node, 0, b"new", false).unwrap();
    let links = || view.attributes(file.node).unwrap().attributes.links;
    assert_eq!(links(), 0);
    view.undo(&[change]).unwrap();
    assert_eq!(links(), 0);
    view.undo(&[removal]).unwrap();
    assert_eq!(links(), 1);
    let after = lookup(&view, NodeId::ROOT, "file");
    assert_eq!((after.node, after.attributes.links), (file.node, 1));
}

/// A name that two marks have changed in turn is what it was below each layer.
#[test]
fn a_name_that_marks_have_changed_in_turn_goes_back_step_by_step() {
    let world = World::new();
    let view = world.view();
    let is_there = || {
        view.lookup(NodeId::ROOT, OsStr::new("made"))
            .unwrap()
            .is_ok()
    };
    let mut marks = Vec::new();
    for round in 0..4 {
        marks.push(view.mark(std::process::id(), false).unwrap());
        match round % 2 {
            0 => _ = create(&view, NodeId::ROOT, "made", FileKind::Regular).unwrap(),
            _ => view.unlink(NodeId::ROOT, OsStr::new("made")).unwrap(),
        }
    }
    // From the middle nothing goes, whatever end it is said to be.
    assert!(view.undo(&[marks[1]]).is_err());
    assert!(view.settle(&[marks[1]]).is_err());
    view.settle(&[marks[0]]).unwrap();
    for (round, mark) in marks.iter().enumerate().skip(1).rev() {
        view.undo(&[*mark]).unwrap();
        assert_eq!(is_there(), round % 2 == 1);
    }
    assert!(view.undo(&[marks[0]]).is_err(), "it is settled");
}

/// A child that has no mark was born before all that its parent has guessed, and depends on nothing: what it changes stays.
#[test]
fn a_change_is_the_marks_of_the_process_that_makes_it_and_not_of_one_that_has_borne_it() {
    let world = World::new();
    let view = world.view();
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    let own = std::process::id();
    let make = |name: &str| create(&view, NodeId::ROOT, name, FileKind::Regular).unwrap();
    let is_there = |name: &str| view.lookup(NodeId::ROOT, OsStr::new(name)).unwrap().is_ok();
    for has_borne in [false, true] {
        let mark = view.mark(own, has_borne).unwrap();
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        for (name, caller) in [
            ("own", thread.unsigned_abs()),
            ("childs", child.id()),
            ("others", 1),
        ] {
            view.serves(caller);
            make(name);
        }
        view.undo(&[mark]).unwrap();
        assert!(!is_there("own") && is_there("childs") && is_there("others"));
        for name in ["childs", "others"] {
            view.unlink(NodeId::ROOT, OsStr::new(name)).unwrap();
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A page that the kernel writes back may be of anybody who has the file open, or mapped.
#[test]
fn pages_that_are_written_back_are_changes_of_the_process_that_has_the_file_open() {
    let world = World::new();
    let view = world.view();
    let file = lookup(&view, NodeId::ROOT, "file");
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    let (own, other) = (thread.unsigned_abs(), 1);
    let mark = view.mark(std::process::id(), false).unwrap();
    let opened_by = |opener| OpenHow {
        reads: true,
        opener,
        ..OpenHow::default()
    };
    view.serves(0);
    assert!(view.write(file.node, 0, b"new", false).is_err_and(waits));
    let owns = view.open_file(file.node, opened_by(own)).unwrap();
    let others = view.open_file(file.node, opened_by(other)).unwrap();
    assert!(view.write(file.node, 0, b"new", false).is_err_and(waits));
    view.give_up(&[mark]);
    let failed = view.write(file.node, 0, b"new", false);
    assert_eq!(errno(failed), Some(Errno::INTR.raw_os_error()));
    view.close_file(file.node, others.number, false);
    view.write(file.node, 0, b"new", false).unwrap();
    view.undo(&[mark]).unwrap();
    let mut data = [0; 4];
    assert_eq!(view.read(file.node, 0, &mut data).unwrap(), 3);
    assert_eq!(&data[..3], b"old");

    // They are another's, and stay.
    view.close_file(file.node, owns.number, false);
    view.open_file(file.node, opened_by(other)).unwrap();
    let mark = view.mark(std::process::id(), false).unwrap();
    view.write(file.node, 0, b"new", false).unwrap();
    view.undo(&[mark]).unwrap();
    assert_eq!(view.read(file.node, 0, &mut data).unwrap(), 3);
    assert_eq!(&data[..3], b"new");
}

#[test]
fn only_what_is_open_for_reading_may_be_mapped() {
    let world = World::new();
    let view = world.view();
    let file = lookup(&view, NodeId::ROOT, "file");
    let made = create(&view, NodeId::ROOT, "made", FileKind::Regular).unwrap();
    let own = std::process::id();
    let open = |node, reads| {
        let how = OpenHow {
            reads,
            writes: true,
            opener: own,
            ..OpenHow::default()
        };
        view.open_file(node, how).unwrap().number
    };
    for Entry { node, inode, .. } in [file, made] {
        let may_be_mapped = |since| view.may_be_mapped(inode, since);
        assert!(!may_be_mapped(None));
        let written = open(node, false);
        assert!(!may_be_mapped(None));
        let early = open(node, true);
        let since = view.mark(own, false).unwrap();
        // That was open before the mark.
        assert!(may_be_mapped(None) && may_be_mapped(Some(since)));
        let after = view.mark(own, false).unwrap();
        let late = open(node, true);
        assert!(may_be_mapped(Some(since)), "by the one of before");
        view.close_file(node, written, false);
        view.close_file(node, early, false);
        assert!(may_be_mapped(None) && may_be_mapped(Some(after)));
        assert!(!may_be_mapped(Some(since)));
        view.settle(&[since, after]).unwrap();
        assert!(!may_be_mapped(Some(since)), "it was opened after that");
        let undated = open(node, true);
        view.close_file(node, late, false);
        assert!(
            may_be_mapped(Some(since)),
            "nothing tells when it was opened"
        );
        view.close_file(node, undated, false);
        assert!(!may_be_mapped(None));
    }
}
