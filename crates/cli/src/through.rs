//! The option by which a directory of a domain's is the real one.

use std::path::PathBuf;

use surmise_api::{Surmise, Through, pass_through};

use crate::failure::Failure;
use crate::report;

/// What is not undone.
#[derive(clap::Args)]
pub struct Passing {
    /// Change the files below this directory at once: they are not undone
    ///
    /// Where its file system commits in order, as `surmise sync` needs it, a sync of a file there returns at once, and
    /// what the command puts out waits until all is durable that it was promised before.
    #[arg(long, value_name = "DIR")]
    through: Option<PathBuf>,
}

impl Passing {
    /// The directory, and how syncs are put off there.
    pub fn through(&self, surmise: &Surmise) -> Result<Option<Through>, Failure> {
        let Some(given) = &self.through else {
            return Ok(None);
        };
        let (through, no_driver) = pass_through(given, surmise.path())?;
        if let Some(error) = no_driver {
            let shown = through.directory.display();
            report::note(format_args!(
                "every fsync below {shown} is a real one: {error}"
            ));
        }
        Ok(Some(through))
    }
}
