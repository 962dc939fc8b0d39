//! What the domain merely read: whether it is outside as it was then.
//!
//! What the commit changes, replaces or removes has its own check; the rest of what was read is no
//! reason not to commit unless somebody says so, but a reason to tell.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{Mode, OFlags};
use surmise_changes::real::{LOOK, is_absent, look_at};
use surmise_view::{Identity, InodeKey, Read};

use crate::check::{Comparison, Findings, difference};
use crate::choice::Choice;
use crate::devices::{Today, number_of_today};
use crate::error::{CommitError, Conflict, ConflictKind};
use crate::locate::Site;
use crate::outside::{Sight, sight};
use crate::plan::ROOT;

/// On what terms somebody commits.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terms<'t> {
    /// Who wins in conflicts. What was merely read at such a path or below counts as looked at.
    pub choices: &'t [Choice],
    /// Whether it is a conflict, too, when something that the domain merely read has changed outside.
    pub is_strict: bool,
}

/// What a domain read, under the terms of its commit.
pub(crate) struct Reads<'t> {
    /// Nearly always those in one directory one after another.
    reads: Vec<Read>,
    pub(crate) terms: Terms<'t>,
}

impl<'t> Reads<'t> {
    /// # Errors
    /// When it matters that they are not known, or when they were and are damaged.
    pub(crate) fn load(
        state: &Path,
        terms: Terms<'t>,
        today: Option<&Today>,
    ) -> Result<Self, CommitError> {
        let mut reads = match surmise_view::load_reads(state) {
            Ok(reads) => reads,
            Err(unknown) if terms.is_strict || unknown.is_damage() => return Err(unknown.into()),
            Err(_) => Vec::new(),
        };
        if let Some(Today { renumbered, .. }) = today {
            for Read { identity, .. } in &mut reads {
                identity.device = number_of_today(renumbered, identity.device);
            }
        }
        // By bytes: to compare many paths part by part takes long, and a domain may stand still meanwhile.
        reads.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
        Ok(Self { reads, terms })
    }

    /// Looks at all that was read, and keeps what is not exactly as it was.
    pub(crate) fn look(&self, site: &Site<'_>) -> Vec<Seen<'_>> {
        let mut below = Below {
            site,
            directory: None,
        };
        let seen = self.reads.iter().map(|read| Seen {
            read,
            found: sight(below.look(&read.path)),
        });
        seen.filter(|seen| seen.found != Ok(Some(seen.read.identity)))
            .collect()
    }

    /// Whatever has changed and nobody has looked at: added to the findings, or returned where it is
    /// to be told only.
    pub(crate) fn judge(
        &self,
        seen: &[Seen<'_>],
        comparison: &Comparison<'_, '_>,
        findings: &mut Findings,
    ) -> Vec<Conflict> {
        let mut changed = self.changed(seen, comparison);
        changed.retain(|read| {
            let mut choices = self.terms.choices.iter();
            !choices.any(|choice| read.path.starts_with(&choice.path))
        });
        // A directory that was moved, say, may have been told already.
        let told: HashSet<&Path> = findings.conflicts.iter().map(|told| &*told.path).collect();
        changed.retain(|read| !told.contains(&*read.path));
        if !self.terms.is_strict {
            return changed;
        }
        findings.conflicts.extend(changed);
        findings.conflicts.sort_by(|a, b| a.path.cmp(&b.path));
        Vec::new()
    }

    /// Whatever has changed, by path.
    pub(crate) fn changed(
        &self,
        seen: &[Seen<'_>],
        comparison: &Comparison<'_, '_>,
    ) -> Vec<Conflict> {
        let checked = Checked::by(comparison);
        let mut changed = Vec::new();
        for Seen { read, found } in seen {
            let (found, what) = match *found {
                Ok(found) => {
                    let undone = &comparison.checks.undone;
                    let what = difference(Some(read.identity), found, undone);
                    (found, what.map(of_read))
                }
                Err(_) => (None, Some(ConflictKind::ReadHidden)),
            };
            let Some(what) = what else { continue };
            let path = comparison.root.join(&read.path);
            if !checked.has(&path, &read.identity, found.as_ref()) {
                changed.push(Conflict { path, what });
            }
        }
        changed.sort_by(|a, b| a.path.cmp(&b.path));
        changed
    }
}

/// What was read, and what is there now.
pub(crate) struct Seen<'r> {
    read: &'r Read,
    found: Sight<Option<Identity>>,
}

/// What a difference is where the domain merely read.
fn of_read(difference: ConflictKind) -> ConflictKind {
    match difference {
        ConflictKind::Removed => ConflictKind::ReadRemoved,
        ConflictKind::Replaced => ConflictKind::ReadReplaced,
        _ => ConflictKind::ReadChanged,
    }
}

/// What the commit's own check judges.
struct Checked {
    paths: HashSet<PathBuf>,
    inodes: HashSet<InodeKey>,
}

impl Checked {
    fn by(comparison: &Comparison<'_, '_>) -> Self {
        // A name that must be free tells nothing of what was read there.
        let found = comparison.checks.names.iter();
        let found =
            found.filter_map(|name| Some((comparison.path(&name.place), name.state?.key())));
        let (paths, inodes) = found.unzip();
        Self { paths, inodes }
    }

    /// Whether it judges what was read at a path, where `found` is now.
    fn has(&self, path: &Path, read: &Identity, found: Option<&Identity>) -> bool {
        // By another of its names.
        let is_same = found.is_some_and(|found| found.same_inode(read));
        self.paths.contains(path) || is_same && self.inodes.contains(&read.key())
    }
}

/// Looks at paths below the root, and follows no link.
struct Below<'s, 'p, 'r> {
    site: &'s Site<'p>,
    /// The directory of the last path; `None` when it is not there.
    directory: Option<(&'r Path, Option<Rc<OwnedFd>>)>,
}

impl<'r> Below<'_, '_, 'r> {
    fn look(&mut self, path: &'r Path) -> io::Result<Option<Identity>> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(None);
        };
        if self
            .directory
            .as_ref()
            .is_none_or(|known| known.0 != parent)
        {
            self.directory = Some((parent, self.open(parent)?));
        }
        match &self.directory {
            Some((_, Some(directory))) => {
                let found = look_at(directory.as_fd(), name)?;
                Ok(found.map(|found| found.identity))
            }
            _ => Ok(None),
        }
    }

    fn open(&self, path: &Path) -> io::Result<Option<Rc<OwnedFd>>> {
        let mut at = self.site.open(ROOT)?;
        for name in path {
            let flags = LOOK | OFlags::DIRECTORY;
            at = match rustix::fs::openat(&at, name, flags, Mode::empty()) {
                Ok(below) => Rc::new(below),
                Err(errno) if is_absent(&errno.into()) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            };
        }
        Ok(Some(at))
    }
}
