//! Commits that are taken back after their first visible change.

use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use crate::harness::{Act, World};
use surmise_commit::{Activity, CommitError, ConflictKind, Phase, Resumed, pending, resume, undo};
use surmise_testkit::{Facets, TreeSnapshot, assert_same_tree};

/// Of files that are copied whole on their first change.
const PART: u64 = 1 << 14;

fn plant(root: &Path) {
    for name in ["a", "b", "c", "moved"] {
        fs::write(root.join(name), format!("{name} as it was")).unwrap();
    }
    fs::hard_link(root.join("b"), root.join("b2")).unwrap();
    fs::create_dir_all(root.join("d/e")).unwrap();
    fs::write(root.join("d/f"), "f").unwrap();
    fs::write(root.join("d/e/g"), "g").unwrap();
    symlink("a", root.join("link")).unwrap();
    let holes = File::create(root.join("holes")).unwrap();
    holes.set_len(3 * PART).unwrap();
    holes.write_all_at(b"middle", PART).unwrap();
    fs::set_permissions(root.join("c"), PermissionsExt::from_mode(0o4755)).unwrap();
}

fn write(path: &str, at: u64, data: &str) -> Act {
    Act::Write(path.into(), at, data.into())
}

fn rename(from: &str, to: &str) -> Act {
    Act::Rename(from.into(), to.into())
}

/// Changes of every kind, and some that stand in each other's way.
fn acts() -> Vec<Act> {
    vec![
        Act::Create("new".into()),
        write("new", 0, "new"),
        Act::Link("new".into(), "d/new".into()),
        Act::MakeDirectory("m".into()),
        Act::MakeDirectory("m/n".into()),
        Act::Create("m/n/o".into()),
        Act::Chmod("m".into(), 0o2750),
        rename("d/e", "m/n/e"),
        rename("d", "m/d"),
        Act::Exchange("b".into(), "moved".into()),
        Act::Link("moved".into(), "m/again".into()),
        write("moved", 3, "through its inode"),
        Act::Unlink("a".into()),
        Act::Create("a.new".into()),
        write("a.new", 0, "saved by replacement"),
        rename("a.new", "a"),
        write("c", 0, "a set-id file"),
        Act::SetXattr("c".into(), "user.x".into(), Some(b"value".to_vec())),
        write("holes", 2 * PART, "more"),
        write("holes", PART, "MIDDLE"),
        write("holes", 5 * PART, "longer"),
        Act::SetModified("link".into(), 7),
        Act::Symlink("s".into(), "t".into()),
        Act::Fifo("p".into()),
    ]
}

fn acted() -> (World, TreeSnapshot) {
    let world = World::new(plant);
    world.act(&acts());
    let before = TreeSnapshot::of(world.real());
    (world, before)
}

/// S6.
#[test]
fn a_commit_that_is_killed_before_any_of_its_steps_can_be_taken_back() {
    let (mut undone, mut late) = (0, 0);
    for stop in 0.. {
        let (world, before) = acted();
        if world.commit_until(stop).is_none() {
            world.assert_same();
            break;
        }
        if pending(&world.state()).unwrap().is_none() {
            continue;
        }
        if world.undo(&[stop / 3, stop / 2]) {
            world.assert_undone(&before);
            world.assert_commits();
            undone += 1;
        } else {
            let resumed = world.resume(&[]);
            assert_eq!(resumed, Resumed::Finished(Default::default()));
            world.assert_same();
            late += 1;
        }
    }
    assert!(undone > 50 && late > 5, "{undone} undone, {late} too late");
}

/// S6.
#[test]
fn an_undo_that_is_killed_before_any_of_its_steps_is_finished_by_either_command() {
    let mut undone = [0; 2];
    for stop in 0.. {
        let (world, before) = acted();
        let last = &mut |progress| stop_at_the_last_edit(progress);
        assert!(matches!(
            world.commit_with(None, last),
            Err(CommitError::Stopped)
        ));
        let mut left = stop;
        let cut = undo(&world.state(), &mut |_| match left {
            0 => ControlFlow::Break(()),
            _ => {
                left -= 1;
                ControlFlow::Continue(())
            }
        });
        let by_commit = stop % 2;
        match cut {
            Ok(()) => break,
            Err(CommitError::Stopped) if by_commit == 1 => {
                assert_eq!(world.resume(&[stop / 2]), Resumed::Undone);
            }
            Err(CommitError::Stopped) => assert!(world.undo(&[stop / 2])),
            Err(error) => panic!("{error:?}"),
        }
        world.assert_undone(&before);
        world.assert_commits();
        undone[by_commit] += 1;
    }
    assert!(undone[0] > 10 && undone[1] > 10, "{undone:?}");
}

fn stop_at_the_last_edit(progress: surmise_commit::Progress) -> ControlFlow<()> {
    // Edits are the last steps before anything is removed, and directories are finished after that.
    match progress.activity == Activity::Apply && progress.done + 8 > progress.total {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

/// Cuts a commit short when all is applied and nothing is removed, lets `outside` act, and expects the
/// undo to name the conflicts, to do nothing, and to leave a commit that can be finished.
#[track_caller]
fn refuses(acts: &[Act], outside: impl Fn(&Path), wanted: &[(&str, ConflictKind)]) {
    let world = World::new(plant);
    world.act(acts);
    // The last step before the journal says that all is written is a pause after the last edit.
    let stop = last_stop_that_can_be_undone(acts);
    world.commit_until(stop).expect("cut short");
    assert_eq!(pending(&world.state()).unwrap(), Some(Phase::Applying));
    outside(&world.real());
    let before = TreeSnapshot::of(world.real());
    let mut never = |_| panic!("a step was taken");
    let Err(CommitError::Changed(found)) = undo(&world.state(), &mut never) else {
        panic!("no conflict")
    };
    world.assert_conflicts(found, wanted);
    assert_same_tree(&before, &TreeSnapshot::of(world.real()), Facets::EXACT);
    assert!(matches!(world.resume(&[]), Resumed::Finished(_)));
}

fn last_stop_that_can_be_undone(acts: &[Act]) -> usize {
    let can_be = |stop: &usize| {
        let world = World::new(plant);
        world.act(acts);
        world.commit_until(*stop).is_some() && {
            let phase = pending(&world.state()).unwrap();
            phase < Some(Phase::Applying) || world.undo(&[])
        }
    };
    (0..).take_while(can_be).last().expect("some stop")
}

/// S6.
#[test]
fn what_changed_outside_since_is_named_and_nothing_is_taken_back() {
    refuses(
        &[write("a", 0, "changed"), Act::Create("new".into())],
        |root| fs::write(root.join("a"), "somebody else's").unwrap(),
        &[("a", ConflictKind::Changed)],
    );
    refuses(
        &[write("a", 0, "changed"), Act::Create("new".into())],
        |root| fs::write(root.join("new"), "somebody else's").unwrap(),
        &[("new", ConflictKind::Changed)],
    );
    refuses(
        &[Act::Unlink("a".into()), Act::Create("new".into())],
        |root| fs::write(root.join("a"), "somebody else's").unwrap(),
        &[("a", ConflictKind::Created)],
    );
    refuses(
        &[Act::Create("x".into()), rename("x", "a")],
        |root| {
            fs::write(root.join("y"), "somebody else's").unwrap();
            fs::rename(root.join("y"), root.join("a")).unwrap();
        },
        &[("a", ConflictKind::Replaced)],
    );
    refuses(
        &[rename("a", "d/a")],
        |root| fs::remove_file(root.join("d/a")).unwrap(),
        &[("a", ConflictKind::Removed), ("d/a", ConflictKind::Removed)],
    );
    refuses(
        &[write("a", 0, "changed")],
        |root| fs::set_permissions(root.join("a"), PermissionsExt::from_mode(0o421)).unwrap(),
        &[("a", ConflictKind::Changed)],
    );
}

/// S6.
#[test]
fn what_somebody_put_into_a_directory_that_the_commit_made_is_kept() {
    let acts = [Act::MakeDirectory("m".into()), Act::Create("m/own".into())];
    refuses(
        &acts,
        |root| fs::write(root.join("m/other"), "somebody else's").unwrap(),
        &[("m/other", ConflictKind::CreatedInMade)],
    );
    refuses(
        &acts,
        |root| {
            fs::write(root.join("other"), "somebody else's").unwrap();
            fs::rename(root.join("other"), root.join("m/own")).unwrap();
        },
        &[("m/own", ConflictKind::Replaced)],
    );
    refuses(
        &acts,
        |root| fs::rename(root.join("m"), root.join("d/m")).unwrap(),
        &[("m", ConflictKind::DirectoryMoved)],
    );
}

/// S6: the domain's data are its own again.
#[test]
fn a_new_file_that_got_another_name_outside_is_not_shared_with_the_domain() {
    refuses(
        &[Act::Create("new".into()), write("new", 0, "data")],
        |root| fs::hard_link(root.join("new"), root.join("other")).unwrap(),
        &[("new", ConflictKind::Linked)],
    );
}

/// S6.
#[test]
fn a_new_file_that_was_removed_outside_needs_no_taking_back() {
    let acts = [Act::Create("new".into()), write("a", 0, "changed")];
    let world = World::new(plant);
    world.act(&acts);
    let before = TreeSnapshot::of(world.real());
    world
        .commit_until(last_stop_that_can_be_undone(&acts))
        .expect("cut short");
    fs::remove_file(world.real().join("new")).unwrap();
    assert!(world.undo(&[]));
    world.assert_undone(&before);
    world.assert_commits();
}

/// S6.
#[test]
fn a_name_that_was_given_back_outside_needs_no_taking_back() {
    let acts = [Act::Unlink("b".into())];
    let world = World::new(plant);
    world.act(&acts);
    let stop = last_stop_that_can_be_undone(&acts);
    world.commit_until(stop).expect("cut short");
    let root = world.real();
    fs::rename(root.join("b2"), root.join("b")).unwrap();
    assert!(world.undo(&[]));
    assert_eq!(fs::read(root.join("b")).unwrap(), b"b as it was");
    let names = fs::read_dir(&root).unwrap();
    let is_ours = |name: &str| name.starts_with(".surmise-") || name == "b2";
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!names.any(|name| is_ours(&name)));
}

/// S6: what an edit does not change stays as somebody else made it.
#[test]
fn only_what_differs_is_kept() {
    let plant = |root: &Path| {
        let big = File::create(root.join("big")).unwrap();
        big.set_len(48 * PART).unwrap();
        for at in [0, 24 * PART] {
            big.write_all_at(&vec![7; 4 * PART as usize], at).unwrap();
        }
    };
    let world = World::new(plant);
    world.act(&[
        write("big", PART, "changed"),
        Act::Truncate("big".into(), 25 * PART),
    ]);
    let before = TreeSnapshot::of(world.real());
    let mut kept = 0;
    let at_apply = &mut |progress: surmise_commit::Progress| match progress.activity
        == Activity::Apply
        && progress.done == progress.total
    {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    assert!(world.commit_with(None, at_apply).is_err());
    for entry in fs::read_dir(world.state().join("commit.undo")).unwrap() {
        kept += entry.unwrap().metadata().unwrap().blocks() * 512;
    }
    assert!((1..16 * PART).contains(&kept), "{kept} bytes");
    assert!(world.undo(&[1]));
    world.assert_undone(&before);
}

#[test]
fn without_a_commit_that_was_cut_short_there_is_nothing_to_undo() {
    let world = World::new(plant);
    world.act(&acts());
    let nothing = undo(&world.state(), &mut |_| ControlFlow::Continue(()));
    assert!(matches!(nothing, Err(CommitError::NothingToUndo)));
    world.assert_commits();
    let late = undo(&world.state(), &mut |_| ControlFlow::Continue(()));
    assert!(matches!(late, Err(CommitError::TooLate)), "{late:?}");
    let again = resume(&world.state(), &mut |_| ControlFlow::Continue(()));
    assert_eq!(again.unwrap(), Resumed::Finished(Default::default()));
}

/// What a commit that is killed before staging begins has written of its journal may end anywhere, and is no
/// journal; one that lacks anything is damaged, and nothing is done by it.
#[test]
fn a_commit_that_was_cut_short_before_it_began_has_never_been() {
    let world = World::new(plant);
    world.act(&acts());
    let at_stage = &mut |_: surmise_commit::Progress| ControlFlow::Break(());
    assert!(world.commit_with(None, at_stage).is_err());
    let path = world.state().join("commit");
    let whole = fs::read(&path).unwrap();
    let before = TreeSnapshot::of(world.real());
    let on_progress = &mut |_: surmise_commit::Progress| ControlFlow::Continue(());
    for end in (0..whole.len()).step_by(7).chain(0..100) {
        fs::write(&path, &whole[..end]).unwrap();
        let refused = [
            pending(&world.state()).map_err(CommitError::from).err(),
            undo(&world.state(), on_progress).err(),
            resume(&world.state(), on_progress).err(),
        ];
        for error in refused {
            assert!(error.is_some_and(|error| error.is_damage()), "{end} bytes");
        }
        assert_eq!(fs::read(&path).unwrap(), whole[..end]);
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(pending(&world.state()).unwrap(), Some(Phase::Staging));
    assert_eq!(world.resume(&[]), Resumed::Undone);
    fs::write(path.with_extension("new"), &whole[..whole.len() / 2]).unwrap();
    assert_eq!(pending(&world.state()).unwrap(), None);
    world.assert_undone(&before);
    world.assert_commits();
}

/// Without its pre-images an undo must not pretend.
#[test]
fn a_journal_whose_kept_data_are_damaged_is_not_taken_back() {
    let acts = [write("a", 0, "changed")];
    let world = World::new(plant);
    world.act(&acts);
    world
        .commit_until(last_stop_that_can_be_undone(&acts))
        .expect("cut short");
    let kept = world.state().join("commit.undo/0");
    let length = fs::metadata(&kept).unwrap().len();
    File::options()
        .write(true)
        .open(&kept)
        .and_then(|file| file.write_all_at(b"too much", length))
        .unwrap();
    let error = undo(&world.state(), &mut |_| ControlFlow::Continue(()));
    let Err(CommitError::Undo { source, .. }) = error else {
        panic!("{error:?}")
    };
    assert_eq!(source.kind(), io::ErrorKind::InvalidData);
    assert_eq!(world.resume(&[]), Resumed::Finished(Default::default()));
    world.assert_same();
}

/// S6: after a power loss the file system may not be mounted yet, or another one in its place.
#[test]
fn a_commit_whose_tree_is_not_there_is_neither_finished_nor_undone() {
    let world = World::new(plant);
    world.act(&acts());
    let before = TreeSnapshot::of(world.real());
    let is_applying = || pending(&world.state()).unwrap() == Some(Phase::Applying);
    let cut = world.commit_with(None, &mut |now| match now.activity {
        Activity::Apply if now.done > now.total / 2 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert!(matches!(cut, Err(CommitError::Stopped)) && is_applying());
    let away = world.real().with_extension("away");
    fs::rename(world.real(), &away).unwrap();
    fs::create_dir(world.real()).unwrap();

    let state = world.state();
    let resumed = resume(&state, &mut |_| ControlFlow::Continue(()));
    let undone = undo(&state, &mut |_| ControlFlow::Continue(()));
    for refused in [resumed.map(drop), undone] {
        let is_root = |path: &Path| path == world.real();
        assert!(
            matches!(&refused, Err(CommitError::Elsewhere(path)) if is_root(path)),
            "{refused:?}"
        );
    }
    assert!(is_applying());
    fs::remove_dir(world.real()).unwrap();
    fs::rename(&away, world.real()).unwrap();
    assert!(world.undo(&[]));
    world.assert_undone(&before);
    world.assert_commits();
}
