//! `surmise abort`.

use std::process::ExitCode;

use surmise_api::results::{AbortedDomain, AbortedList};
use surmise_api::{Aborted, Domain, Maker, StateError, Status, Surmise};

use crate::failure::Failure;
use crate::json::Json;
use crate::prompt;
use crate::report;
use crate::summary::count;
use crate::terminal;
use surmise_api::quote::command_line;

/// Throw a domain's changes away
///
/// Outside, nothing has changed, and nothing changes now. A command that still runs is ended.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  surmise abort demo
  surmise abort --all")]
pub struct Arguments {
    /// The domains to abort
    #[arg(
        value_name = "NAME",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    names: Vec<String>,

    /// Abort every domain of yours whose command has ended
    ///
    /// They are listed first; on a terminal Surmise asks, in a script it does not. Several people or tools
    /// may share an account: what another has made is left, and named. Makers are told apart by
    /// SURMISE_MAKER, by who called sudo and by who logged in; `surmise list` shows them.
    #[arg(long)]
    all: bool,

    /// With --all, also what others have made, or nobody knows who
    #[arg(long, requires = "all")]
    everyone: bool,

    /// With --all, do not ask
    #[arg(long, requires = "all")]
    yes: bool,

    /// Do not ask; print the result as a JSON object on standard output
    ///
    /// {"aborted": [{"name", "changes"}], "left": [NAME]}; "changes" is null where they can't be counted,
    /// "left" is what others have made. If it fails, {"failed": {"error", "details", "hint", "domain",
    /// "status"}}.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Where it prints JSON, if it was asked to.
    pub fn json(&self) -> Option<Json> {
        self.json.then_some(Json::Out)
    }

    /// Aborts them; none if one of the names is unknown. One that cannot be aborted does not keep the
    /// others.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let root = Surmise::locate()?;
        if self.all {
            return self.abort_all(&root);
        }
        let domains: Vec<_> = self
            .names
            .iter()
            .map(|name| root.domain(name))
            .collect::<Result<_, _>>()?;
        let doomed = domains.into_iter().map(|domain| self.look_at(domain));
        let aborted = abort(doomed.collect(), false)?;
        self.print(aborted, Vec::new());
        Ok(ExitCode::SUCCESS)
    }

    fn abort_all(&self, root: &Surmise) -> Result<ExitCode, Failure> {
        let mut domains = root.domains_by_name()?;
        domains.retain(has_ended);
        let this = Maker::this();
        let (own, others): (Vec<_>, Vec<_>) = domains
            .into_iter()
            .partition(|domain| self.everyone || is_made_by(domain, &this));
        let own: Vec<_> = own.into_iter().map(|domain| self.look_at(domain)).collect();
        let others: Vec<_> = others
            .iter()
            .map(|domain| domain.name().to_owned())
            .collect();
        show(&own, &others);
        if !own.is_empty() && !self.yes && !self.json && terminal::can_ask() && !agreed()? {
            report::note("nothing is thrown away");
            return Ok(ExitCode::FAILURE);
        }
        let aborted = abort(own, true)?;
        self.print(aborted, others);
        Ok(ExitCode::SUCCESS)
    }

    /// Counts what would be thrown away, where somebody hears of it.
    fn look_at(&self, domain: Domain) -> Doomed {
        let is_told = self.all || self.json;
        let changes = is_told.then(|| domain.changes().ok()).flatten();
        Doomed {
            changes: changes.map(|changes| changes.len()),
            domain,
        }
    }

    fn print(&self, aborted: Vec<AbortedDomain>, left: Vec<String>) {
        if self.json {
            // They are gone, whether or not somebody reads it.
            let _ = Json::Out.print(&AbortedList { aborted, left });
        }
    }
}

/// A domain to be aborted.
struct Doomed {
    domain: Domain,
    /// How many; `None` where it is not known.
    changes: Option<usize>,
}

/// Aborts all that can be; `may_be_gone`: it does no harm if somebody else was quicker.
fn abort(doomed: Vec<Doomed>, may_be_gone: bool) -> Result<Vec<AbortedDomain>, Failure> {
    let mut aborted = Vec::new();
    let mut failed = None;
    for Doomed { domain, changes } in doomed {
        let name = domain.name().to_owned();
        match domain.abort() {
            Err(StateError::Unknown { .. }) if may_be_gone => {}
            Err(error) => {
                failed.get_or_insert(error);
            }
            Ok(how) => {
                tell(&name, how);
                aborted.push(AbortedDomain {
                    name,
                    changes,
                    outcome: how.into(),
                });
            }
        }
    }
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(aborted),
    }
}

/// Says what an abort could not take back.
fn tell(name: &str, aborted: Aborted) {
    match aborted {
        Aborted::Whole => {}
        Aborted::Unsent => report::note(format_args!(
            "the changes of {name} had been committed, and stay; what could not be sent is dropped"
        )),
        Aborted::CommittedInPart => report::note(format_args!(
            "a commit of {name} had been cut short, and what it takes to take it back is \
             damaged: what it had changed outside stays"
        )),
    }
}

/// Says what is about to be thrown away, and what is not.
fn show(own: &[Doomed], others: &[String]) {
    if !own.is_empty() {
        let domains = count(own.len(), "domain");
        report::note(format_args!("to be thrown away: {domains}"));
        let lines: Vec<_> = own.iter().map(Doomed::line).collect();
        report::details(&lines, 0);
    }
    if !others.is_empty() {
        report::note(format_args!(
            "made by others, and left (--everyone takes them, too): {}",
            others.join(", ")
        ));
    }
}

impl Doomed {
    fn line(&self) -> String {
        let changes = self
            .changes
            .map_or_else(|| "? changes".into(), |changes| count(changes, "change"));
        let command = command_line(&self.domain.record().command);
        format!("{}: {changes}, {command}", self.domain.name())
    }
}

fn agreed() -> Result<bool, Failure> {
    loop {
        let line = terminal::ask(prompt::ABORT_ALL)
            .map_err(|error| Failure::new(format_args!("ask on the terminal: {error}")))?;
        if let Some(agreed) = prompt::yes_or_no(line.as_deref()) {
            return Ok(agreed);
        }
    }
}

fn is_made_by(domain: &Domain, maker: &Maker) -> bool {
    let made_by = domain.record().maker.as_ref();
    made_by.is_some_and(|made_by| made_by.is_same(maker))
}

fn has_ended(domain: &Domain) -> bool {
    matches!(domain.status(), Status::Ended { .. } | Status::Interrupted)
}
