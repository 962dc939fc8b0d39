//! `surmise shell`.

use std::ffi::OsString;
use std::process::ExitCode;

use surmise_api::Surmise;

use crate::after;
use crate::boundary;
use crate::failure::Failure;
use crate::launch;
use crate::refused::Telling;

/// Run a shell, or another command, inside a kept domain
///
/// It sees the domain's changes and adds to them. The domain is kept; `surmise diff`, `surmise
/// commit` and `surmise abort` go on as before. What it reaches over the network is, without
/// options, what the domain's first command did.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// The domain to enter
    name: String,

    /// Wait for processes that outlive the command; without it, they are ended
    #[arg(long)]
    wait: bool,

    /// The command and its arguments; without them, $SHELL
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,

    #[command(flatten)]
    telling: Telling,

    #[command(flatten)]
    boundary: boundary::Options,
}

const AFTER_HELP: &str = "\
Examples:
  surmise shell demo
  surmise shell demo -- git status

Exit status:
  as that of `surmise run`";

impl Arguments {
    /// Runs it and leaves the domain as it then is.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let domain = Surmise::locate()?.domain(&self.name)?;
        let before = &domain.record().boundary;
        let boundary = self.boundary.boundary_like(before, &launch::directory()?);
        let outcome = launch::enter(&domain, self.command, boundary, self.wait, self.telling)?;
        after::made_durable(&domain);
        Ok(ExitCode::from(outcome.exit.code()))
    }
}
