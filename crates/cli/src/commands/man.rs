//! `surmise man`.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::failure::Failure;
use crate::manual::Page;

/// Write the manual pages into a directory
///
/// One page for surmise and one for each subcommand, as `man` reads them. The directory is made if
/// need be. The Debian package installs the pages where `man` finds them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  surmise man ~/.local/share/man/man1 && man surmise-run")]
pub struct Arguments {
    /// Where to put them
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Arguments {
    /// Writes one file a page.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let shown = self.directory.display();
        fs::create_dir_all(&self.directory)
            .map_err(|error| Failure::new(format_args!("make {shown}: {error}")))?;
        for page in Page::all(crate::Arguments::command()) {
            let path = self.directory.join(page.file_name());
            fs::write(&path, page.text())
                .map_err(|error| Failure::new(format_args!("write {}: {error}", path.display())))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
