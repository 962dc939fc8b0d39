//! Commits that must not happen: each tells why and leaves everything as it was.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::harness::{Act, World, plant_files};
use surmise_commit::{
    Activity, CommitError, ConflictKind, ObstacleKind, Phase, Reason, Resumed, finish_kept, pending,
};
use surmise_testkit::{Facets, TreeSnapshot, assert_same_tree};

fn write(path: &str) -> Act {
    Act::Write(path.into(), 0, b"changed".to_vec())
}

/// Acts in the view, then outside, and expects the commit to name the conflicts and touch nothing.
#[track_caller]
fn conflicts(acts: &[Act], outside: impl Fn(&Path), wanted: &[(&str, ConflictKind)]) {
    let world = World::new(plant_files);
    world.act(acts);
    outside(&world.real());
    let before = TreeSnapshot::of(world.real());
    let Err(CommitError::Conflicts(found)) = world.commit() else {
        panic!("no conflict")
    };
    world.assert_conflicts(found, wanted);
    assert_same_tree(&before, &TreeSnapshot::of(world.real()), Facets::EXACT);
    assert_eq!(pending(&world.state()).unwrap(), None);
}

#[test]
fn a_changed_file_that_changed_outside_is_a_conflict() {
    conflicts(
        &[write("a")],
        |root| fs::write(root.join("a"), "other").unwrap(),
        &[("a", ConflictKind::Changed)],
    );
    conflicts(
        &[Act::Chmod("a".into(), 0o600)],
        |root| fs::remove_file(root.join("a")).unwrap(),
        &[("a", ConflictKind::Removed)],
    );
}

#[test]
fn a_removed_or_moved_file_that_changed_outside_is_a_conflict() {
    conflicts(
        &[
            Act::Unlink("a".into()),
            Act::Rename("b".into(), "d/b".into()),
        ],
        |root| {
            fs::write(root.join("a"), "other").unwrap();
            fs::write(root.join("x"), "x").unwrap();
            fs::rename(root.join("x"), root.join("b")).unwrap();
        },
        &[("a", ConflictKind::Changed), ("b", ConflictKind::Replaced)],
    );
}

#[test]
fn a_new_name_that_is_taken_outside_is_a_conflict() {
    conflicts(
        &[
            Act::Create("new".into()),
            Act::Rename("c".into(), "d/c".into()),
        ],
        |root| {
            fs::write(root.join("new"), "").unwrap();
            fs::create_dir(root.join("d/c")).unwrap();
        },
        &[
            ("d/c", ConflictKind::Created),
            ("new", ConflictKind::Created),
        ],
    );
}

#[test]
fn a_removed_directory_that_got_something_outside_is_a_conflict() {
    let acts = [
        Act::Unlink("d/f".into()),
        Act::Unlink("d/e/g".into()),
        Act::RemoveDirectory("d/e".into()),
        Act::RemoveDirectory("d".into()),
    ];
    conflicts(
        &acts,
        |root| fs::write(root.join("d/e/new"), "").unwrap(),
        &[("d/e/new", ConflictKind::CreatedInRemoved)],
    );
}

#[test]
fn a_directory_that_became_a_link_outside_is_never_followed() {
    conflicts(
        &[write("d/e/g"), Act::Create("d/e/h".into())],
        |root| {
            fs::rename(root.join("d"), root.join("moved")).unwrap();
            symlink("moved", root.join("d")).unwrap();
        },
        &[
            ("d", ConflictKind::DirectoryMoved),
            ("d/e", ConflictKind::DirectoryMoved),
        ],
    );
}

#[test]
fn what_the_domain_did_not_touch_may_change_outside() {
    let world = World::new(plant_files);
    world.act(&[write("a"), Act::Create("d/new".into())]);
    for root in [world.real(), world.copy()] {
        fs::write(root.join("b"), "other").unwrap();
        fs::write(root.join("d/other"), "other").unwrap();
    }
    world.commit().unwrap();
    assert_same_tree(
        &TreeSnapshot::of(world.copy()),
        &TreeSnapshot::of(world.real()),
        Facets::SAME_RESULT,
    );
}

#[test]
fn a_conflict_while_staging_takes_the_stage_back() {
    let world = World::new(plant_files);
    world.act(&[
        Act::MakeDirectory("m".into()),
        Act::Create("m/new".into()),
        Act::Chmod("m/new".into(), 0o4111),
        Act::Chmod("m".into(), 0o555),
        Act::Unlink("a".into()),
    ]);
    let before = TreeSnapshot::of(world.real());
    let mut is_changed = false;
    let failed = world.commit_with(None, &mut |progress| {
        if progress.activity == Activity::Stage && !is_changed && progress.done == progress.total {
            is_changed = true;
            let file = fs::File::options().write(true).open(world.real().join("a"));
            file.unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        }
        ControlFlow::Continue(())
    });
    assert!(
        matches!(failed, Err(CommitError::Conflicts(_))),
        "{failed:?}"
    );
    let after = TreeSnapshot::of(world.real());
    assert_eq!(after.entry("").mtime_ns, before.entry("").mtime_ns);
    assert_eq!(after.entries().len(), before.entries().len());
    assert_eq!(pending(&world.state()).unwrap(), None);
    crate::harness::each_path(&world.state().join("objects"), &mut |path| {
        if path.is_file() {
            use std::os::unix::fs::MetadataExt;
            assert_eq!(fs::metadata(path).unwrap().mode() & 0o7777, 0o600);
        }
    });
}

#[test]
fn a_newcomer_that_beats_the_apply_stays_and_is_reported() {
    let world = World::new(plant_files);
    world.act(&[
        Act::Create("new".into()),
        write("new"),
        Act::Unlink("a".into()),
        Act::Unlink("d/f".into()),
        Act::Unlink("d/e/g".into()),
        Act::RemoveDirectory("d/e".into()),
        Act::RemoveDirectory("d".into()),
        Act::Rename("b".into(), "b2".into()),
    ]);
    let mut is_changed = false;
    let report = world.commit_with(None, &mut |progress| {
        if progress.activity == Activity::Apply && !is_changed {
            is_changed = true;
            for (path, data) in [
                ("new", "theirs"),
                ("a", "theirs"),
                ("d/x", "x"),
                ("b2", "x"),
            ] {
                fs::write(world.real().join(path), data).unwrap();
            }
        }
        ControlFlow::Continue(())
    });
    let left = report.unwrap().left;
    let mut reasons: Vec<_> = left
        .iter()
        .map(|left| (left.path.strip_prefix(world.real()).unwrap(), left.reason))
        .collect();
    let (own, _) = *reasons
        .iter()
        .find(|(_, reason)| *reason == Reason::Own)
        .unwrap();
    reasons.sort_by_key(|(path, _)| path.to_owned());
    let mut wanted = [
        (own, Reason::Own),
        (Path::new("a"), Reason::Changed),
        (Path::new("b2"), Reason::Occupied),
        (Path::new("d"), Reason::NotEmpty),
        (Path::new("new"), Reason::Occupied),
    ];
    wanted.sort_by_key(|(path, _)| path.to_owned());
    assert_eq!(reasons, wanted);
    let read = |path: &Path| fs::read_to_string(world.real().join(path)).unwrap();
    assert_eq!(read(Path::new("new")), "theirs");
    assert_eq!(read(Path::new("a")), "theirs");
    assert_eq!(read(Path::new("b")), "b");
    assert_eq!(read(Path::new("d/x")), "x");
    assert_eq!(read(own), "changed");
}

#[test]
fn a_second_commit_is_refused_until_the_first_is_resumed() {
    let world = World::new(plant_files);
    world.act(&[write("a"), Act::Unlink("b".into())]);
    world.commit_until(6).unwrap();
    assert!(matches!(world.commit(), Err(CommitError::UnderWay)));
    assert_eq!(pending(&world.state()).unwrap(), Some(Phase::Applying));
    world.resume(&[]);
    world.assert_same();
}

#[test]
fn the_home_of_the_state_directory_is_kept_until_that_is_gone() {
    let world = World::new(plant_files);
    let state_root = world.real().join("home/.local/state");
    fs::create_dir_all(&state_root).unwrap();
    for root in [world.real(), world.copy()] {
        fs::create_dir_all(root.join("home/.local/state")).unwrap();
        fs::write(root.join("home/file"), "").unwrap();
    }
    // The view of a domain whose state is in `surmise` does not show it.
    world.act(&[
        Act::Unlink("home/file".into()),
        Act::RemoveDirectory("home/.local/state".into()),
        Act::RemoveDirectory("home/.local".into()),
        Act::RemoveDirectory("home".into()),
    ]);
    let surmise = state_root.join("surmise");
    fs::create_dir(&surmise).unwrap();
    let report = world
        .commit_with(Some(&surmise), &mut |_| ControlFlow::Continue(()))
        .unwrap();
    assert_eq!(report.left, []);
    let kept: Vec<_> = report.kept.iter().map(|kept| kept.path.as_path()).collect();
    let home = world.real().join("home");
    assert_eq!(kept, [&*state_root, &home.join(".local"), &home]);
    assert!(!home.join("file").exists());
    assert_eq!(finish_kept(&report.kept).unwrap(), report.kept);
    fs::remove_dir(&surmise).unwrap();
    assert_eq!(finish_kept(&report.kept).unwrap(), []);
    assert!(!home.exists());
}

#[test]
fn the_state_directory_does_not_move() {
    let world = World::new(plant_files);
    world.act(&[Act::Rename("d".into(), "elsewhere".into())]);
    let keep = world.real().join("d/e");
    let failed = world.commit_with(Some(&keep), &mut |_| ControlFlow::Continue(()));
    let Err(CommitError::Obstacles(obstacles)) = failed else {
        panic!("{failed:?}")
    };
    assert!(
        matches!(obstacles[0].why, ObstacleKind::HoldsState),
        "{obstacles:?}"
    );
    assert!(world.real().join("d/e/g").exists());
}

#[test]
fn a_program_that_runs_outside_is_in_the_way_before_anything_changes() {
    let world = World::new(|root| {
        plant_files(root);
        // By another process: a descriptor open for writing here could be in a child of another test
        // while the program is started.
        let copied = std::process::Command::new("cp")
            .arg("/bin/sleep")
            .arg(root.join("program"))
            .status();
        assert!(copied.unwrap().success());
    });
    let mut running = std::process::Command::new(world.real().join("program"))
        .arg("60")
        .spawn()
        .unwrap();
    world.act(&[write("program"), Act::Unlink("a".into())]);
    let failed = world.commit();
    running.kill().unwrap();
    running.wait().unwrap();
    let Err(CommitError::Obstacles(obstacles)) = failed else {
        panic!("{failed:?}")
    };
    assert!(
        matches!(obstacles[..], [ref one] if matches!(one.why, ObstacleKind::Busy)),
        "{obstacles:?}"
    );
    assert!(world.real().join("a").exists());
    world.assert_commits();
}

#[test]
fn attributes_without_room_are_in_the_way_before_anything_changes() {
    let world = World::new(plant_files);
    let value = Some(vec![7; 60_000]);
    let too_large = Act::SetXattr("a".into(), "user.large".into(), value);
    if crate::harness::real_takes(&world.copy(), &too_large) {
        // This file system has room; nothing to show.
        return;
    }
    world.act_on_view(&too_large);
    world.act(&[Act::Unlink("b".into())]);
    let failed = world.commit();
    let Err(CommitError::Obstacles(obstacles)) = failed else {
        panic!("{failed:?}")
    };
    assert!(
        matches!(obstacles[..], [ref one] if matches!(one.why, ObstacleKind::Xattrs(_))),
        "{obstacles:?}"
    );
    assert!(world.real().join("b").exists());
}

#[test]
fn what_something_was_mounted_on_is_in_the_way_before_anything_changes() {
    const INSIDE: &str = "SURMISE_TEST_OWN_MOUNTS";
    if std::env::var_os(INSIDE).is_none() {
        if rustix::process::geteuid().is_root() {
            // Once more, where mounts are its own.
            let mut words = std::process::Command::new("unshare");
            words.args(["--mount", "--propagation", "private"]);
            words.arg(std::env::current_exe().unwrap());
            words.arg("what_something_was_mounted_on_is_in_the_way");
            assert!(words.env(INSIDE, "1").status().unwrap().success());
        }
        return;
    }
    let world = World::new(plant_files);
    world.act(&[write("b"), Act::Unlink("a".into())]);
    let mounted = world.real().join("a");
    let mut mount = std::process::Command::new("mount");
    mount.arg("--bind").arg(&mounted).arg(&mounted);
    assert!(mount.status().unwrap().success());
    let failed = world.commit();
    let mut umount = std::process::Command::new("umount");
    assert!(umount.arg(&mounted).status().unwrap().success());
    let Err(CommitError::Obstacles(obstacles)) = failed else {
        panic!("{failed:?}")
    };
    assert!(
        matches!(obstacles[..], [ref one] if matches!(one.why, ObstacleKind::MountPoint)),
        "{obstacles:?}"
    );
    world.assert_commits();
}

#[test]
fn a_stage_whose_directory_moved_away_outside_can_be_taken_back() {
    let world = World::new(plant_files);
    world.act(&[Act::Create("d/e/new".into()), write("a")]);
    let before = fs::read_dir(world.real()).unwrap().count();
    world.commit_until(1).unwrap();
    fs::remove_dir_all(world.real().join("d/e")).unwrap();
    assert_eq!(world.resume(&[]), Resumed::Undone);
    assert_eq!(pending(&world.state()).unwrap(), None);
    assert_eq!(fs::read_dir(world.real()).unwrap().count(), before);
    let again = world.commit();
    assert!(matches!(again, Err(CommitError::Conflicts(_))), "{again:?}");
}

#[test]
fn a_file_of_holes_needs_no_space() {
    let world = World::new(plant_files);
    world.act(&[Act::Truncate("a".into(), 1 << 26)]);
    world.assert_commits();
}

#[test]
fn an_object_that_somebody_still_writes_to_does_not_become_the_real_file() {
    let world = World::new(plant_files);
    world.act(&[
        Act::Create("new".into()),
        Act::Write("new".into(), 0, b"made inside".to_vec()),
    ]);
    let map = world.map();
    let object = map.nodes().find_map(|(_, node)| node.object).unwrap();
    let path = surmise_view::ObjectStore::at(&world.state()).path(object);
    let late = fs::File::options().write(true).open(path).unwrap();
    world.commit().unwrap();
    std::os::unix::fs::FileExt::write_all_at(&late, b"MADE", 0).unwrap();
    let real = fs::read(world.real().join("new")).unwrap();
    assert_eq!(real, b"made inside");
}
