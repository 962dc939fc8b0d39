//! Commits the changes of a view to the real tree: check, stage, apply.

use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use surmise_view::{InodeKey, Map};

use crate::apply::{Apply, report};
use crate::check::{Findings, conflicts};
use crate::error::{CommitError, Obstacle, ObstacleKind};
use crate::journal::{self, Contents, Journal, JournalError, Phase};
use crate::locate::Site;
use crate::metadata::look;
use crate::objects::Objects;
use crate::opening;
use crate::plan::{Checks, Plan};
use crate::report::{Activity, Report};
use crate::rights::obstacles;
use crate::stage::Stage;
use crate::steps::{OnProgress, Steps};
use crate::undo::undo;

/// What to commit, and where.
#[derive(Debug, Clone, Copy)]
pub struct Request<'r> {
    /// The domain's name; it becomes part of temporary names.
    pub name: &'r str,
    /// The domain's state directory, which holds its objects and gets the journal.
    pub directory: &'r Path,
    /// What the domain changed.
    pub map: &'r Map,
    /// The real directory that is the view's root: `/`.
    pub root: &'r Path,
    /// The directory of Surmise's state. It and the directories above it stay where they are, even
    /// if the domain, which cannot see it, removed them.
    pub keep: Option<&'r Path>,
}

/// What [`resume`] found to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resumed {
    /// No commit had begun.
    Nothing,
    /// A commit had not reached the point of no return, and was taken back.
    Undone,
    /// A commit had, and is complete now.
    Finished(Report),
}

/// Whether a commit could be done now. Changes nothing.
///
/// # Errors
/// As [`commit`].
pub fn check(request: &Request<'_>) -> Result<(), CommitError> {
    let keep = kept_inodes(request.keep)?;
    let (mut plan, checks) = planned(request, "", &keep)?;
    examine(request, &mut plan, &checks, &keep)
}

/// Commits a view.
///
/// The caller holds the domain's lock and knows that nothing runs in it, or that its tasks stand still
/// and its view is prepared. Afterwards the journal says [`Phase::Done`]; all that remains of a domain
/// that has ended is its state directory, and one that goes on is rebased and then [`crate::forget`]s.
/// What [`Report::kept`] lists waits for the end of the state directory.
///
/// # Errors
/// After `Conflicts`, `Obstacles` and `Stage` nothing has changed; after `Apply` and `Stopped`,
/// [`resume`] goes on.
pub fn commit(
    request: &Request<'_>,
    on_progress: &mut OnProgress<'_>,
) -> Result<Report, CommitError> {
    if journal::pending(request.directory)?.is_some() {
        return Err(CommitError::UnderWay);
    }
    let keep = kept_inodes(request.keep)?;
    let prefix = prefix(request.name);
    let (mut plan, checks) = planned(request, &prefix, &keep)?;
    examine(request, &mut plan, &checks, &keep)?;
    let started = Journal::start(request.directory, request.root, &plan);
    let mut journal = started.map_err(|error| {
        // Nothing has begun; should this fail too, the next commit finds an empty plan and drops it.
        let _ = journal::discard(request.directory);
        JournalError::from(error)
    })?;
    let objects = Objects::of(request.directory, request.map);
    let mut site = open(&plan, request.root)?;
    let staged = stage(&mut site, &objects, &mut journal, on_progress)
        .and_then(|()| check_again(&site, &checks, &keep));
    match staged {
        Ok(()) => {}
        Err(CommitError::Stopped) => return Err(CommitError::Stopped),
        Err(error) => {
            let steps = Steps::new(on_progress, Activity::Undo, plan.stagings.len());
            undo(&mut site, request.directory, &objects, steps)?;
            journal::discard(request.directory).map_err(journal_error)?;
            return Err(error);
        }
    }
    journal.go().map_err(journal_error)?;
    let steps = Steps::new(on_progress, Activity::Apply, plan.steps());
    Apply::new(&site, &objects, steps).run(&mut journal, None)
}

/// Goes on with a commit that was cut short: takes it back when it had not passed the point of no
/// return, else finishes it.
///
/// # Errors
/// [`CommitError`]; the commit can be resumed again.
pub fn resume(directory: &Path, on_progress: &mut OnProgress<'_>) -> Result<Resumed, CommitError> {
    if journal::is_cut_short(directory) {
        journal::discard(directory).map_err(journal_error)?;
        return Ok(Resumed::Nothing);
    }
    let Some((mut journal, contents)) = Journal::open(directory)? else {
        return Ok(Resumed::Nothing);
    };
    let Contents {
        root,
        plan,
        staged,
        phase,
        written,
    } = contents;
    let Some(phase) = phase else {
        journal::discard(directory).map_err(journal_error)?;
        return Ok(Resumed::Undone);
    };
    let mut site = open(&plan, &root)?;
    for staged in staged {
        site.set_staged(staged.staging, staged.key);
    }
    match phase {
        Phase::Staging => {
            let steps = Steps::new(on_progress, Activity::Undo, plan.stagings.len());
            let objects = Objects::of(directory, &Map::default());
            undo(&mut site, directory, &objects, steps)?;
            journal::discard(directory).map_err(journal_error)?;
            Ok(Resumed::Undone)
        }
        Phase::Applying => {
            let objects = Objects::load(directory).map_err(|error| {
                CommitError::apply(directory.join("log"), io::Error::other(error))
            })?;
            let steps = Steps::new(on_progress, Activity::Apply, plan.steps());
            let report = Apply::new(&site, &objects, steps).run(&mut journal, written)?;
            Ok(Resumed::Finished(report))
        }
        Phase::Done => Ok(Resumed::Finished(report(
            &site,
            &written.unwrap_or_default(),
        ))),
    }
}

fn planned<'m>(
    request: &Request<'m>,
    prefix: &'m str,
    keep: &'m HashSet<InodeKey>,
) -> Result<(Plan, Checks<'m>), CommitError> {
    Plan::of(request.map, prefix, keep).map_err(|refused| {
        CommitError::Obstacles(vec![Obstacle {
            path: refused.0,
            why: ObstacleKind::HoldsState,
        }])
    })
}

/// Checks all, and notes the times that directories have.
fn examine(
    request: &Request<'_>,
    plan: &mut Plan,
    checks: &Checks<'_>,
    keep: &HashSet<InodeKey>,
) -> Result<(), CommitError> {
    let (times, opened) = {
        let site = open(plan, request.root)?;
        let mut findings = conflicts(&site, checks, keep);
        if findings.conflicts.is_empty() {
            let objects = Objects::of(request.directory, request.map);
            obstacles(&site, &objects, &mut findings);
        }
        let opened = std::mem::take(&mut findings.opened);
        verdict(findings)?;
        let directories = 0..plan.directories.len();
        let times: Vec<_> = directories
            .map(|index| {
                let found = site.open(index).and_then(|fd| look(fd.as_fd()));
                found.ok().map(|found| found.identity.modified)
            })
            .collect();
        (times, opened)
    };
    for (directory, time) in plan.directories.iter_mut().zip(times) {
        directory.modified = time;
    }
    for finish in &mut plan.finishes {
        let now = plan.directories[finish.directory].modified;
        let then = checks.times.get(&finish.directory).copied();
        // Someone else changed the directory too: their time is the later one.
        if then.is_some() && now != then {
            finish.metadata.modified = None;
        }
    }
    opening::add(plan, opened);
    Ok(())
}

fn stage(
    site: &mut Site<'_>,
    objects: &Objects,
    journal: &mut Journal,
    on_progress: &mut OnProgress<'_>,
) -> Result<(), CommitError> {
    let total = site.plan().stagings.len();
    let steps = Steps::new(on_progress, Activity::Stage, total);
    Stage {
        site,
        objects,
        journal,
        steps,
    }
    .run()
}

/// Looks for conflicts once more, since staging takes its time.
fn check_again(
    site: &Site<'_>,
    checks: &Checks<'_>,
    keep: &HashSet<InodeKey>,
) -> Result<(), CommitError> {
    verdict(conflicts(site, checks, keep))
}

fn verdict(findings: Findings) -> Result<(), CommitError> {
    if !findings.conflicts.is_empty() {
        return Err(CommitError::Conflicts(findings.conflicts));
    }
    if !findings.obstacles.is_empty() {
        return Err(CommitError::Obstacles(findings.obstacles));
    }
    Ok(())
}

fn open<'p>(plan: &'p Plan, root: &Path) -> Result<Site<'p>, CommitError> {
    Site::new(plan, root).map_err(|error| CommitError::stage(root.to_owned(), error))
}

/// The inodes of a directory and of all above it.
fn kept_inodes(keep: Option<&Path>) -> Result<HashSet<InodeKey>, CommitError> {
    let Some(keep) = keep else {
        return Ok(HashSet::new());
    };
    let failed = |path: &Path, error| CommitError::stage(path.to_owned(), error);
    let real: PathBuf = std::fs::canonicalize(keep).map_err(|error| failed(keep, error))?;
    real.ancestors()
        .map(|ancestor| {
            let found = std::fs::symlink_metadata(ancestor);
            let found = found.map_err(|error| failed(ancestor, error))?;
            Ok(InodeKey {
                device: found.dev(),
                inode: found.ino(),
            })
        })
        .collect()
}

/// The start of this commit's temporary names; no other commit has the same.
fn prefix(name: &str) -> String {
    let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), name);
    // Names are at most 255 bytes, and a number follows.
    let name: String = name.chars().take(32).collect();
    format!(".surmise-{name}-{random:016x}-")
}

fn journal_error(error: io::Error) -> CommitError {
    CommitError::Journal(JournalError::Open(error.into()))
}
