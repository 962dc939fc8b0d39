//! Conflicts that a person decides.

use std::fs;
use std::path::Path;

use crate::harness::{Act, World, plant_files};
use surmise_commit::{CommitError, ConflictKind, Reason, Winner};
use surmise_testkit::{Facets, TreeSnapshot, assert_same_tree};

fn write(path: &str) -> Act {
    Act::Write(path.into(), 0, b"ours".to_vec())
}

fn world(acts: &[Act], outside: impl Fn(&Path)) -> World {
    let world = World::new(plant_files);
    world.act(acts);
    outside(&world.real());
    world
}

fn text(world: &World, path: &str) -> Option<String> {
    fs::read_to_string(world.real().join(path)).ok()
}

/// The texts of some paths after a commit in which `winner` has everything.
#[track_caller]
fn settles<const N: usize>(
    winner: Winner,
    acts: &[Act],
    outside: impl Fn(&Path),
    wanted: [(&str, Option<&str>); N],
) {
    let world = world(acts, outside);
    assert!(matches!(world.commit(), Err(CommitError::Conflicts(_))));
    let report = world.commit_for(winner, &[""]);
    assert_eq!(report.expect("settled"), Default::default());
    for (path, wanted) in wanted {
        assert_eq!(text(&world, path).as_deref(), wanted, "{path}");
    }
}

fn theirs(path: &'static str) -> impl Fn(&Path) {
    move |root| fs::write(root.join(path), "theirs").unwrap()
}

/// S5.
#[test]
fn the_domains_version_wins_where_it_is_told_to() {
    let acts = [write("a"), Act::Create("x".into()), write("x")];
    settles(
        Winner::Ours,
        &acts,
        |root| {
            theirs("a")(root);
            theirs("x")(root);
        },
        [("a", Some("ours")), ("x", Some("ours"))],
    );
    let acts = [
        Act::Unlink("a".into()),
        Act::Rename("b".into(), "d/b".into()),
        Act::Create("n".into()),
        write("n"),
        Act::Rename("n".into(), "c".into()),
    ];
    settles(
        Winner::Ours,
        &acts,
        |root| {
            theirs("a")(root);
            theirs("b")(root);
            theirs("n")(root);
            fs::rename(root.join("n"), root.join("c")).unwrap();
        },
        [
            ("a", None),
            ("b", None),
            ("d/b", Some("theirs")),
            ("c", Some("ours")),
        ],
    );
}

/// S5.
#[test]
fn what_is_outside_stays_where_it_is_told_to() {
    let acts = [write("a"), write("b"), Act::Unlink("c".into())];
    settles(
        Winner::Theirs,
        &acts,
        |root| {
            theirs("a")(root);
            theirs("c")(root);
        },
        [
            ("a", Some("theirs")),
            ("b", Some("ours")),
            ("c", Some("theirs")),
        ],
    );
}

/// S5: a move is made whole or not at all, and nothing is lost with a directory that is not made.
#[test]
fn what_cannot_be_without_a_change_that_is_left_out_is_left_out_with_it() {
    let acts = [
        Act::Rename("a".into(), "n".into()),
        Act::Rename("b".into(), "a".into()),
        Act::Create("b".into()),
    ];
    settles(
        Winner::Theirs,
        &acts,
        theirs("a"),
        [("a", Some("theirs")), ("b", Some("b")), ("n", None)],
    );
    let acts = [
        Act::MakeDirectory("new".into()),
        Act::Rename("d".into(), "new/d".into()),
    ];
    settles(
        Winner::Theirs,
        &acts,
        theirs("new"),
        [("new", Some("theirs")), ("d/e/g", Some("g"))],
    );
    let acts = [
        Act::Unlink("d/e/g".into()),
        Act::RemoveDirectory("d/e".into()),
        Act::Unlink("d/f".into()),
        Act::RemoveDirectory("d".into()),
    ];
    settles(
        Winner::Theirs,
        &acts,
        theirs("d/e/g"),
        [("d/e/g", Some("theirs")), ("d/f", None)],
    );
    settles(
        Winner::Theirs,
        &[write("d/e/g"), write("a")],
        |root| fs::rename(root.join("d"), root.join("elsewhere")).unwrap(),
        [("elsewhere/e/g", Some("g")), ("a", Some("ours"))],
    );
}

/// S5: the file of a further name is not looked for where a directory was moved away; that is told.
#[test]
fn a_further_name_of_what_moved_away_with_its_directory_is_not_given() {
    let acts = [
        Act::Unlink("a".into()),
        Act::Link("d/f".into(), "a".into()),
        write("b"),
    ];
    let world = world(&acts, |root| {
        fs::rename(root.join("d"), root.join("elsewhere")).unwrap();
    });
    let report = world.commit_for(Winner::Theirs, &["d"]).expect("settled");
    let left: Vec<_> = report.left.iter().map(|left| left.reason).collect();
    assert_eq!(left, [Reason::Gone]);
    assert!(report.left[0].path.ends_with("a"), "{report:?}");
    for (path, wanted) in [("a", "a"), ("b", "ours"), ("elsewhere/f", "f")] {
        assert_eq!(text(&world, path).as_deref(), Some(wanted), "{path}");
    }
}

/// S5: the nearest choice counts, and a conflict without one stops the commit.
#[test]
fn conflicts_that_nobody_decided_remain() {
    let acts = [write("a"), write("d/f"), write("d/e/g")];
    let outside = |root: &Path| {
        for path in ["a", "d/f", "d/e/g"] {
            theirs(path)(root);
        }
    };
    let world = world(&acts, outside);
    let before = TreeSnapshot::of(world.real());
    let failed = world.commit_for(Winner::Theirs, &["d"]);
    let Err(CommitError::Conflicts(left)) = failed else {
        panic!("{failed:?}")
    };
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].path.ends_with("a"));
    let failed = world.commit_for(Winner::Ours, &["d", "b"]);
    let Err(CommitError::NoConflict(path)) = failed else {
        panic!("{failed:?}")
    };
    assert!(path.ends_with("b"));
    assert_same_tree(&before, &TreeSnapshot::of(world.real()), Facets::EXACT);
    world
        .commit_for(Winner::Ours, &["d", "a"])
        .expect("all decided");
    assert_eq!(text(&world, "d/e/g").as_deref(), Some("ours"));
}

/// What was done inside, and outside, and the conflict.
type Case<'c> = (&'c [Act], fn(&Path), ConflictKind);

/// S5: a change of something that is gone cannot win.
#[test]
fn what_the_domain_has_no_version_of_cannot_be_forced() {
    let cases: [Case<'_>; 3] = [
        (
            &[Act::Chmod("a".into(), 0o600)],
            |root| fs::remove_file(root.join("a")).unwrap(),
            ConflictKind::Removed,
        ),
        (
            &[Act::Rename("a".into(), "n".into())],
            |root| {
                fs::write(root.join("other"), "theirs").unwrap();
                fs::rename(root.join("other"), root.join("a")).unwrap();
            },
            ConflictKind::Replaced,
        ),
        (
            &[write("d/f")],
            |root| fs::rename(root.join("d"), root.join("elsewhere")).unwrap(),
            ConflictKind::DirectoryMoved,
        ),
    ];
    for (acts, outside, what) in cases {
        let world = world(acts, outside);
        let before = TreeSnapshot::of(world.real());
        let failed = world.commit_for(Winner::Ours, &[""]);
        let Err(CommitError::Unforceable(stuck)) = failed else {
            panic!("{failed:?}")
        };
        assert!(
            stuck.iter().all(|conflict| conflict.what == what),
            "{stuck:?}"
        );
        assert_same_tree(&before, &TreeSnapshot::of(world.real()), Facets::EXACT);
    }
}
