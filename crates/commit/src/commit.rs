//! Commits the changes of a view to the real tree: check, stage, apply.

use std::fs::File;
use std::io;
use std::path::Path;

use surmise_view::Map;

use crate::apply::Apply;
use crate::error::CommitError;
use crate::examine::{check_again, examine, kept_inodes, of_today, on, open, planned, settled};
use crate::journal::{self, Journal};
use crate::locate::Site;
use crate::objects::Objects;
use crate::preimage;
use crate::reads::{Reads, Terms};
use crate::report::{Activity, Report};
use crate::stage::Stage;
use crate::steps::{OnProgress, Steps};
use crate::undo::undo_stage;

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
/// [`crate::resume`] goes on.
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

/// The start of this commit's temporary names; no other commit has the same.
fn prefix(name: &str) -> String {
    let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), name);
    // Names are at most 255 bytes, and a number follows.
    let name: String = name.chars().take(32).collect();
    format!(".surmise-{name}-{random:016x}-")
}
