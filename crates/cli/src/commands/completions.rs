//! `surmise completions`.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::completion::{self, Shell};
use crate::failure::Failure;

/// Print a script that completes command lines of surmise in a shell
///
/// It completes subcommands, options, the names of domains, and the command behind `surmise run`. The
/// Debian package installs the scripts where the shells find them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  surmise completions bash >~/.local/share/bash-completion/completions/surmise
  surmise completions zsh >~/.zfunc/_surmise
  surmise completions fish >~/.config/fish/completions/surmise.fish
  source <(surmise completions bash)")]
pub struct Arguments {
    /// The shell
    shell: Shell,
}

impl Arguments {
    /// Prints the script.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let mut out = anstream::stdout().lock();
        completion::write(self.shell, &crate::Arguments::command(), &mut out)?;
        Ok(ExitCode::SUCCESS)
    }
}
