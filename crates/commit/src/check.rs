//! Whether the real tree still is what the domain saw.

use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{Dir, Mode, OFlags};
use surmise_changes::real::{is_absent, look_at};
use surmise_view::{FileKind, Identity, InodeKey};

use crate::error::{Conflict, ConflictKind, Obstacle, ObstacleKind};
use crate::journal::Undone;
use crate::locate::Site;
use crate::plan::{Checks, Emptied, Expectation, Opened, Place};

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

/// Looks for conflicts; `keep` are the directories that hold the domain's state. Reads only.
pub(crate) fn conflicts(
    site: &Site<'_>,
    checks: &Checks<'_>,
    keep: &HashSet<InodeKey>,
) -> Findings {
    let mut findings = Findings::default();
    for directory in 0..site.plan().directories.len() {
        find_directory(site, directory, &mut findings);
    }
    for expectation in &checks.names {
        find_name(site, expectation, &checks.undone, &mut findings);
    }
    for emptied in &checks.emptied {
        if let Err(error) = find_newcomers(site, emptied, keep, &mut findings) {
            findings.obstacles.push(Obstacle {
                path: site.path(&emptied.place),
                why: ObstacleKind::Unreadable(error),
            });
        }
    }
    findings.conflicts.sort_by(|a, b| a.path.cmp(&b.path));
    findings.conflicts.dedup();
    findings
}

fn find_directory(site: &Site<'_>, directory: usize, findings: &mut Findings) {
    let planned = &site.plan().directories[directory];
    let (Some(_), Some(place)) = (planned.key, planned.places.last()) else {
        return;
    };
    match site.open(directory) {
        Ok(_) => {}
        Err(error) if is_absent(&error) => findings.conflicts.push(Conflict {
            path: site.path(place),
            what: ConflictKind::DirectoryMoved,
        }),
        Err(error) => findings.obstacles.push(Obstacle {
            path: site.path(place),
            why: ObstacleKind::Unreadable(error),
        }),
    }
}

fn find_name(site: &Site<'_>, expectation: &Expectation, undone: &Undone, findings: &mut Findings) {
    // A directory that is not there has been reported as such.
    let Ok(directory) = site.open(expectation.place.directory) else {
        return;
    };
    let found = match look_at(directory.as_fd(), &expectation.place.name) {
        Ok(found) => found.map(|found| found.identity),
        Err(error) => {
            findings.obstacles.push(Obstacle {
                path: site.path(&expectation.place),
                why: ObstacleKind::Unreadable(error),
            });
            return;
        }
    };
    if let Some(what) = difference(expectation.state, found, undone) {
        findings.conflicts.push(Conflict {
            path: site.path(&expectation.place),
            what,
        });
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

/// Names in a directory that goes which the domain did not remove or move away.
fn find_newcomers(
    site: &Site<'_>,
    emptied: &Emptied<'_>,
    keep: &HashSet<InodeKey>,
    findings: &mut Findings,
) -> io::Result<()> {
    let Ok(parent) = site.open(emptied.place.directory) else {
        return Ok(());
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match rustix::fs::openat(&parent, &emptied.place.name, flags, Mode::empty()) {
        Ok(directory) => directory,
        // Reported as removed or replaced.
        Err(error) if is_absent(&error.into()) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = std::os::unix::ffi::OsStrExt::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let removed = emptied.node.and_then(|node| node.entries.get(name));
        if removed.is_some_and(|binding| binding.lower().is_some()) {
            continue;
        }
        let found = look_at(directory.as_fd(), name)?;
        let is_state = found.is_some_and(|found| {
            found.identity.kind == FileKind::Directory && keep.contains(&found.identity.key())
        });
        if !is_state {
            findings.conflicts.push(Conflict {
                path: site.path(&emptied.place).join(name),
                what: ConflictKind::CreatedInRemoved,
            });
        }
    }
    Ok(())
}
