//! Commits the changes of a view to the real tree: check, stage, apply.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use surmise_changes::Settled;
use surmise_changes::real::look;
use surmise_view::{InodeKey, LoadError, Map};

use crate::apply::{Apply, report};
use crate::check::{Comparison, Findings};
use crate::choice::settle;
use crate::devices::{Today, renumber, today};
use crate::error::{CommitError, Conflict, Obstacle, ObstacleKind};
use crate::flagged;
use crate::journal::{self, Contents, Journal, Phase};
use crate::locate::Site;
use crate::objects::Objects;
use crate::outside::Outside;
use crate::plan::{Checks, Plan};
use crate::preimage;
use crate::reads::{Reads, Terms};
use crate::report::{Activity, Report};
use crate::revert::{Revert, change_times, changed_since};
use crate::rights::obstacles;
use crate::stage::Stage;
use crate::steps::{OnProgress, Steps};
use crate::undo::undo_stage;

/// How often conflicts that follow from choices are looked for; what is left then is told.
const SETTLE_ROUNDS_MAX: usize = 16;

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
    /// A commit had not begun to apply, or was being taken back, and is taken back.
    Undone,
    /// A commit had begun to apply, and is complete now.
    Finished(Report),
}

/// Whether a commit could be done now. Changes nothing.
///
/// # Errors
/// As [`commit`].
pub fn check(request: &Request<'_>) -> Result<(), CommitError> {
    check_on(request, Terms::default())
}

/// The same on somebody's terms.
///
/// # Errors
/// As [`commit_on`].
pub fn check_on(request: &Request<'_>, terms: Terms<'_>) -> Result<(), CommitError> {
    let keep = kept_inodes(request.keep)?;
    let today = of_today(request, &keep)?;
    let request = &on(request, today.as_ref());
    let reads = Reads::load(request.directory, terms, today.as_ref())?;
    let settled = settled(request, &keep, &reads)?;
    let (mut plan, checks) = planned(request, "", &keep, settled.as_ref())?;
    examine(request, &mut plan, &checks, &keep, &reads).map(drop)
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
    commit_on(request, Terms::default(), on_progress)
}

/// Commits a view on somebody's terms. Of the choices the nearest to a path counts.
///
/// # Errors
/// As [`commit`]. `NoConflict` for a choice without a conflict and `Unforceable` for one that cannot be
/// had; `ReadsUnknown` where a strict commit lacks what it needs; nothing has changed then.
pub fn commit_on(
    request: &Request<'_>,
    terms: Terms<'_>,
    on_progress: &mut OnProgress<'_>,
) -> Result<Report, CommitError> {
    if journal::pending(request.directory)?.is_some() {
        return Err(CommitError::UnderWay);
    }
    let keep = kept_inodes(request.keep)?;
    let today = of_today(request, &keep)?;
    let request = &on(request, today.as_ref());
    let prefix = prefix(request.name);
    let reads = Reads::load(request.directory, terms, today.as_ref())?;
    let settled = settled(request, &keep, &reads)?;
    let (mut plan, checks) = planned(request, &prefix, &keep, settled.as_ref())?;
    let read_changed = examine(request, &mut plan, &checks, &keep, &reads)?;
    let started = Journal::start(request.directory, request.root, &plan);
    let mut journal = started.map_err(|source| {
        // Nothing has begun. Should this fail too, the next commit takes it back or begins anew.
        let _ = journal::discard(request.directory);
        CommitError::journal(source)
    })?;
    let objects = Objects::of(request.directory, request.map).with_undone(&checks.undone);
    let mut site = open(&plan, request.root)?;
    let staged = stage(&mut site, &objects, &mut journal, on_progress)
        .and_then(|()| {
            let steps = Steps::new(on_progress, Activity::Keep, plan.edits.len());
            preimage::keep(&site, request.directory, &objects, &mut journal, steps)
        })
        .and_then(|()| make_log_durable(request.directory))
        .and_then(|()| check_again(&site, &checks, &keep, &reads));
    match staged {
        Ok(()) => {}
        Err(CommitError::Stopped) => return Err(CommitError::Stopped),
        Err(error) => {
            let steps = Steps::new(on_progress, Activity::Undo, plan.stagings.len());
            let touched = plan.staged_in();
            undo_stage(&mut site, request.directory, &objects, &touched, steps)?;
            journal::discard(request.directory).map_err(CommitError::journal)?;
            return Err(error);
        }
    }
    journal.go().map_err(CommitError::journal)?;
    let steps = Steps::new(on_progress, Activity::Apply, plan.steps());
    let report = Apply::new(&site, &objects, steps).run(&mut journal, None)?;
    Ok(Report {
        read_changed,
        ..report
    })
}

/// Goes on with a commit that was cut short: takes it back when it had not begun to apply, or was being
/// taken back, else finishes it.
///
/// # Errors
/// [`CommitError`]; the commit can be resumed again.
pub fn resume(directory: &Path, on_progress: &mut OnProgress<'_>) -> Result<Resumed, CommitError> {
    let Some((mut journal, mut contents)) = cut_short(directory)? else {
        return Ok(Resumed::Nothing);
    };
    let written = contents.written.take();
    let site = site(&contents)?;
    match contents.phase {
        Phase::Staging | Phase::Undoing => {
            take_back(directory, journal, &contents, on_progress)?;
            Ok(Resumed::Undone)
        }
        Phase::Applying => {
            let objects = Objects::load(directory).map_err(|error| match error {
                LoadError::Log { source, .. } => CommitError::log("log", source),
                error => CommitError::apply(directory.join("log"), io::Error::other(error)),
            })?;
            let steps = Steps::new(on_progress, Activity::Apply, contents.plan.steps());
            let report = Apply::new(&site, &objects, steps).run(&mut journal, written)?;
            Ok(Resumed::Finished(report))
        }
        Phase::Done => Ok(Resumed::Finished(report(
            &site,
            &written.unwrap_or_default(),
        ))),
    }
}

/// Takes back a commit that was cut short, as long as all that it replaces or removes is still there.
/// The real tree is as before then, save for change times, and so is the domain.
///
/// # Errors
/// After `NothingToUndo`, `TooLate`, `Elsewhere` and `Changed` nothing has been done, and [`resume`] still
/// finishes the commit. After any other, undo, or [`resume`], goes on taking back.
pub fn undo(directory: &Path, on_progress: &mut OnProgress<'_>) -> Result<(), CommitError> {
    let (mut journal, mut contents) = cut_short(directory)?.ok_or(CommitError::NothingToUndo)?;
    if contents.written.is_some() {
        return Err(CommitError::TooLate);
    }
    if contents.phase == Phase::Applying {
        let objects = Objects::of(directory, &Map::default());
        let site = site(&contents)?;
        let revert = revert(&site, directory, &objects, &contents);
        revert.check_kept()?;
        changed_since(&revert)?;
        journal.undo().map_err(CommitError::journal)?;
        contents.phase = Phase::Undoing;
    }
    take_back(directory, journal, &contents, on_progress)
}

/// Who finishes a commit that was cut short learns from the view's log which data of a file its object has got.
fn make_log_durable(directory: &Path) -> Result<(), CommitError> {
    let path = directory.join("log");
    match File::open(&path).and_then(|log| log.sync_data()) {
        // Nothing has changed, but for what is held.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        synced => synced.map_err(|error| CommitError::stage(path, error)),
    }
}

/// Whether what a commit of the domain goes by, beside its changes, is as it was written: the list of what was
/// read, and the note of an earlier undo. That there is none of them, or no whole one, is fine.
///
/// # Errors
/// When they are damaged, and when the note cannot be read.
pub fn check_notes(directory: &Path) -> Result<(), CommitError> {
    if let Err(unknown) = surmise_view::load_reads(directory)
        && unknown.is_damage()
    {
        return Err(unknown.into());
    }
    journal::undone(directory)?;
    Ok(())
}

/// The journal of a commit that was cut short; `None` where none was.
fn cut_short(directory: &Path) -> Result<Option<(Journal, Contents)>, CommitError> {
    let Some((journal, mut contents)) = Journal::open(directory)? else {
        return Ok(None);
    };
    if contents.phase != Phase::Done {
        renumber(&mut contents)?;
    }
    Ok(Some((journal, contents)))
}

fn site(contents: &Contents) -> Result<Site<'_>, CommitError> {
    let mut site = open(&contents.plan, &contents.root)?;
    for staged in &contents.staged {
        site.set_staged(staged.staging, staged.key);
    }
    Ok(site)
}

fn revert<'s, 'p>(
    site: &'s Site<'p>,
    state: &'s Path,
    objects: &'s Objects,
    contents: &'s Contents,
) -> Revert<'s, 'p> {
    Revert {
        site,
        state,
        objects,
        made: &contents.made,
        preimages: &contents.preimages,
    }
}

/// Takes back whatever a commit has done, and forgets it.
fn take_back(
    directory: &Path,
    mut journal: Journal,
    contents: &Contents,
    on_progress: &mut OnProgress<'_>,
) -> Result<(), CommitError> {
    let objects = Objects::of(directory, &Map::default());
    let mut site = site(contents)?;
    let is_applied = contents.phase == Phase::Undoing;
    if is_applied && !contents.is_reverted {
        let revert = revert(&site, directory, &objects, contents);
        revert.check_kept()?;
        let steps = Steps::new(on_progress, Activity::Undo, revert.steps());
        revert.run(steps)?;
        // Only now may what was made go: an inode that is gone cannot be told from a later one that
        // has its number.
        journal.reverted().map_err(CommitError::journal)?;
    }
    let touched = match is_applied {
        true => contents.plan.touched(),
        false => contents.plan.staged_in(),
    };
    let steps = Steps::new(on_progress, Activity::Undo, contents.plan.stagings.len());
    undo_stage(&mut site, directory, &objects, &touched, steps)?;
    if is_applied {
        journal::note_undone(directory, change_times(&site)?)?;
    }
    journal::discard(directory).map_err(CommitError::journal)?;
    // Else a power loss might bring the journal back, and by then its names are somebody else's.
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(CommitError::journal)
}

/// What is to be committed, where device numbers are others than they were.
fn of_today(request: &Request<'_>, keep: &HashSet<InodeKey>) -> Result<Option<Today>, CommitError> {
    today(request.map, request.root, || {
        planned(request, "", keep, None).map(|(plan, _)| plan)
    })
}

fn on<'r>(request: &Request<'r>, today: Option<&'r Today>) -> Request<'r> {
    Request {
        map: today.map_or(request.map, |today| &today.map),
        ..*request
    }
}

/// What choices come to; `None` without any.
fn settled(
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

fn planned<'m>(
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
fn examine(
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
