//! What becomes of a domain's changes after a run.

use surmise_kept::{Domain, Exit};

use crate::commit::commit;
use crate::failure::Failure;
use crate::kept::Kept;
use crate::launch;
use crate::pending::Pending;
use crate::prompt::{self, Answer};
use crate::refused::Telling;
use crate::report;
use crate::summary;
use crate::terminal;

/// Who decides, and how.
#[derive(Clone, Copy)]
pub enum Choice {
    /// A person at the terminal.
    Ask,
    /// Nobody yet.
    Keep,
    /// The command: commit if it exits with 0, abort otherwise.
    CommitIfZero,
    /// Nobody: the changes are only shown.
    ShowAndAbort,
}

/// What has become of the changes.
#[derive(Clone, Copy, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// They are real.
    Committed,
    /// They never happened.
    Aborted,
    /// They wait.
    Kept,
    /// There were none, and the domain is gone.
    Unchanged,
}

/// What has become of a domain.
pub struct Settled {
    pub fate: Fate,
    /// What could not be kept of it, for want of space say; a line each.
    pub missing: Vec<String>,
}

impl From<Fate> for Settled {
    fn from(fate: Fate) -> Self {
        Self {
            fate,
            missing: Vec::new(),
        }
    }
}

/// Does with `domain`, in which a command has ended as `exit` says, what `choice` wants.
pub fn settle(
    domain: Domain,
    exit: Exit,
    pending: &Pending,
    (choice, telling): (Choice, Telling),
) -> Result<Settled, Failure> {
    if pending.is_empty() {
        domain.abort()?;
        return Ok(Fate::Unchanged.into());
    }
    match choice {
        Choice::Ask => ask(domain, telling),
        Choice::Keep => Ok(keep(&domain, pending, telling)),
        Choice::CommitIfZero => commit_if_zero(domain, exit, pending).map(Settled::from),
        Choice::ShowAndAbort => {
            pending.show()?;
            domain.abort()?;
            Ok(Fate::Aborted.into())
        }
    }
}

fn commit_if_zero(domain: Domain, exit: Exit, pending: &Pending) -> Result<Fate, Failure> {
    if exit.code() == 0 {
        commit_or_keep(domain)?;
        return Ok(Fate::Committed);
    }
    domain.abort()?;
    report::note(format_args!(
        "the command {}; aborted, {pending} thrown away",
        ended(exit),
    ));
    Ok(Fate::Aborted)
}

/// A domain whose commit fails is kept, and whoever keeps one makes it durable.
fn commit_or_keep(domain: Domain) -> Result<(), Failure> {
    match commit(domain.clone()) {
        Ok(_) => Ok(()),
        // The changes are committed, but for what the failure tells.
        Err(failure) if !domain.exists() => Err(failure),
        Err(failure) => {
            // The first error is the one to tell.
            let _ = domain.make_durable();
            Err(failure.kept_in(Kept::of(&domain)))
        }
    }
}

fn ended(exit: Exit) -> String {
    match exit {
        Exit::Exited(status) => format!("exited with {status}"),
        Exit::Signaled(signal) => format!("was ended by signal {signal}"),
    }
}

/// What a full disk takes of a domain must not take the command's status from its caller.
fn keep(domain: &Domain, pending: &Pending, telling: Telling) -> Settled {
    let settled = Settled {
        fate: Fate::Kept,
        missing: made_durable(domain),
    };
    if !telling.tells() {
        return settled;
    }
    let name = domain.name();
    report::note(format_args!(
        "{pending} kept in domain {name}; nothing has changed outside",
    ));
    report::follow_ups(name);
    settled
}

/// Makes a domain that is kept durable, and tells, and returns, what is to be feared if that fails.
pub fn made_durable(domain: &Domain) -> Vec<String> {
    let error = domain.make_durable().err();
    let missing: Vec<_> = error
        .map(|error| {
            format!(
                "a loss of power may take the changes, and damage to them may not be told: {error}"
            )
        })
        .into_iter()
        .collect();
    missing.iter().for_each(report::note);
    missing
}

fn ask(domain: Domain, telling: Telling) -> Result<Settled, Failure> {
    let boundary = domain.record().boundary.clone();
    let mut pending = Pending::of(&domain)?;
    pending.show()?;
    loop {
        let line = terminal::ask(prompt::QUESTION)
            .map_err(|error| Failure::new(format_args!("ask on the terminal: {error}")))?;
        match prompt::answer(line.as_deref()) {
            None => {}
            Some(Answer::Commit) => {
                commit_or_keep(domain)?;
                report::note(format_args!("{pending} committed"));
                return Ok(Fate::Committed.into());
            }
            Some(Answer::Abort) => {
                domain.abort()?;
                return Ok(Fate::Aborted.into());
            }
            Some(Answer::Diff) => summary::show_all(&domain, &pending)?,
            Some(Answer::Shell) => {
                match launch::enter(&domain, Vec::new(), boundary.clone(), false, telling) {
                    Ok(_) => {
                        pending = Pending::of(&domain)?;
                        pending.show()?;
                    }
                    // There is still something to decide.
                    Err(failure) => failure.tell(),
                }
            }
            Some(Answer::Keep) => return Ok(keep(&domain, &pending, telling)),
        }
    }
}
