//! What becomes of a domain's changes after a run.

use surmise_domain::{Domain, Exit};

use crate::commit::commit;
use crate::failure::Failure;
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

/// Does with `domain`, in which a command has ended as `exit` says, what `choice` wants.
pub fn settle(
    domain: Domain,
    exit: Exit,
    pending: &Pending,
    (choice, telling): (Choice, Telling),
) -> Result<Fate, Failure> {
    if pending.is_empty() {
        domain.abort()?;
        return Ok(Fate::Unchanged);
    }
    match choice {
        Choice::Ask => ask(domain, telling),
        Choice::Keep => keep(&domain, pending, telling),
        Choice::CommitIfZero => commit_if_zero(domain, exit, pending),
        Choice::ShowAndAbort => {
            pending.show()?;
            domain.abort()?;
            Ok(Fate::Aborted)
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
        Err(failure) => {
            // The first error is the one to tell. There may be no domain any more.
            let _ = domain.make_durable();
            Err(failure)
        }
    }
}

fn ended(exit: Exit) -> String {
    match exit {
        Exit::Exited(status) => format!("exited with {status}"),
        Exit::Signaled(signal) => format!("was ended by signal {signal}"),
    }
}

fn keep(domain: &Domain, pending: &Pending, telling: Telling) -> Result<Fate, Failure> {
    domain.make_durable()?;
    if !telling.tells() {
        return Ok(Fate::Kept);
    }
    let name = domain.name();
    report::note(format_args!(
        "{pending} kept in domain {name}; nothing has changed outside",
    ));
    report::follow_ups(name);
    Ok(Fate::Kept)
}

fn ask(domain: Domain, telling: Telling) -> Result<Fate, Failure> {
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
                return Ok(Fate::Committed);
            }
            Some(Answer::Abort) => {
                domain.abort()?;
                return Ok(Fate::Aborted);
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
            Some(Answer::Keep) => return keep(&domain, &pending, telling),
        }
    }
}
