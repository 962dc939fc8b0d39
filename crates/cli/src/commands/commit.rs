//! `surmise commit`.

use std::process::ExitCode;

use surmise_domain::StateRoot;

use crate::commit::{commit, undo};
use crate::failure::Failure;
use crate::report;
use crate::summary::count;

/// Make a domain's changes real
///
/// First checks that nothing which the domain changed has changed outside since; if something has, or
/// a right or space is missing, nothing is changed and the domain is kept. A commit that was cut
/// short, by a crash say, is finished by the same command, or taken back with --undo.
///
/// Output that was held goes out then, once and in order. A domain whose command still runs stands
/// still meanwhile and goes on afterwards; what it does from then on waits for the next commit.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  surmise commit demo
  surmise commit --undo demo")]
pub struct Arguments {
    /// The domain to commit
    name: String,

    /// Take back a commit that was cut short, and keep the domain
    ///
    /// Everything outside is as before the commit then, save for change times (ctime). If somebody has
    /// changed meanwhile what the commit had changed, those paths are listed and nothing is done. Once a
    /// commit has made all its changes and removes what they replaced, it can only be finished.
    #[arg(long)]
    undo: bool,
}

impl Arguments {
    /// Commits it.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let domain = StateRoot::locate()?.open(&self.name)?;
        if self.undo {
            undo(&domain)?;
            report::note("the commit is taken back; its changes are kept");
            report::follow_ups(&self.name);
            return Ok(ExitCode::SUCCESS);
        }
        let committed = commit(domain)?;
        if committed.goes_on {
            let changes = count(committed.done.changes, "change");
            report::note(format_args!("{changes} committed; the command goes on"));
        }
        Ok(ExitCode::SUCCESS)
    }
}
