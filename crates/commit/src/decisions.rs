//! What a commit decides, tried on trees in memory: the plan, the check, and the choices.

use std::collections::HashSet;
use std::path::Path;

use proptest::prelude::*;
use surmise_changes::Settled;
use surmise_twins::model::{Act, Domain, Shape, Shown, Tree, acts};
use surmise_view::{FileKind, InodeKey};

use crate::check::{Comparison, Findings};
use crate::choice::{Choice, Winner, settle};
use crate::error::{CommitError, Conflict};
use crate::outside::Outside;
use crate::plan::{Checks, Plan};
use crate::site::Site;

fn keep() -> HashSet<InodeKey> {
    HashSet::new()
}

/// What a commit comes to.
#[derive(Debug)]
enum Outcome {
    /// The tree after it.
    Committed(Tree),
    /// Nothing is done.
    Conflicts(Vec<Conflict>),
    /// A file that is to get another name is no longer where it was. The check looks at no such file; the
    /// commit does what is left of the plan, and tells of the name.
    LeftInPart,
}

/// Decides about a commit with these choices on what is outside now, and goes on deciding as long as
/// there is something to decide.
fn commit(domain: &Domain, outside: &Tree, choices: &[Choice]) -> Outcome {
    let keep = keep();
    let mut settled: Option<Settled> = None;
    for _ in 0..16 {
        let before = settled.clone();
        let (plan, checks) = Plan::of(&domain.map, ".t-", &keep, before.as_ref()).unwrap();
        let site = Site::new(&plan, outside.inside());
        let seen = site.outside(&checks);
        let comparison = compare(&plan, &checks, &seen, &keep);
        let Findings { conflicts, .. } = comparison.findings();
        if conflicts.is_empty() {
            return match site.has_all_sources() {
                true => Outcome::Committed(site.take_all()),
                false => Outcome::LeftInPart,
            };
        }
        match settle(&domain.map, &comparison, (choices, &[]), before.as_ref()) {
            Ok(Some(more)) => settled = Some(more),
            Ok(None) => return Outcome::Conflicts(conflicts),
            Err(CommitError::Unforceable(stuck)) => return Outcome::Conflicts(stuck),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("there is always more to decide");
}

fn compare<'c, 'm>(
    plan: &'c Plan,
    checks: &'c Checks<'m>,
    outside: &'c Outside,
    keep: &'c HashSet<InodeKey>,
) -> Comparison<'c, 'm> {
    Comparison {
        plan,
        checks,
        outside,
        root: Path::new("/"),
        keep,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// The plan's steps, each of which finds what it expects, make the real tree what the domain saw.
    #[test]
    fn a_plan_makes_the_tree_what_the_domain_saw(done in acts(24)) {
        let real = Tree::planted();
        let domain = Domain::after(&real, &done);
        let Outcome::Committed(tree) = commit(&domain, &real, &[]) else {
            panic!("nobody changed anything outside");
        };
        prop_assert_eq!(tree.shape(), domain.seen.shape());
    }

    /// Where the check finds no conflict, every step of the plan finds what it expects, whatever somebody
    /// did outside, and what they did outside is still there.
    #[test]
    fn without_a_conflict_every_step_finds_what_it_expects(
        done in acts(12),
        meanwhile in acts(4),
    ) {
        let real = Tree::planted();
        let domain = Domain::after(&real, &done);
        let outside = real.changed_by(&meanwhile);
        let before = outside.shape();
        let Outcome::Committed(committed) = commit(&domain, &outside, &[]) else {
            return Ok(());
        };
        let (unchanged, committed) = (real.shape(), committed.shape());
        let theirs = before.iter().filter(|(path, what)| {
            // The mode of a directory that the domain removes is nobody's data.
            let is_new = !unchanged.values().any(|other| other.2 == what.2);
            (is_new || what.0 == FileKind::Regular) && unchanged.get(*path) != Some(*what)
        });
        for (path, what) in theirs {
            let is_there = committed.values().any(|other| other.2 == what.2);
            prop_assert!(is_there, "{path}: {what:?} is gone");
        }
    }

    /// A person who leaves all to what is outside gets a commit, and what was at a path with a conflict is
    /// still there, if in a directory that the domain moved. No file is lost that both still have.
    #[test]
    fn conflicts_left_to_what_is_outside_are_settled(done in acts(12), meanwhile in acts(4)) {
        let real = Tree::planted();
        let domain = Domain::after(&real, &done);
        let outside = real.changed_by(&meanwhile);
        let Outcome::Conflicts(conflicts) = commit(&domain, &outside, &[]) else {
            return Ok(());
        };
        let theirs = Choice {
            path: "/".into(),
            winner: Winner::Theirs,
        };
        let before = outside.shape();
        let after = match commit(&domain, &outside, &[theirs]) {
            Outcome::Committed(tree) => tree.shape(),
            Outcome::Conflicts(left) => panic!("{left:?} are not settled"),
            Outcome::LeftInPart => return Ok(()),
        };
        for Conflict { path, .. } in conflicts {
            let path = path.display().to_string();
            match before.get(&path) {
                Some(what) => prop_assert!(after.values().any(|now| now == what), "{path}"),
                None => prop_assert_eq!(after.get(&path), None, "{}", path),
            }
        }
        let has = |tree: &Shape, which: &String| tree.values().any(|other| other.2 == *which);
        for (path, (_, _, which)) in &before {
            let is_kept = has(&domain.seen.shape(), which);
            prop_assert!(!is_kept || has(&after, which), "{path} is gone");
        }
    }

    /// The domain's version is had of all conflicts, or it is said of which it cannot be.
    #[test]
    fn conflicts_won_by_the_domain_are_settled_or_told(done in acts(12), meanwhile in acts(4)) {
        let real = Tree::planted();
        let domain = Domain::after(&real, &done);
        let outside = real.changed_by(&meanwhile);
        let Outcome::Conflicts(conflicts) = commit(&domain, &outside, &[]) else {
            return Ok(());
        };
        let ours = Choice {
            path: "/".into(),
            winner: Winner::Ours,
        };
        match commit(&domain, &outside, &[ours]) {
            Outcome::Conflicts(stuck) => prop_assert!(!stuck.is_empty()),
            Outcome::LeftInPart => {}
            Outcome::Committed(committed) => {
                let (seen, after) = (domain.seen.shape(), committed.shape());
                for Conflict { path, .. } in conflicts {
                    let path = path.display().to_string();
                    let kind = |found: Option<&Shown>| found.map(|found| found.0);
                    prop_assert_eq!(kind(seen.get(&path)), kind(after.get(&path)), "{}", path);
                }
            }
        }
    }
}

/// A file that somebody changed outside is a conflict for whoever replaces or edits it, and none for
/// others.
#[test]
fn a_change_outside_is_a_conflict_for_those_that_change_the_same() {
    let real = Tree::planted();
    let mut outside = real.clone();
    assert!(outside.act(&Act::Chmod("c/a".into(), 0o600)));
    let conflicts = |act: Act| {
        let domain = Domain::after(&real, &[act]);
        match commit(&domain, &outside, &[]) {
            Outcome::Conflicts(conflicts) => conflicts.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        }
    };
    let changed = ["/c/a: changed outside"];
    assert_eq!(conflicts(Act::Remove("c/a".into())), changed);
    assert_eq!(conflicts(Act::Rename("c/b".into(), "c/a".into())), changed);
    assert_eq!(conflicts(Act::Chmod("c/a".into(), 0o600)), changed);
    assert_eq!(conflicts(Act::Remove("c/b".into())), [""; 0]);
}

/// A file that the domain moved into a directory stays where it was when that directory is left out.
#[test]
fn what_was_moved_into_a_directory_that_is_left_out_stays() {
    let real = Tree::planted();
    let made = Act::Create("d/c".into(), FileKind::Directory);
    let moved = Act::Rename("b".into(), "d/c/b".into());
    let domain = Domain::after(&real, &[made.clone(), moved]);
    let outside = real.changed_by(&[made]);
    let theirs = Choice {
        path: "/d/c".into(),
        winner: Winner::Theirs,
    };
    let outcome = commit(&domain, &outside, &[theirs]);
    let Outcome::Committed(tree) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(tree.shape(), outside.shape());
}
