//! `surmise commit`.

use std::path::PathBuf;
use std::process::ExitCode;

use surmise_api::results::{CommitLine, CommitResult, Undone};
use surmise_api::{After, Choice, Committed, Domain, Resend, Surmise, Terms, Winner};

use crate::commit::{commit_quietly, tell, undo};
use crate::failure::Failure;
use crate::json::Json;
use crate::paths;
use crate::progress::Display;
use crate::report;
use crate::summary::count;

/// Make a domain's changes real
///
/// First checks that nothing which the domain changed has changed outside since; if something has, or
/// a right or space is missing, nothing is changed and the domain is kept. A commit that was cut
/// short, by a crash say, is finished by the same command, or taken back with --undo. Files that the
/// command merely read and that have changed outside since are told after the commit.
///
/// Output that was held goes out then, once and in order. A domain whose command still runs stands
/// still meanwhile and goes on afterwards; what it does from then on waits for the next commit.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  surmise commit demo
  surmise commit --strict demo
  surmise commit --force-theirs Cargo.lock --force-ours src demo
  surmise commit --undo demo
  surmise commit --unsent rest demo")]
pub struct Arguments {
    /// The domain to commit
    name: String,

    /// Take back a commit that was cut short, and keep the domain
    ///
    /// Everything outside is as before the commit then, save for change times (ctime). If somebody has
    /// changed meanwhile what the commit had changed, those paths are listed and nothing is done. Once a
    /// commit has made all its changes and removes what they replaced, it can only be finished.
    #[arg(long, conflicts_with_all = ["strict", "ours", "theirs", "unsent", "forget_reads"])]
    undo: bool,

    /// Commit without knowing what the command read, where the record of that is damaged
    ///
    /// What was read and has changed outside is not told then. Whatever else of the domain is damaged still
    /// ends the commit.
    #[arg(long, conflicts_with = "strict")]
    forget_reads: bool,

    /// Send held output that an earlier commit could not send as a whole
    ///
    /// `rest` sends what is not known to have left, `whole` sends all of it once more, each on a new
    /// connection. Without this option such output stays where it is; `surmise abort` drops it.
    #[arg(long, value_name = "PART")]
    unsent: Option<Part>,

    /// Count it as a conflict, too, when a file that the command only read has changed outside since
    ///
    /// That is every file that was opened and every symbolic link that was followed since the domain began,
    /// or since its last commit; not names that were only looked at, nor directories that were listed. With
    /// --force-ours or --force-theirs, what was read at PATH and below does not count. Where it is not known
    /// what the command read, because the domain was cut short by a kill or a crash or is from an earlier
    /// version, nothing is committed.
    #[arg(long)]
    strict: bool,

    /// In conflicts at PATH and below, the domain's version wins
    ///
    /// What is outside now is changed, replaced or removed as what the domain found would have been. Of
    /// something that was removed, replaced or moved outside, and that the domain had only changed or
    /// moved, there is no version of the domain's: such a conflict cannot be forced. Only for a domain whose
    /// command has ended, and can be given more than once; the nearest path counts.
    #[arg(long = "force-ours", value_name = "PATH")]
    ours: Vec<PathBuf>,

    /// In conflicts at PATH and below, what is outside stays
    ///
    /// The domain's change of it is left out, and what cannot be without that: the other half of a move,
    /// or the removal of a directory that is not empty then. What is left out goes with the domain.
    #[arg(long = "force-theirs", value_name = "PATH")]
    theirs: Vec<PathBuf>,

    /// Print progress and result as lines of JSON on standard output
    ///
    /// While it works, lines {"progress": {"activity", "done", "total", "seconds_left"}}; the activities
    /// are stage, keep, apply, send and undo, and seconds_left is null while the pace is not known. The
    /// last line is {"committed": {"name", "changes", "goes_on", "left", "read_changed", "sent", "unsent",
    /// "sending"}}, {"undone": {"name"}} or {"failed": {"error", "details", "hint", "domain", "status"}}. What is in "unsent" is
    /// kept in the domain; "bytes" of it have left. Held output of the
    /// command itself goes to standard error. "read_changed" is {"count", "first"}: how many files that
    /// the command merely read had changed outside, and a line for each of the first of them.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Where it prints JSON, if it was asked to.
    pub fn json(&self) -> Option<Json> {
        self.json.then_some(Json::Out)
    }

    /// Commits it, or takes a commit back.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let done = self.decide();
        let decided = done?;
        if self.json {
            // As all remarks: what can't be written does not change what was done.
            let _ = match &decided {
                Decided::Committed(committed) => {
                    let result = CommitResult::of(&self.name, committed);
                    Json::Out.print(&CommitLine::Committed(result))
                }
                Decided::Undone => {
                    let name = self.name.clone();
                    Json::Out.print(&CommitLine::Undone(Undone { name }))
                }
            };
        }
        match decided {
            Decided::Committed(committed) => {
                tell(&self.name, &committed).map_err(Failure::in_result)?;
                if committed.domain == After::RunsOn {
                    let changes = count(committed.done.changes, "change");
                    report::note(format_args!("{changes} committed; the command goes on"));
                }
            }
            Decided::Undone => {
                report::note("the commit is taken back; its changes are kept");
                report::follow_ups(&self.name);
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn decide(&self) -> Result<Decided, Failure> {
        let domain = Surmise::locate()?.domain(&self.name)?;
        let display = match self.json {
            true => Display::as_json(),
            false => Display::on_terminal(),
        };
        if self.undo {
            undo(&domain, display)?;
            return Ok(Decided::Undone);
        }
        if self.forget_reads && !domain.forget_damaged_reads()? {
            return Err(
                Failure::new("the record of what the command read is not damaged")
                    .hint("commit without --forget-reads"),
            );
        }
        if let Some(part) = self.unsent {
            send_again(&domain, part)?;
        }
        let terms = Terms {
            choices: &self.choices()?,
            is_strict: self.strict,
        };
        commit_quietly(domain, terms, display).map(Decided::Committed)
    }

    fn choices(&self) -> Result<Vec<Choice>, Failure> {
        let base = std::env::current_dir().map_err(Failure::new)?;
        let of = |paths: &[PathBuf], winner| -> Vec<Choice> {
            let paths = paths.iter().map(|path| paths::resolve(&base, path));
            paths.map(|path| Choice { path, winner }).collect()
        };
        let mut choices = of(&self.ours, Winner::Ours);
        let theirs = of(&self.theirs, Winner::Theirs);
        let is_both = |ours: &&Choice| theirs.iter().any(|theirs| theirs.path == ours.path);
        if let Some(both) = choices.iter().find(is_both) {
            let path = both.path.display();
            return Err(Failure::new(format_args!("{path} is given to both sides"))
                .hint("name it with --force-ours or with --force-theirs"));
        }
        choices.extend(theirs);
        Ok(choices)
    }
}

/// What is sent of an output that was not sent as a whole.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Part {
    Rest,
    Whole,
}

fn send_again(domain: &Domain, part: Part) -> Result<(), Failure> {
    let what = match part {
        Part::Rest => Resend::Rest,
        Part::Whole => Resend::Whole,
    };
    match domain.send_again(what)? {
        0 => Err(Failure::new(format_args!(
            "nothing of domain `{}` is unsent",
            domain.name()
        ))
        .hint("commit without --unsent")),
        _ => Ok(()),
    }
}

enum Decided {
    Committed(Committed),
    Undone,
}
