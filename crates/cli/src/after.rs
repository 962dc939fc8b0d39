//! What becomes of a domain's changes after a run.

use surmise_api::results::{CommitResult, Fate};
use surmise_api::{Domain, Exit, Pending};

use crate::commit::commit_or_keep;
use crate::failure::Failure;
use crate::launch;
use crate::pending;
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

/// What has become of a domain.
pub struct Settled {
    pub fate: Fate,
    /// What could not be kept of it, for want of space say; a line each.
    pub missing: Vec<String>,
    /// What the commit did, if there was one.
    pub commit: Option<CommitResult>,
}

impl From<Fate> for Settled {
    fn from(fate: Fate) -> Self {
        Self {
            fate,
            missing: Vec::new(),
            commit: None,
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
        Choice::CommitIfZero => commit_if_zero(domain, exit, pending),
        Choice::ShowAndAbort => {
            pending::show(pending)?;
            domain.abort()?;
            Ok(Fate::Aborted.into())
        }
    }
}

fn commit_if_zero(domain: Domain, exit: Exit, pending: &Pending) -> Result<Settled, Failure> {
    if exit.code() == 0 {
        return committed(domain);
    }
    domain.abort()?;
    report::note(format_args!(
        "the command {}; aborted, {} thrown away",
        ended(exit),
        pending::amount(pending),
    ));
    Ok(Fate::Aborted.into())
}

fn committed(domain: Domain) -> Result<Settled, Failure> {
    let name = domain.name().to_owned();
    let committed = commit_or_keep(domain)?;
    Ok(Settled {
        commit: Some(CommitResult::of(&name, &committed)),
        ..Fate::Committed.into()
    })
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
        missing: made_durable(domain),
        ..Fate::Kept.into()
    };
    if !telling.tells() {
        return settled;
    }
    let name = domain.name();
    report::note(format_args!(
        "{} kept in domain {name}; nothing has changed outside",
        pending::amount(pending),
    ));
    report::follow_ups(name);
    settled
}

/// Makes a domain that is kept durable, and tells, and returns, what is to be feared if that fails.
pub fn made_durable(domain: &Domain) -> Vec<String> {
    let missing = surmise_api::keep(domain);
    missing.iter().for_each(report::note);
    missing
}

fn ask(domain: Domain, telling: Telling) -> Result<Settled, Failure> {
    let boundary = domain.record().boundary.clone();
    let mut pending = domain.pending()?;
    pending::show(&pending)?;
    loop {
        let line = terminal::ask(prompt::QUESTION)
            .map_err(|error| Failure::new(format_args!("ask on the terminal: {error}")))?;
        match prompt::answer(line.as_deref()) {
            None => {}
            Some(Answer::Commit) => {
                let settled = committed(domain)?;
                report::note(format_args!("{} committed", pending::amount(&pending)));
                return Ok(settled);
            }
            Some(Answer::Abort) => {
                domain.abort()?;
                return Ok(Fate::Aborted.into());
            }
            Some(Answer::Diff) => summary::show_all(&domain, &pending)?,
            Some(Answer::Shell) => {
                match launch::enter(&domain, Vec::new(), boundary.clone(), false, telling) {
                    Ok(_) => {
                        pending = domain.pending()?;
                        pending::show(&pending)?;
                    }
                    // There is still something to decide.
                    Err(failure) => failure.tell(),
                }
            }
            Some(Answer::Keep) => return Ok(keep(&domain, &pending, telling)),
        }
    }
}
