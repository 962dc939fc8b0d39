//! Full and read-only file systems: a clear error, and nothing half done.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Act, World};
use surmise_commit::{CommitError, ObstacleKind, pending};
use surmise_testkit::{Facets, TreeSnapshot, assert_same_tree, is_root, skip};

/// Tells the test's second process that its mounts are its own.
const INSIDE: &str = "SURMISE_TEST_OWN_MOUNTS";

const KIB: usize = 1 << 10;

fn plant(root: &Path) {
    fs::create_dir(root.join("d")).unwrap();
    fs::write(root.join("a"), vec![7; 300 * KIB]).unwrap();
    fs::write(root.join("b"), "b").unwrap();
}

/// Runs `test` where it may mount: once more, in a mount namespace of its own. Its argument is an empty
/// directory.
fn with_mounts(name: &str, test: impl Fn(&Path)) {
    if std::env::var_os(INSIDE).is_some() {
        let place = tempfile::tempdir().unwrap();
        return test(place.path());
    }
    if !is_root() {
        return skip("to mount takes root");
    }
    let mut words = Command::new("unshare");
    words.args(["--mount", "--propagation", "private"]);
    words.arg(std::env::current_exe().unwrap());
    words.args(["--exact", &format!("full::{name}")]);
    assert!(words.env(INSIDE, "1").status().unwrap().success());
}

struct Mount(PathBuf);

impl Mount {
    fn new(place: &Path, name: &str, options: &str) -> Self {
        let at = place.join(name);
        fs::create_dir(&at).unwrap();
        mount(&["-t", "tmpfs", "-o", options, "tmpfs"], &at);
        Self(at)
    }

    /// Leaves this much room.
    fn fill(&self, left: usize) -> PathBuf {
        let filler = self.0.join("filler");
        let free = rustix::fs::statvfs(&self.0).unwrap();
        let free = usize::try_from(free.f_bfree * free.f_frsize).unwrap();
        fs::write(&filler, vec![1; free - left]).unwrap();
        filler
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.0).status();
        assert!(unmounted.unwrap().success());
    }
}

fn mount(options: &[&str], at: &Path) {
    let mounted = Command::new("mount").args(options).arg(at).status();
    assert!(mounted.unwrap().success());
}

/// Expects that a commit fails as `is_wanted` says and changes nothing; returns when it can be made.
#[track_caller]
fn fails(world: &World, is_wanted: impl Fn(&CommitError) -> bool) {
    let before = TreeSnapshot::of(world.real());
    let error = world.commit().expect_err("a commit");
    assert!(is_wanted(&error), "{error:?}");
    let untouched = Facets {
        ctime: false,
        ..Facets::EXACT
    };
    assert_same_tree(&before, &TreeSnapshot::of(world.real()), untouched);
    assert_eq!(pending(&world.state()).unwrap(), None);
}

fn is_full(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::StorageFull
}

#[test]
fn a_full_target_is_told_before_anything_changes() {
    with_mounts("a_full_target_is_told_before_anything_changes", |place| {
        let target = Mount::new(place, "target", "size=4m");
        let world = World::between(&target.0, place, plant);
        world.act(&[Act::Create("new".into()), Act::Unlink("b".into())]);
        world.act_on_view(&Act::Write("new".into(), 0, vec![3; 400 * KIB]));
        let filler = target.fill(100 * KIB);
        fails(&world, |error| {
            let CommitError::Obstacles(obstacles) = error else {
                return false;
            };
            matches!(obstacles[..], [ref one] if matches!(one.why, ObstacleKind::NoSpace { .. }))
        });
        fs::remove_file(filler).unwrap();
        world.commit().expect("there is room");
        let length = fs::metadata(world.real().join("new")).unwrap().len();
        assert_eq!(length, 400 * KIB as u64);
    });
}

/// What no check foresees: the file system has bytes, and no inodes.
#[test]
fn a_target_that_is_full_while_new_data_are_written_gets_none_of_them() {
    let name = "a_target_that_is_full_while_new_data_are_written_gets_none_of_them";
    with_mounts(name, |place| {
        let target = Mount::new(place, "target", "size=4m,nr_inodes=20");
        let world = World::between(&target.0, place, plant);
        for number in 0..12 {
            world.act_on_view(&Act::Create(format!("d/{number}")));
        }
        world.act_on_view(&Act::Unlink("b".into()));
        fails(
            &world,
            |error| matches!(error, CommitError::Stage { source, .. } if is_full(source)),
        );
        mount(&["-o", "remount,nr_inodes=100"], &target.0);
        world.commit().expect("there is room");
        assert_eq!(fs::read_dir(world.real().join("d")).unwrap().count(), 12);
    });
}

#[test]
fn a_full_state_directory_changes_nothing_outside() {
    with_mounts("a_full_state_directory_changes_nothing_outside", |place| {
        let state = Mount::new(place, "state", "size=4m");
        let world = World::between(place, &state.0, plant);
        world.act(&[
            Act::Write("a".into(), 5, vec![9; 200 * KIB]),
            Act::Create("new".into()),
            Act::Rename("b".into(), "d/b".into()),
        ]);
        // No room for the journal; for the journal, and not for what is to be kept.
        for left in [0, 64 * KIB] {
            let filler = state.fill(left);
            fails(&world, |error| match error {
                CommitError::Journal(_) => left == 0,
                CommitError::Stage { source, .. } => left > 0 && is_full(source),
                _ => false,
            });
            fs::remove_file(filler).unwrap();
        }
        world.assert_commits();
    });
}

#[test]
fn a_target_that_is_read_only_by_then_is_told_before_anything_changes() {
    let name = "a_target_that_is_read_only_by_then_is_told_before_anything_changes";
    with_mounts(name, |place| {
        let target = Mount::new(place, "target", "size=4m");
        let world = World::between(&target.0, place, plant);
        world.act(&[
            Act::Write("a".into(), 5, b"changed".to_vec()),
            Act::Create("d/new".into()),
        ]);
        mount(&["-o", "remount,ro"], &target.0);
        fails(&world, |error| {
            let CommitError::Obstacles(obstacles) = error else {
                return false;
            };
            let mut whys = obstacles.iter().map(|obstacle| &obstacle.why);
            !obstacles.is_empty() && whys.all(|why| matches!(why, ObstacleKind::ReadOnly))
        });
        mount(&["-o", "remount,rw"], &target.0);
        world.assert_commits();
    });
}
