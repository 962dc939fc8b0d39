//! Random histories, with and without kills, against a plain copy.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use crate::harness::{Act, World};
use proptest::prelude::*;
use surmise_commit::{CommitError, Reason, Resumed, Winner, pending};
use surmise_testkit::{Facets, TreeSnapshot, assert_same_tree};

fn plant(root: &Path) {
    fs::write(root.join("a"), "first").unwrap();
    fs::hard_link(root.join("a"), root.join("b")).unwrap();
    fs::create_dir_all(root.join("c/a")).unwrap();
    fs::write(root.join("c/b"), "in c").unwrap();
    fs::write(root.join("c/a/d"), "deep").unwrap();
    fs::create_dir_all(root.join("d/b/a")).unwrap();
    symlink("a", root.join("d/c")).unwrap();
    fs::hard_link(root.join("c/b"), root.join("d/d")).unwrap();
}

fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(&["a", "b", "c", "d"][..]);
    prop::collection::vec(name, 1..4).prop_map(|parts| parts.join("/"))
}

fn act() -> impl Strategy<Value = Act> {
    let data = prop::collection::vec(any::<u8>(), 0..20);
    let value = prop::option::of(prop::collection::vec(any::<u8>(), 1..8));
    prop_oneof![
        4 => path().prop_map(Act::Create),
        3 => path().prop_map(Act::MakeDirectory),
        1 => (path(), path()).prop_map(|(path, target)| Act::Symlink(path, target)),
        1 => path().prop_map(Act::Fifo),
        4 => path().prop_map(Act::Unlink),
        3 => path().prop_map(Act::RemoveDirectory),
        8 => (path(), path()).prop_map(|(from, to)| Act::Rename(from, to)),
        4 => (path(), path()).prop_map(|(from, to)| Act::Exchange(from, to)),
        3 => (path(), path()).prop_map(|(from, to)| Act::Link(from, to)),
        4 => (path(), 0..9000u64, data).prop_map(|(path, at, data)| Act::Write(path, at, data)),
        2 => (path(), 0..9000u64).prop_map(|(path, size)| Act::Truncate(path, size)),
        2 => (path(), 0..0o10000u16).prop_map(|(path, mode)| Act::Chmod(path, mode | 0o700)),
        1 => (path(), -9..9_000_000i64).prop_map(|(path, time)| Act::SetModified(path, time)),
        1 => (path(), value).prop_map(|(path, value)| Act::SetXattr(path, "user.x".into(), value)),
    ]
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    prop::collection::vec(act(), 1..50)
}

proptest! {
    /// S3.
    #[test]
    fn a_commit_equals_a_plain_run(acts in acts()) {
        let world = World::new(plant);
        world.act(&acts);
        world.assert_commits();
    }
}

proptest! {
    /// S6.
    #[test]
    fn a_commit_that_is_killed_is_all_or_nothing(
        acts in acts(),
        first in 0..120usize,
        later in prop::collection::vec(0..60usize, 0..3),
    ) {
        let world = World::new(plant);
        world.act(&acts);
        let before = TreeSnapshot::of(world.real());
        if world.commit_until(first).is_some() {
            match world.resume(&later) {
                Resumed::Finished(report) => prop_assert_eq!(report, Default::default()),
                Resumed::Undone | Resumed::Nothing => {
                    let untouched = Facets { ctime: false, ..Facets::EXACT };
                    assert_same_tree(&before, &TreeSnapshot::of(world.real()), untouched);
                    prop_assert_eq!(world.commit().unwrap(), Default::default());
                }
            }
        }
        world.assert_same();
    }
}

proptest! {
    /// S6.
    #[test]
    fn a_commit_that_is_killed_can_be_taken_back(
        acts in acts(),
        first in 0..120usize,
        later in prop::collection::vec(0..60usize, 0..3),
    ) {
        let world = World::new(plant);
        world.act(&acts);
        let before = TreeSnapshot::of(world.real());
        if world.commit_until(first).is_some() && pending(&world.state()).unwrap().is_some() {
            if world.undo(&later) {
                world.assert_undone(&before);
                world.assert_commits();
            } else {
                world.resume(&[]);
            }
        }
        world.assert_same();
    }
}

proptest! {
    /// S5: what is outside stays, and the rest of the commit is made.
    #[test]
    fn conflicts_of_any_kind_can_be_settled_for_what_is_outside(
        inside in acts(),
        outside in prop::collection::vec(act(), 1..6),
    ) {
        let world = World::new(plant);
        world.act(&inside);
        for act in &outside {
            crate::harness::real_takes(&world.real(), act);
        }
        let conflicts = match world.commit() {
            Err(CommitError::Conflicts(conflicts)) => conflicts,
            committed => {
                prop_assert!(committed.is_ok(), "{committed:?}");
                return Ok(());
            }
        };
        let state = |path: &Path| {
            let found = fs::symlink_metadata(path).ok()?;
            // A FIFO's reader would wait for ever.
            let data = found.is_file().then(|| fs::read(path).ok()).flatten();
            Some((found.ino(), found.file_type(), data, fs::read_link(path).ok()))
        };
        let before: Vec<_> = conflicts.iter().map(|conflict| state(&conflict.path)).collect();
        let report = world.commit_for(Winner::Theirs, &[""]);
        prop_assert!(report.is_ok(), "{report:?} after {conflicts:?}");
        // A further name of what is gone outside cannot be given; that is told.
        let left = report.unwrap().left;
        prop_assert!(left.iter().all(|left| left.reason == Reason::Gone), "{left:?}");
        // A directory that holds one may have moved.
        let mut after = Vec::new();
        crate::harness::each_path(&world.real(), &mut |path| after.push(state(path)));
        for (conflict, before) in conflicts.iter().zip(before) {
            let stays = before.is_none() || after.contains(&before);
            prop_assert!(stays, "{conflict:?} is gone: {before:?}");
        }
    }
}

/// S6.
#[test]
fn a_commit_that_is_killed_before_any_of_its_steps_is_all_or_nothing() {
    let acts = [
        Act::Create("new".into()),
        Act::Write("new".into(), 0, b"new".to_vec()),
        Act::Link("new".into(), "c/new".into()),
        Act::MakeDirectory("m".into()),
        Act::MakeDirectory("m/n".into()),
        Act::Create("m/n/o".into()),
        Act::Rename("c/a".into(), "m/n/a".into()),
        Act::Rename("d/b".into(), "x".into()),
        Act::Rename("d".into(), "x/d".into()),
        Act::Rename("x".into(), "d".into()),
        Act::Write("b".into(), 2, b"through its inode".to_vec()),
        Act::Unlink("a".into()),
        Act::Create("a.new".into()),
        Act::Rename("a.new".into(), "c/b".into()),
        Act::Chmod("m".into(), 0o2750),
        Act::Symlink("s".into(), "t".into()),
        Act::Fifo("p".into()),
    ];
    let mut stop = 0;
    let (mut undone, mut finished) = (0, 0);
    loop {
        let world = World::new(plant);
        world.act(&acts);
        let before = TreeSnapshot::of(world.real());
        if world.commit_until(stop).is_none() {
            world.assert_same();
            break;
        }
        match world.resume(&[stop / 2, 3]) {
            Resumed::Finished(report) => {
                assert_eq!(report, Default::default(), "stopped before step {stop}");
                finished += 1;
            }
            Resumed::Undone | Resumed::Nothing => {
                let untouched = Facets {
                    ctime: false,
                    ..Facets::EXACT
                };
                assert_same_tree(&before, &TreeSnapshot::of(world.real()), untouched);
                world.commit().unwrap();
                undone += 1;
            }
        }
        world.assert_same();
        stop += 1;
    }
    assert!(
        undone > 20 && finished > 20,
        "{undone} undone, {finished} finished"
    );
}
