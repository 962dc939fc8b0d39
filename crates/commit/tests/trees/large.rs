//! Large files, of whose data the domain holds only what it changed.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use surmise_commit::{Activity, CommitError, Conflict, ConflictKind, Progress, Resumed, undo};
use surmise_testkit::{Facets, TreeSnapshot, assert_same_tree, skip};

use crate::harness::{Act, World};

const BLOCK: u64 = 1 << 16;
const SIZE: u64 = 20 * BLOCK + 77;

fn plant(root: &Path) {
    plant_linked(root);
    for name in ["appended", "rewritten", "moved", "removed"] {
        fs::write(root.join(name), data()).unwrap();
    }
    let holes = fs::File::create(root.join("holes")).unwrap();
    holes.write_all_at(b"end", SIZE - 3).unwrap();
}

fn plant_linked(root: &Path) {
    fs::create_dir(root.join("d")).unwrap();
    for name in ["cut", "linked"] {
        fs::write(root.join(name), data()).unwrap();
    }
    fs::hard_link(root.join("linked"), root.join("d/linked")).unwrap();
}

fn data() -> Vec<u8> {
    (0..SIZE).map(|at| (at % 251) as u8 + 1).collect()
}

fn acts() -> Vec<Act> {
    let write = |name: &str, at: u64, data: &[u8]| Act::Write(name.into(), at, data.to_vec());
    let truncate = |name: &str, size| Act::Truncate(name.into(), size);
    vec![
        write("appended", SIZE, b"!"),
        write("rewritten", 3 * BLOCK + 5, b"inside a block"),
        write("rewritten", 5 * BLOCK, &vec![7; 2 * BLOCK as usize]),
        write("rewritten", SIZE + BLOCK, b"behind a hole"),
        // What was cut off reads as zeros.
        truncate("cut", 9 * BLOCK + 1),
        truncate("cut", SIZE + 3),
        write("d/linked", 0, b"through another name"),
        write("moved", 1, b"moved"),
        Act::Rename("moved".into(), "d/moved".into()),
        write("removed", 1, b"removed"),
        Act::Unlink("removed".into()),
        write("holes", 4 * BLOCK, b"in a hole"),
    ]
}

#[test]
fn a_part_of_a_large_file_is_committed_into_it() {
    let world = World::new(plant);
    world.act(&acts());
    world.assert_commits();
}

#[test]
fn a_large_file_on_another_file_system_is_committed() {
    let world = World::with_state_in("/dev/shm".as_ref(), plant);
    world.act(&acts());
    world.assert_commits();
}

#[test]
fn a_commit_of_large_files_that_is_killed_at_any_step_is_all_or_nothing() {
    let untouched = Facets {
        ctime: false,
        ..Facets::EXACT
    };
    let (mut undone, mut finished) = (0, 0);
    for stop in 0.. {
        let world = World::new(plant_linked);
        world.act(&acts()[4..7]);
        let before = TreeSnapshot::of(world.real());
        if world.commit_until(stop).is_none() {
            world.assert_same();
            break;
        }
        match world.resume(&[stop / 2, 3]) {
            Resumed::Finished(report) => {
                assert_eq!(report, Default::default(), "stopped before step {stop}");
                world.assert_same();
                finished += 1;
            }
            Resumed::Undone | Resumed::Nothing => {
                assert_same_tree(&before, &TreeSnapshot::of(world.real()), untouched);
                undone += 1;
            }
        }
    }
    assert!(undone > 0 && finished > 2, "{undone} and {finished}");
}

#[test]
fn a_large_file_that_changed_outside_is_a_conflict() {
    let world = World::new(plant);
    world.act(&acts()[..1]);
    let real = fs::File::options()
        .write(true)
        .open(world.real().join("appended"));
    real.unwrap().write_all_at(b"outside", 0).unwrap();
    let before = TreeSnapshot::of(world.real());
    match world.commit() {
        Err(CommitError::Conflicts(conflicts)) => {
            assert_eq!(conflicts.len(), 1);
            assert_eq!(conflicts[0].what, ConflictKind::Changed);
        }
        other => panic!("{other:?}"),
    }
    assert_same_tree(&before, &TreeSnapshot::of(world.real()), Facets::EXACT);
}

/// S6: to put back a part of it would move the time by which the view knows the rest.
#[test]
fn a_large_file_that_was_changed_in_part_is_not_taken_back() {
    let world = World::new(plant);
    world.act(&acts());
    if borrows_nothing(&world) {
        return skip("the file system shares blocks, so no object lacks any");
    }
    let in_apply = &mut |progress: Progress| match progress.activity {
        Activity::Apply if progress.done > 0 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    assert!(world.commit_with(None, in_apply).is_err());
    let undone = undo(&world.state(), &mut |_| ControlFlow::Continue(()));
    let Err(CommitError::Changed(conflicts)) = undone else {
        panic!("{undone:?}");
    };
    let was_kept = |conflict: &Conflict| conflict.what != ConflictKind::NotKept;
    assert!(!conflicts.iter().any(was_kept), "{conflicts:?}");
    assert_eq!(world.resume(&[]), Resumed::Finished(Default::default()));
    world.assert_same();
}

fn borrows_nothing(world: &World) -> bool {
    let map = world.map();
    map.nodes().all(|(_, node)| node.borrowed.is_none())
}
