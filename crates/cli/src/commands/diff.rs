//! `surmise diff`.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use surmise_diff::{Diff, PatchError};
use surmise_kept::{Domain, StateRoot};

use crate::damaged;
use crate::failure::Failure;
use crate::held;
use crate::launch;
use crate::patch::{Contents, left_out};
use crate::paths::resolve;
use crate::report;

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

    /// Print a patch, as `git apply` takes it in the current directory
    #[arg(short, long)]
    patch: bool,

    /// Show what can be read of a domain that is damaged, and say what cannot
    #[arg(long, conflicts_with = "patch")]
    damaged: bool,

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
        if self.damaged {
            return damaged::show(&domain, &wanted, &base);
        }
        let diff = domain.noted_changes()?.below(&wanted);
        if self.patch {
            print_patch(&domain, &diff, &base)?;
        } else {
            // Output is below no path.
            let held = match wanted.is_empty() {
                true => held::rows(&domain)?,
                false => Vec::new(),
            };
            print_lines(&diff, &held, &base)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

pub(crate) fn print_lines(diff: &Diff, held: &[held::Row], base: &Path) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    for row in diff {
        writeln!(out, "{}", row.line(base))?;
    }
    for held in held {
        writeln!(out, "{}", held.line())?;
    }
    Ok(out.flush()?)
}

/// The patch is standard output byte for byte; what it lacks is said on standard error.
fn print_patch(domain: &Domain, diff: &Diff, base: &Path) -> Result<(), Failure> {
    let contents = Contents::of(domain)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let left = contents
        .write_patch(diff, base, &mut out)
        .and_then(|left| Ok(out.flush().map(|()| left)?));
    match left {
        Ok(left) => {
            left_out(&left, base).iter().for_each(report::note);
            Ok(())
        }
        Err(PatchError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Err(error.into())
        }
        // It may be the contents that cannot be read.
        Err(error) => Err(Failure::new(format_args!("write the patch: {error}"))),
    }
}
