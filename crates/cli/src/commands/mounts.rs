//! `surmise mounts`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use surmise_mount::lost;
use surmise_mount::status::{self, Described};

use crate::failure::Failure;
use crate::json::Json;
use crate::lost_changes::{self, LostRow};
use crate::size;
use crate::table::Table;

/// List the directories of other machines that you have mounted
///
/// Below them are listed the changes that mounts have lost, a file for each time.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Print a JSON object on standard output
    #[arg(long, conflicts_with = "replay")]
    json: bool,

    /// Make the lost changes that a file has, on the mount that they come from
    ///
    /// What is there by now keeps its name and content: where others have changed the same, what was lost goes beside it, as
    /// NAME.conflict-1. A replay that was interrupted goes on. The file is removed when all is made, and kept if a change had to be left out.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,

    /// Only show what the file has
    #[arg(long, requires = "replay", conflicts_with = "onto")]
    show: bool,

    /// Make the changes in this directory instead
    #[arg(long, value_name = "DIR", requires = "replay")]
    onto: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Columns:
  STATE      connected, or for how long there has been no connection
  UNDECIDED  changes that are not known to be on the server's disk
  WAITING    calls of programs that wait for the server
  LOST       how often changes or locks were lost
  CACHE      what is kept of files on disk for the next mount

Columns of lost changes, which wait in a file each until they are replayed or the file is removed:
  CHANGES    how many there are
  DATA       what they carry
  STATE      waits, begun (a replay was interrupted), left (it had to leave changes out), damaged

JSON:
  {\"mounts\", \"lost\"}. Mounts are an array of {\"source\", \"mount_point\", \"process\", \"status\"};
  status is {\"is_connected\", \"for_seconds\", \"undecided_groups\", \"undecided_bytes\",
  \"waiting_calls\", \"is_ending\", \"lost\", \"sent\", \"received\", \"fetched_bytes\",
  \"reused_bytes\", \"cache_bytes\"}. Sent and received are {\"bytes\", \"line_bytes\"}: how long
  messages were, and how much of the line they took. Bytes of files were fetched from the server,
  or reused, which the cache had; cache_bytes is what that takes on disk, null without one. Lost is
  an array of {\"file\", \"state\", \"source\", \"mount_point\", \"at\", \"why\", \"changes\", \"bytes\"},
  without what cannot be read of a damaged file

Examples:
  surmise mounts --replay FILE --show
  surmise mounts --replay FILE
  surmise mounts --replay FILE --onto ~/rescued

Exit status of a replay:
  0  all changes are made, those included that went beside what others have changed
  1  a change was left out, or the replay did not come to its end; the file is kept";

/// What is printed as JSON.
#[derive(Serialize)]
struct Listed {
    mounts: Vec<Described>,
    lost: Vec<LostRow>,
}

impl Arguments {
    /// Where it prints JSON, if it was asked to.
    pub fn json(&self) -> Option<Json> {
        self.json.then_some(Json::Out)
    }

    /// Prints a line for each mount, or has lost changes made.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        if let Some(file) = &self.replay {
            return match self.show {
                true => lost_changes::show(file),
                false => lost_changes::replay(file, self.onto.as_deref()),
            };
        }
        let failed = |error| Failure::new(format_args!("read the mounts: {error}"));
        let mounts = status::all(&status::directory()).map_err(failed)?;
        let lost = lost::all(&lost::directory()).map_err(failed)?;
        let lost: Vec<_> = lost.iter().map(LostRow::of).collect();
        let mut out = anstream::stdout().lock();
        if self.json {
            let text = serde_json::to_string_pretty(&Listed { mounts, lost });
            writeln!(out, "{}", text.map_err(Failure::new)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        if !mounts.is_empty() {
            table(&mounts).write(&mut out)?;
        }
        if !mounts.is_empty() && !lost.is_empty() {
            writeln!(out)?;
        }
        if !lost.is_empty() {
            lost_changes::table(&lost).write(&mut out)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn table(all: &[Described]) -> Table<7> {
    let header = [
        "SOURCE",
        "DIRECTORY",
        "STATE",
        "UNDECIDED",
        "WAITING",
        "LOST",
        "CACHE",
    ];
    let mut table = Table::new(header);
    for one in all {
        let status = &one.status;
        let state = match status.is_connected {
            true => "connected".to_owned(),
            false => format!("away for {} s", status.for_seconds),
        };
        table.push([
            one.source.clone(),
            one.mount_point.display().to_string(),
            state,
            size::shown(status.undecided_bytes as u64),
            status.waiting_calls.to_string(),
            status.lost.len().to_string(),
            status
                .cache_bytes
                .map_or_else(|| "-".to_owned(), size::shown),
        ]);
    }
    table
}
