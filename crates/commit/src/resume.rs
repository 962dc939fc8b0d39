//! A commit that was cut short: finished, or taken back.

use std::fs::File;
use std::path::Path;

use surmise_view::{LoadError, Map};

use crate::apply::{Apply, report};
use crate::devices::renumber;
use crate::error::CommitError;
use crate::examine::open;
use crate::journal::{self, Contents, Journal, Phase};
use crate::locate::Site;
use crate::objects::Objects;
use crate::report::{Activity, Report};
use crate::revert::{Revert, change_times, changed_since};
use crate::steps::{OnProgress, Steps};
use crate::undo::undo_stage;

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
                source => CommitError::Changes {
                    path: directory.join("log"),
                    source,
                },
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
