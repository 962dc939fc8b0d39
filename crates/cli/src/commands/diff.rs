//! `surmise diff`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use surmise_domain::StateRoot;

use crate::failure::Failure;
use crate::launch;
use crate::paths::resolve;

/// Show what a domain changed
///
/// One line a change: A path (added), M path (modified), D path (deleted), R old -> new (renamed),
/// T path (another type of file). A directory ends in a slash. Paths below the current directory are
/// relative to it, others absolute.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  surmise diff demo
  surmise diff demo src/ Makefile")]
pub struct Arguments {
    /// The domain to look at
    name: String,

    /// Only changes at or below these paths
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
}

impl Arguments {
    /// Prints the changes.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let domain = StateRoot::locate()?.open(&self.name)?;
        let base = launch::directory()?;
        let wanted: Vec<_> = self.paths.iter().map(|path| resolve(&base, path)).collect();
        let changes = domain.changes()?.below(&wanted);
        let mut out = anstream::stdout().lock();
        for change in &changes {
            writeln!(out, "{}", change.line(&base))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
