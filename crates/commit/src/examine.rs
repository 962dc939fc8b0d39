//! Whether a domain can be committed: the plan, and what speaks against it.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use surmise_changes::Settled;
use surmise_changes::real::look;
use surmise_view::InodeKey;

use crate::check::{Comparison, Findings};
use crate::choice::settle;
use crate::commit::Request;
use crate::devices::{Today, today};
use crate::error::{CommitError, Conflict, Obstacle, ObstacleKind};
use crate::flagged;
use crate::journal;
use crate::locate::Site;
use crate::objects::Objects;
use crate::outside::Outside;
use crate::plan::{Checks, Plan};
use crate::reads::{Reads, Terms};
use crate::rights::obstacles;

/// How often conflicts that follow from choices are looked for; what is left then is told.
const SETTLE_ROUNDS_MAX: usize = 16;

/// What is to be committed, where device numbers are others than they were.
pub(crate) fn of_today(
    request: &Request<'_>,
    keep: &HashSet<InodeKey>,
) -> Result<Option<Today>, CommitError> {
    today(request.map, request.root, || {
        planned(request, "", keep, None).map(|(plan, _)| plan)
    })
}

pub(crate) fn on<'r>(request: &Request<'r>, today: Option<&'r Today>) -> Request<'r> {
    Request {
        map: today.map_or(request.map, |today| &today.map),
        ..*request
    }
}

/// What choices come to; `None` without any.
pub(crate) fn settled(
    request: &Request<'_>,
    keep: &HashSet<InodeKey>,
    reads: &Reads<'_>,
) -> Result<Option<Settled>, CommitError> {
    let Terms { choices, is_strict } = reads.terms;
    if choices.is_empty() {
        return Ok(None);
    }
    let mut settled: Option<Settled> = None;
    for _ in 0..SETTLE_ROUNDS_MAX {
        let before = settled.as_ref();
        let (plan, checks) = planned(request, "", keep, before)?;
        let site = open(&plan, request.root)?;
        let outside = Outside::of(&site, &checks);
        let comparison = compare(&site, &checks, &outside, keep);
        let read = match (is_strict, before) {
            (true, None) => reads.changed(&reads.look(&site), &comparison),
            _ => Vec::new(),
        };
        match settle(request.map, &comparison, (choices, &read), before)? {
            Some(more) => settled = Some(more),
            None => break,
        }
    }
    Ok(settled)
}

pub(crate) fn planned<'m>(
    request: &Request<'m>,
    prefix: &'m str,
    keep: &'m HashSet<InodeKey>,
    settled: Option<&'m Settled>,
) -> Result<(Plan, Checks<'m>), CommitError> {
    let planned = Plan::of(request.map, prefix, keep, settled);
    let (plan, mut checks) = planned.map_err(|refused| {
        CommitError::Obstacles(vec![Obstacle {
            path: refused.0,
            why: ObstacleKind::HoldsState,
        }])
    })?;
    checks.undone = journal::undone(request.directory)?;
    let unflagged = flagged::unflagged(&open(&plan, request.root)?, request.directory, &checks);
    checks.undone.extend(unflagged);
    Ok((plan, checks))
}

/// Checks all, and notes the times that directories have. Returns what was merely read and is to be told.
pub(crate) fn examine(
    request: &Request<'_>,
    plan: &mut Plan,
    checks: &Checks<'_>,
    keep: &HashSet<InodeKey>,
    reads: &Reads<'_>,
) -> Result<Vec<Conflict>, CommitError> {
    let (times, opened, read_changed) = {
        let site = open(plan, request.root)?;
        let outside = Outside::of(&site, checks);
        let comparison = compare(&site, checks, &outside, keep);
        let mut findings = comparison.findings();
        let read_changed = reads.judge(&reads.look(&site), &comparison, &mut findings);
        if findings.conflicts.is_empty() {
            let objects = Objects::of(request.directory, request.map).with_undone(&checks.undone);
            obstacles(&site, &objects, &mut findings);
            flagged::note(&site, request.directory, checks, &findings.flagged);
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
        (times, opened, read_changed)
    };
    plan.adjust(checks, times, opened);
    Ok(read_changed)
}

/// Looks for conflicts once more, since staging takes its time.
pub(crate) fn check_again(
    site: &Site<'_>,
    checks: &Checks<'_>,
    keep: &HashSet<InodeKey>,
    reads: &Reads<'_>,
) -> Result<(), CommitError> {
    let outside = Outside::of(site, checks);
    let comparison = compare(site, checks, &outside, keep);
    let mut findings = comparison.findings();
    if reads.terms.is_strict {
        reads.judge(&reads.look(site), &comparison, &mut findings);
    }
    verdict(findings)
}

fn compare<'c, 'm>(
    site: &'c Site<'_>,
    checks: &'c Checks<'m>,
    outside: &'c Outside,
    keep: &'c HashSet<InodeKey>,
) -> Comparison<'c, 'm> {
    Comparison {
        plan: site.plan(),
        checks,
        outside,
        root: site.root_path(),
        keep,
    }
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

pub(crate) fn open<'p>(plan: &'p Plan, root: &Path) -> Result<Site<'p>, CommitError> {
    Site::new(plan, root).map_err(|error| CommitError::stage(root.to_owned(), error))
}

/// The inodes of a directory and of all above it.
pub(crate) fn kept_inodes(keep: Option<&Path>) -> Result<HashSet<InodeKey>, CommitError> {
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
