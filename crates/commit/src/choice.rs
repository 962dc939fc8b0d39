//! What a person decides about conflicts, and what of the domain's changes is left out for it.
//!
//! *Ours* takes what is outside now for what the domain found: it is changed, replaced or removed as that
//! would have been. *Theirs* leaves the domain's change of a name out, and with it whatever cannot be
//! without it: the other half of a move, the removal of the directory that holds it, and a move into a
//! directory that is not made.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use surmise_changes::{Names, Settled};
use surmise_view::{FileKind, Identity, Map, NodeId};

use crate::check::Comparison;
use crate::error::{CommitError, Conflict, ConflictKind};
use crate::plan::Expectation;

/// Who wins at a path and below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// A real path.
    pub path: PathBuf,
    /// Who.
    pub winner: Winner,
}

/// Whose version of a conflict becomes real.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Winner {
    /// The domain's.
    Ours,
    /// What is outside.
    Theirs,
}

/// Turns choices into what they come to, for the conflicts that there are now, in addition to what is
/// settled `before`; `None` when no conflict is left that they decide.
///
/// What is left out may bring back what can no longer be had, and with it further conflicts: so this is
/// repeated until there is nothing more to decide. The choices are matched against the first conflicts,
/// and against `read`, what was merely read and makes a conflict, of which there is nothing to settle.
pub(crate) fn settle(
    map: &Map,
    comparison: &Comparison<'_, '_>,
    (choices, read): (&[Choice], &[Conflict]),
    before: Option<&Settled>,
) -> Result<Option<Settled>, CommitError> {
    let found = comparison.findings().conflicts;
    let mut settling = Settling {
        names: Names::of(map),
        map,
        comparison,
        settled: before.cloned().unwrap_or_default(),
        seeds: Vec::new(),
    };
    let mut met: HashSet<&Path> = HashSet::new();
    let mut stuck = Vec::new();
    for conflict in found {
        let fitting = choices
            .iter()
            .filter(|choice| conflict.path.starts_with(&choice.path));
        // The nearest one counts.
        let Some(choice) = fitting.max_by_key(|choice| choice.path.components().count()) else {
            continue;
        };
        met.insert(&choice.path);
        let is_settled = match choice.winner {
            Winner::Theirs => settling.theirs(&conflict),
            Winner::Ours => settling.ours(&conflict),
        };
        if !is_settled {
            stuck.push(conflict);
        }
    }
    let is_read = |choice: &Choice| read.iter().any(|read| read.path.starts_with(&choice.path));
    let unmet = choices
        .iter()
        .find(|choice| !met.contains(&*choice.path) && !is_read(choice));
    if let (Some(choice), None) = (unmet, before) {
        return Err(CommitError::NoConflict(choice.path.clone()));
    }
    if !stuck.is_empty() {
        return Err(CommitError::Unforceable(stuck));
    }
    if met.is_empty() {
        return Ok(None);
    }
    settling.close();
    Ok(Some(settling.settled))
}

struct Settling<'m, 's> {
    names: Names<'m>,
    map: &'m Map,
    comparison: &'s Comparison<'s, 'm>,
    settled: Settled,
    /// Names to be left out.
    seeds: Vec<(NodeId, OsString)>,
}

/// An expectation that a conflict speaks of.
struct Met<'s> {
    directory: NodeId,
    expectation: &'s Expectation,
    /// What is there now, where that can be looked at.
    found: Option<Option<Identity>>,
}

impl<'s> Settling<'_, 's> {
    /// The expectations that a conflict speaks of, each with the directory that it is about.
    fn expectations(&self, conflict: &Conflict) -> Vec<Met<'s>> {
        let of_directory = conflict.what == ConflictKind::DirectoryMoved;
        let Comparison {
            checks, outside, ..
        } = self.comparison;
        let expectations = checks.names.iter().zip(&outside.names);
        let met = expectations.filter(|(expectation, _)| {
            let directory = expectation.place.directory;
            match of_directory {
                true => self.is_directory(directory, &conflict.path),
                false => self.comparison.path(&expectation.place) == conflict.path,
            }
        });
        met.map(|(expectation, seen)| Met {
            directory: checks.nodes[expectation.place.directory],
            expectation,
            found: seen.and_then(Result::ok),
        })
        .collect()
    }

    fn is_directory(&self, directory: usize, path: &Path) -> bool {
        let places = &self.comparison.plan.directories[directory].places;
        places
            .last()
            .is_some_and(|place| self.comparison.path(place) == path)
    }

    fn theirs(&mut self, conflict: &Conflict) -> bool {
        for met in self.expectations(conflict) {
            match met.expectation.edited {
                Some(node) => self.settled.leave_unedited(node),
                None => {
                    let name = met.expectation.place.name.clone();
                    self.seeds.push((met.directory, name));
                }
            }
        }
        let checks = self.comparison.checks;
        let moved = conflict.what == ConflictKind::DirectoryMoved;
        for (index, node) in checks.nodes.iter().enumerate() {
            if moved && self.is_directory(index, &conflict.path) {
                self.settled.leave_unedited(*node);
            }
        }
        if conflict.what == ConflictKind::CreatedInRemoved {
            for emptied in &checks.emptied {
                if conflict.path.parent() == Some(&self.comparison.path(&emptied.place)) {
                    let directory = checks.nodes[emptied.place.directory];
                    self.seeds.push((directory, emptied.place.name.clone()));
                }
            }
        }
        true
    }

    /// `false` where the domain's version cannot be had: it is a change of something that is gone.
    fn ours(&mut self, conflict: &Conflict) -> bool {
        use ConflictKind::{Changed, Created, Removed, Replaced};
        if !matches!(conflict.what, Created | Removed | Replaced | Changed) {
            return false;
        }
        let mut now = Vec::new();
        for Met {
            directory,
            expectation: met,
            found,
        } in self.expectations(conflict)
        {
            let name = &met.place.name;
            let Some(found) = found else { return false };
            let is_same_inode = match (met.state, found) {
                (Some(wanted), Some(found)) => wanted.same_inode(&found),
                _ => false,
            };
            let is_directory = |state: Option<Identity>| {
                state.is_some_and(|state| state.kind == FileKind::Directory)
            };
            let is_moved = self
                .names
                .changed_entry(directory, name)
                .is_some_and(|entry| self.names.moved_to(&entry).is_some());
            if (met.edited.is_some() || is_moved || is_directory(found)) && !is_same_inode {
                return false;
            }
            now.push((directory, name.clone(), met.edited, found));
        }
        for (directory, name, edited, found) in now {
            match (edited, found) {
                (Some(node), Some(found)) => self.settled.take_edited(node, found),
                _ => self.settled.take(directory, name, found),
            }
        }
        true
    }

    /// Leaves out what cannot be without the names that are.
    fn close(&mut self) {
        while !self.seeds.is_empty() {
            while let Some((directory, name)) = self.seeds.pop() {
                if self.settled.leave_out(directory, &name) {
                    self.follow(directory, &name);
                }
            }
            self.find_vanished();
        }
    }

    fn follow(&mut self, directory: NodeId, name: &OsStr) {
        if let Some(entry) = self.names.changed_entry(directory, name) {
            let halves = [self.names.moved_to(&entry), self.names.moved_from(&entry)];
            for half in halves.into_iter().flatten() {
                self.seeds.push((half.directory, half.name.to_owned()));
            }
        }
        if !self.names.is_live(directory)
            && let Some((parent, name)) = self.names.origin(directory)
        {
            self.seeds.push((parent, name.to_owned()));
        }
    }

    /// Real inodes that the domain kept, and whose new names are now below something that is not made.
    fn find_vanished(&mut self) {
        let now = Names::settled(self.map, Some(&self.settled));
        let mut vanished = Vec::new();
        for entry in now.changed() {
            let Some(lower) = entry.lower else { continue };
            let Some(to) = self.names.moved_to(&entry) else {
                continue;
            };
            let is_there = |names: &Names<'_>| names.is_live(to.directory);
            if is_there(&self.names) && !is_there(&now) && self.map.adopted(lower.key()).is_some() {
                vanished.push((entry.directory, entry.name.to_owned()));
            }
        }
        self.seeds.extend(vanished);
    }
}
