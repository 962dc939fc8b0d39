//! `surmise commit`.

use std::process::ExitCode;

use surmise_domain::StateRoot;

use crate::commit::commit;
use crate::failure::Failure;

/// Make a domain's changes real
///
/// First checks that nothing which the domain changed has changed outside since; if something has, or
/// a right or space is missing, nothing is changed and the domain is kept. A commit that was cut
/// short, by a crash say, is finished by the same command.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  surmise commit demo")]
pub struct Arguments {
    /// The domain to commit
    name: String,
}

impl Arguments {
    /// Commits it.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let domain = StateRoot::locate()?.open(&self.name)?;
        commit(domain)?;
        Ok(ExitCode::SUCCESS)
    }
}
