//! Whether the real tree still is what the domain saw: decided from what was seen of it, without a look.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use surmise_view::{FileKind, Identity, InodeKey};

use crate::error::{Conflict, ConflictKind, Obstacle, ObstacleKind};
use crate::journal::Undone;
use crate::outside::Outside;
use crate::plan::{Checks, Opened, Place, Plan};

/// Everything that speaks against a commit.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) conflicts: Vec<Conflict>,
    pub(crate) obstacles: Vec<Obstacle>,
    /// What the user can write only after a change of its mode.
    pub(crate) opened: Vec<Opened>,
    /// Files that are flagged immutable or append-only.
    pub(crate) flagged: Vec<Place>,
}

/// A plan beside what is outside.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comparison<'c, 'm> {
    pub(crate) plan: &'c Plan,
    /// What must be outside for the plan to fit.
    pub(crate) checks: &'c Checks<'m>,
    /// What is.
    pub(crate) outside: &'c Outside,
    /// The real directory that is the view's root.
    pub(crate) root: &'c Path,
    /// The directories that hold the domain's state.
    pub(crate) keep: &'c HashSet<InodeKey>,
}

impl Comparison<'_, '_> {
    /// The conflicts, by path, and what could not be looked at.
    pub(crate) fn findings(&self) -> Findings {
        let mut findings = Findings::default();
        self.find_directories(&mut findings);
        self.find_names(&mut findings);
        self.find_newcomers(&mut findings);
        findings.conflicts.sort_by(|a, b| a.path.cmp(&b.path));
        findings.conflicts.dedup();
        findings
    }

    /// A path for messages: where a place was, or is to be.
    pub(crate) fn path(&self, place: &Place) -> PathBuf {
        self.plan.path(self.root, place)
    }

    fn find_directories(&self, findings: &mut Findings) {
        let directories = self.plan.directories.iter().zip(&self.outside.directories);
        for (planned, seen) in directories {
            let (Some(_), Some(place)) = (planned.key, planned.places.last()) else {
                continue;
            };
            match seen {
                Ok(true) => {}
                Ok(false) => findings.conflicts.push(Conflict {
                    path: self.path(place),
                    what: ConflictKind::DirectoryMoved,
                }),
                Err(errno) => findings.obstacles.push(self.unreadable(place, *errno)),
            }
        }
    }

    fn find_names(&self, findings: &mut Findings) {
        for (expectation, seen) in self.checks.names.iter().zip(&self.outside.names) {
            let place = &expectation.place;
            match seen {
                // A directory that is not there has been told as such.
                None => {}
                Some(Ok(found)) => {
                    let what = difference(expectation.state, *found, &self.checks.undone);
                    findings.conflicts.extend(what.map(|what| Conflict {
                        path: self.path(place),
                        what,
                    }));
                }
                Some(Err(errno)) => findings.obstacles.push(self.unreadable(place, *errno)),
            }
        }
    }

    /// Names in a directory that goes which the domain did not remove or move away.
    fn find_newcomers(&self, findings: &mut Findings) {
        for (emptied, seen) in self.checks.emptied.iter().zip(&self.outside.newcomers) {
            let newcomers = match seen {
                Ok(newcomers) => newcomers,
                Err(errno) => {
                    let obstacle = self.unreadable(&emptied.place, *errno);
                    findings.obstacles.push(obstacle);
                    continue;
                }
            };
            let is_state = |found: &Identity| {
                found.kind == FileKind::Directory && self.keep.contains(&found.key())
            };
            let foreign = newcomers
                .iter()
                .filter(|newcomer| !newcomer.found.as_ref().is_some_and(is_state));
            findings.conflicts.extend(foreign.map(|newcomer| Conflict {
                path: self.path(&emptied.place).join(&newcomer.name),
                what: ConflictKind::CreatedInRemoved,
            }));
        }
    }

    fn unreadable(&self, place: &Place, errno: Errno) -> Obstacle {
        Obstacle {
            path: self.path(place),
            why: ObstacleKind::Unreadable(errno.into()),
        }
    }
}

/// How what is found differs from what is wanted.
pub(crate) fn difference(
    wanted: Option<Identity>,
    found: Option<Identity>,
    undone: &Undone,
) -> Option<ConflictKind> {
    let wanted = wanted.map(|wanted| as_undone(wanted, found, undone));
    match (wanted, found) {
        (None, None) => None,
        (None, Some(_)) => Some(ConflictKind::Created),
        (Some(_), None) => Some(ConflictKind::Removed),
        (Some(wanted), Some(found)) if is_same_state(&wanted, &found) => None,
        (Some(wanted), Some(found)) if wanted.same_inode(&found) => Some(ConflictKind::Changed),
        (Some(_), Some(_)) => Some(ConflictKind::Replaced),
    }
}

/// Whether two states of an inode are one.
fn is_same_state(wanted: &Identity, found: &Identity) -> bool {
    match wanted.kind {
        FileKind::Directory => wanted.same_inode(found),
        _ => wanted == found,
    }
}

/// What is wanted, with the change time that is found if our own undo, or the removal of a flag, left that.
pub(crate) fn as_undone(wanted: Identity, found: Option<Identity>, undone: &Undone) -> Identity {
    match (undone.get(&wanted.key()), found) {
        (Some(changed), Some(found)) if found.changed == *changed => Identity {
            changed: *changed,
            ..wanted
        },
        _ => wanted,
    }
}
