//! A domain that goes on after its commit, killed in every window on the way.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use surmise_commit::{CommitError, ForgetError, Phase, Resumed, forget, pending, resume};
use surmise_testkit::{Facets, TreeSnapshot, assert_same_tree};

use crate::harness::{Act, World};

fn plant(root: &Path) {
    fs::write(root.join("a"), "first").unwrap();
    fs::write(root.join("b"), "second").unwrap();
    fs::create_dir_all(root.join("c/d")).unwrap();
    fs::write(root.join("c/d/e"), "deep").unwrap();
}

fn acts() -> Vec<Act> {
    vec![
        Act::Create("new".into()),
        Act::Write("new".into(), 0, b"new".to_vec()),
        Act::MakeDirectory("m".into()),
        Act::Rename("c/d".into(), "m/d".into()),
        Act::Write("a".into(), 2, b"through its inode".to_vec()),
        Act::Unlink("b".into()),
    ]
}

fn further_acts() -> Vec<Act> {
    vec![
        Act::Write("new".into(), 1, b"again".to_vec()),
        Act::Write("a".into(), 0, b"again".to_vec()),
        Act::Rename("m/d".into(), "c/d".into()),
        Act::Create("b".into()),
    ]
}

fn acted() -> World {
    let world = World::new(plant);
    world.act(&acts());
    world
}

/// What finishes the commit of a domain that nobody runs any more: nothing is left to do, and doing it
/// again does nothing.
#[track_caller]
fn assert_finished(world: &World) {
    let before = TreeSnapshot::of(world.real());
    for _ in 0..2 {
        let resumed = resume(&world.state(), &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(resumed, Resumed::Finished(Default::default()));
        assert_eq!(pending(&world.state()).unwrap(), Some(Phase::Done));
    }
    assert_same_tree(&before, &TreeSnapshot::of(world.real()), Facets::EXACT);
    world.assert_same();
}

/// S6.
#[test]
fn a_kill_before_the_rebase_leaves_a_commit_that_is_finished() {
    let world = acted();
    let view = world.view();
    view.prepare_commit().unwrap();
    world.commit().unwrap();
    drop(view);
    assert_eq!(world.lines().len(), 5);
    assert_finished(&world);
}

/// S6.
#[test]
fn a_kill_after_the_rebase_leaves_a_commit_that_is_finished() {
    let world = acted();
    let view = world.view();
    view.prepare_commit().unwrap();
    world.commit().unwrap();
    view.rebase().unwrap();
    drop(view);
    assert_eq!(world.lines(), [""; 0]);
    assert_finished(&world);
}

/// S6.
#[test]
fn a_kill_after_the_journal_is_forgotten_leaves_a_domain_without_changes() {
    let world = acted();
    let view = world.view();
    view.prepare_commit().unwrap();
    world.commit().unwrap();
    view.rebase().unwrap();
    forget(&world.state()).unwrap();
    drop(view);
    let before = TreeSnapshot::of(world.real());
    assert_eq!(pending(&world.state()).unwrap(), None);
    assert_eq!(world.resume(&[]), Resumed::Nothing);
    assert_eq!(world.lines(), [""; 0]);
    assert_eq!(world.commit().unwrap(), Default::default());
    assert_same_tree(&before, &TreeSnapshot::of(world.real()), Facets::EXACT);
    world.assert_same();
    // It goes on like any other.
    forget(&world.state()).unwrap();
    world.act(&further_acts());
    world.assert_commits();
}

/// S6: nothing is lost and nothing applied twice, wherever the commit of a running domain ends.
#[test]
fn a_kill_at_any_step_of_the_commit_is_all_or_nothing() {
    let (mut undone, mut finished) = (0, 0);
    for stop in 0.. {
        let world = acted();
        let view = world.view();
        let before = TreeSnapshot::of(world.real());
        view.prepare_commit().unwrap();
        if world.commit_until(stop).is_none() {
            break;
        }
        let phase = pending(&world.state()).unwrap();
        match (phase, forget(&world.state())) {
            (Some(phase), Err(ForgetError::Incomplete(told))) => assert_eq!(told, phase),
            other => panic!("{other:?}"),
        }
        drop(view);
        match world.resume(&[]) {
            Resumed::Finished(report) => {
                assert_eq!(report, Default::default());
                finished += 1;
            }
            Resumed::Undone | Resumed::Nothing => {
                let untouched = Facets {
                    ctime: false,
                    ..Facets::EXACT
                };
                assert_same_tree(&before, &TreeSnapshot::of(world.real()), untouched);
                assert_eq!(world.lines().len(), 5);
                world.commit().unwrap();
                undone += 1;
            }
        }
        assert_finished(&world);
    }
    assert!(
        undone > 5 && finished > 5,
        "{undone} undone, {finished} finished"
    );
}

/// A commit that is refused, or taken back, lets the view go on as it was.
#[test]
fn a_commit_that_is_taken_back_lets_the_domain_go_on() {
    let world = acted();
    let view = world.view();
    view.prepare_commit().unwrap();
    assert!(world.commit_until(3).is_some());
    assert_eq!(world.resume(&[]), Resumed::Undone);
    view.go_on().unwrap();
    fs::write(world.real().join("a"), "somebody else's").unwrap();
    view.prepare_commit().unwrap();
    let refused = world.commit();
    assert!(
        matches!(refused, Err(CommitError::Conflicts(_))),
        "{refused:?}"
    );
    view.go_on().unwrap();
    assert_eq!(world.lines().len(), 5);
    assert_eq!(pending(&world.state()).unwrap(), None);
}

/// S3: one commit after another is one plain run.
#[test]
fn one_view_is_committed_again_and_again() {
    let world = World::new(plant);
    let view = world.view();
    for acts in [acts(), further_acts(), acts()] {
        world.act_on(&view, &acts);
        view.prepare_commit().unwrap();
        assert_eq!(world.commit().unwrap(), Default::default());
        view.rebase().unwrap();
        forget(&world.state()).unwrap();
        view.go_on().unwrap();
        view.sweep().unwrap();
        world.assert_same();
    }
}

/// S7.
#[test]
fn a_directory_that_holds_the_state_outlives_a_commit_and_is_reported() {
    let world = World::new(|root| {
        plant(root);
        fs::create_dir_all(root.join("home/.local/state")).unwrap();
    });
    let kept = world.real().join("home/.local/state");
    world.act_on_view(&Act::RemoveDirectory("home/.local/state".into()));
    world.act_on_view(&Act::RemoveDirectory("home/.local".into()));
    let view = world.view();
    view.prepare_commit().unwrap();
    let report = world
        .commit_with(Some(&kept), &mut |_| ControlFlow::Continue(()))
        .unwrap();
    let paths: Vec<_> = report.kept.iter().map(|kept| kept.path.clone()).collect();
    assert_eq!(paths, [kept.clone(), world.real().join("home/.local")]);
    view.rebase().unwrap();
    forget(&world.state()).unwrap();
    view.go_on().unwrap();
    assert!(kept.is_dir());
    assert_eq!(world.lines(), [""; 0]);
}
