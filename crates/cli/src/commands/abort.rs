//! `surmise abort`.

use std::process::ExitCode;

use surmise_domain::{Aborted, Domain, StateError, StateRoot, Status};

use crate::failure::Failure;
use crate::report;

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

    /// Abort every domain whose command has ended
    #[arg(long)]
    all: bool,
}

impl Arguments {
    /// Aborts them; none if one of the names is unknown. One that cannot be aborted does not keep the
    /// others.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let root = StateRoot::locate()?;
        let domains = if self.all {
            let mut domains = root.list()?;
            domains.retain(has_ended);
            domains
        } else {
            self.names
                .iter()
                .map(|name| root.open(name))
                .collect::<Result<_, _>>()?
        };
        let mut failed = None;
        for domain in domains {
            let name = domain.name().to_owned();
            match domain.abort() {
                // All are gone when somebody else was quicker, too.
                Err(StateError::Unknown { .. }) if self.all => {}
                Err(error) => {
                    failed.get_or_insert(error);
                }
                Ok(Aborted::Whole) => {}
                Ok(Aborted::Unsent) => report::note(format_args!(
                    "the changes of {name} had been committed, and stay; what could not be sent is dropped"
                )),
                Ok(Aborted::CommittedInPart) => report::note(format_args!(
                    "a commit of {name} had been cut short, and what it takes to take it back is \
                     damaged: what it had changed outside stays"
                )),
            }
        }
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(ExitCode::SUCCESS),
        }
    }
}

fn has_ended(domain: &Domain) -> bool {
    matches!(domain.status(), Status::Ended { .. } | Status::Interrupted)
}
