//! What the view says of the marks that a call meets, against what the model knows of the changes themselves.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

use surmise_view::{Look, Manner, Target, Touches, View};

use crate::model::{Cells, Fate, History, Ino, ROOT, Tree};
use crate::world::Step;

/// The paths of a step, and what its call does there.
fn paths(step: &Step) -> Vec<(&[String], Manner)> {
    match step {
        Step::Make(_, at, _) | Step::Remove(_, at) => vec![(at, Manner::Binds)],
        Step::Write(_, at, _) | Step::Chmod(_, at, _) => vec![(at, Manner::Changes)],
        Step::Rename(_, from, to) => vec![(from, Manner::Binds), (to, Manner::Binds)],
        // A link commutes with other links of the same inode.
        Step::Link(_, from, to) => vec![(from, Manner::Links), (to, Manner::Binds)],
        Step::Mark(_) | Step::Settle(_) | Step::Undo(_) => Vec::new(),
    }
}

/// A change that is about to be made.
pub fn change(view: &View, history: &History, tree: &Tree, step: &Step, cells: &Cells) {
    let looks = paths(step).into_iter().map(|(at, manner)| look(at, manner));
    let looks: Vec<_> = looks.collect();
    let mut most = cells.clone();
    for (at, manner) in paths(step) {
        let way = way(tree, at);
        if manner == Manner::Binds
            && let Some(end) = way.end
            && tree[&end].is_directory
        {
            most.alone.insert(end);
        }
        most.together.extend(way.passed);
    }
    compare(view, history, (&looks, cells, &most));
}

/// Calls that change nothing, on the paths of a step.
pub fn looks(view: &View, history: &History, tree: &Tree, step: &Step) {
    for (at, _) in paths(step) {
        let way = way(tree, at);
        for manner in [Manner::Passes, Manner::Looks, Manner::Lists] {
            let mut least = Cells {
                reads: way.names.clone(),
                ..Cells::default()
            };
            match (manner, way.end) {
                (_, None) => {}
                (Manner::Passes, Some(end)) => _ = least.together.insert(end),
                (_, Some(end)) => _ = least.alone.insert(end),
            }
            if manner == Manner::Lists {
                least.listing = way.end;
            }
            let mut most = least.clone();
            most.together.extend(&way.passed);
            compare(view, history, (&[look(at, manner)], &least, &most));
        }
    }
}

/// The names on the way of a path as far as it leads, the directories that it passes, and its end.
struct Way {
    names: BTreeSet<(Ino, String)>,
    passed: BTreeSet<Ino>,
    end: Option<Ino>,
}

fn way(tree: &Tree, path: &[String]) -> Way {
    let (mut names, mut passed) = (BTreeSet::new(), BTreeSet::new());
    let mut at = Some(ROOT);
    for part in path {
        let Some(directory) = at.filter(|at| tree[at].is_directory) else {
            at = None;
            break;
        };
        passed.insert(directory);
        names.insert((directory, part.clone()));
        at = tree[&directory].entries.get(part).copied();
    }
    Way {
        names,
        passed,
        end: at,
    }
}

fn look(path: &[String], manner: Manner) -> Look {
    Look {
        target: Target::Path {
            base: PathBuf::from("/"),
            path: path.iter().collect(),
            follows: false,
        },
        manner,
    }
}

/// Every mark that a call depends on is told, and no other than those of what it passes.
fn compare(view: &View, history: &History, (looks, least, most): (&[Look], &Cells, &Cells)) {
    let Touches {
        marks, in_doubt, ..
    } = view.touches(looks, &HashSet::new()).unwrap();
    assert!(!in_doubt);
    let got: BTreeSet<usize> = marks
        .iter()
        .map(|mark| usize::try_from(mark.0).unwrap())
        .collect();
    let seen_by = |cells: &Cells| {
        let made = history.0.iter().filter_map(|made| match made.fate {
            Fate::Undecided(mark) => Some((mark, made)),
            _ => None,
        });
        let made = made.filter(|(_, made)| made.cells.is_seen_by(cells));
        made.map(|(mark, _)| mark).collect::<BTreeSet<usize>>()
    };
    let (least, most) = (seen_by(least), seen_by(most));
    assert!(got.is_superset(&least), "{looks:?}: {got:?}, not {least:?}");
    assert!(got.is_subset(&most), "{looks:?}: {got:?}, not {most:?}");
}
