//! `surmise diff`.

use std::path::PathBuf;
use std::process::ExitCode;

use surmise_api::Surmise;
use surmise_diff::forms::Shown;

use crate::damaged;
use crate::failure::Failure;
use crate::form;
use crate::held;
use crate::launch;
use crate::paths::resolve;

/// Show what a domain changed
///
/// One line a change: A path (added), M path (modified), D path (deleted), R old -> new (renamed),
/// T path (another type of file); and H destination (bytes): first line, for output that is held until
/// the commit. A directory ends in a slash. Paths below the current directory are
/// relative to it, others absolute.
///
/// What a change means for who may do what follows after a tab, where there is anything to say; a
/// path never has a tab in it, so `cut -f1` leaves the paths. As comments the same lines begin a patch,
/// which cannot hold them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  surmise diff demo
  surmise diff demo src/ Makefile
  surmise diff -p demo | git apply --stat
  surmise diff demo | grep -P '\\t.*set-user-id'

After the tab, with commas between them:
  set-user-id USER      who executes the file gets the rights of USER
  set-group-id GROUP    the same of GROUP; of a new directory: what is made in it belongs to GROUP
  capabilities LIST     the same of capabilities, as getcap prints them; no capabilities: it
                        had some
  executable            it can be executed, and could not before
  writable by all       everybody may write it, and could not before
  mode OLD -> NEW       other permission bits than before
  owner OLD -> NEW      another owner; owner NEW: a new file that is not your own
  group OLD -> NEW      the same of the group
  attribute NAME        an extended attribute has another value; no attribute NAME: it is gone
  symbolic link to \"TARGET\", FIFO, socket, whiteout, character device N:N, block device N:N
                        neither a file nor a directory
  was a KIND            another type of file before
Users and groups are numbers, but for root. A file that lends its owner's rights, its group's or
capabilities says so with each change of it, also where it is only renamed.

Example:
  M bin/tool    set-user-id root, mode 0755 -> 4755")]
pub struct Arguments {
    /// The domain to look at
    name: String,

    #[command(flatten)]
    form: form::Choice,

    /// Show what can be read of a domain that is damaged, and say what cannot
    #[arg(long)]
    damaged: bool,

    /// Only changes at or below these paths
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
}

impl Arguments {
    /// Prints the changes.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let domain = Surmise::locate()?.domain(&self.name)?;
        let base = launch::directory()?;
        let wanted: Vec<_> = self.paths.iter().map(|path| resolve(&base, path)).collect();
        if self.damaged {
            return damaged::show(&domain, &self.form, &wanted, &base);
        }
        // Output is below no path.
        let held = match wanted.is_empty() {
            true => domain.held()?,
            false => Vec::new(),
        };
        let shown = Shown {
            diff: &domain.noted_changes()?.below(&wanted),
            held: &held::shown(&held),
            base: &base,
        };
        self.form.print(&domain, &shown)?;
        Ok(ExitCode::SUCCESS)
    }
}
