//! Files that are flagged immutable when a commit is to change them: what the hint says works, and takes
//! nobody's change for the removal of the flag.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::harness::{Act, World, plant_files};
use surmise_commit::{CommitError, ConflictKind, ObstacleKind};
use surmise_testkit::{is_root, skip};

/// A file of which the domain keeps a part.
const LARGE: usize = 3 << 20;

/// Sets or takes away a flag; false where the file system knows none.
fn flag(how: &str, path: &Path) -> bool {
    let status = Command::new("chattr").arg(how).arg(path).status();
    status.is_ok_and(|status| status.success())
}

/// Plants files, flags them, changes them in the view, and expects the commit to be refused for the flags.
/// `None` where nothing can be flagged.
fn refused() -> Option<World> {
    if !is_root() {
        skip("to make a file immutable takes root");
        return None;
    }
    let world = World::new(|root| {
        plant_files(root);
        fs::write(root.join("large"), vec![7; LARGE]).unwrap();
    });
    let real = world.real();
    let acts = [
        Act::Write("a".into(), 0, b"changed".to_vec()),
        Act::Unlink("b".into()),
        Act::Write("large".into(), 9, b"changed".to_vec()),
    ];
    for name in ["a", "b", "large"] {
        if !flag("+i", &real.join(name)) {
            skip("this file system knows no immutable files");
            return None;
        }
    }
    world.act(&acts);
    refuses(&world);
    Some(world)
}

#[track_caller]
fn refuses(world: &World) {
    let Err(CommitError::Obstacles(obstacles)) = world.commit() else {
        unflag(world);
        panic!("not refused");
    };
    let mut kinds = obstacles.iter().map(|obstacle| &obstacle.why);
    let is_flagged = kinds.all(|why| matches!(why, ObstacleKind::Immutable));
    if !is_flagged || obstacles.len() != 3 {
        unflag(world);
        panic!("{obstacles:?}");
    }
}

fn unflag(world: &World) {
    for name in ["a", "b", "large"] {
        assert!(flag("-i", &world.real().join(name)));
    }
}

#[test]
fn the_removal_of_a_flag_is_no_conflict() {
    let Some(world) = refused() else { return };
    unflag(&world);
    // It may come and go.
    for name in ["a", "b", "large"] {
        assert!(flag("+i", &world.real().join(name)));
    }
    refuses(&world);
    unflag(&world);
    world.assert_commits();
}

#[test]
fn what_changed_beside_the_flag_is_a_conflict_though_its_times_were_put_back() {
    let Some(world) = refused() else { return };
    unflag(&world);
    let real = world.real();
    let path = real.join("large");
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    let mut data = fs::read(&path).unwrap();
    data[LARGE - 1] ^= 1;
    fs::write(&path, data).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(before).unwrap();
    let mode = fs::Permissions::from_mode(0o601);
    fs::set_permissions(real.join("b"), mode).unwrap();
    let Err(CommitError::Conflicts(found)) = world.commit() else {
        panic!("no conflict")
    };
    let wanted = [
        ("b", ConflictKind::Changed),
        ("large", ConflictKind::Changed),
    ];
    world.assert_conflicts(found, &wanted);
}
