//! `surmise mounts`.

use std::io::Write;
use std::process::ExitCode;

use surmise_mount::status::{self, Described};

use crate::failure::Failure;
use crate::json::Json;
use crate::size;
use crate::table::Table;

/// List the directories of other machines that you have mounted
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Print a JSON array, one object a mount, on standard output
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Columns:
  STATE      connected, or for how long there has been no connection
  UNDECIDED  changes that are not known to be on the server's disk
  WAITING    calls of programs that wait for the server
  LOST       how often changes or locks were lost
  CACHE      what is kept of files on disk for the next mount

JSON:
  An array of {\"source\", \"mount_point\", \"process\", \"status\"}; status is {\"is_connected\",
  \"for_seconds\", \"undecided_groups\", \"undecided_bytes\", \"waiting_calls\", \"is_ending\", \"lost\",
  \"fetched_bytes\", \"reused_bytes\", \"cache_bytes\"}: bytes of files that the server has sent, bytes that the
  cache had in place of these, and what the cache takes on disk, null without one";

impl Arguments {
    /// Where it prints JSON, if it was asked to.
    pub fn json(&self) -> Option<Json> {
        self.json.then_some(Json::Out)
    }

    /// Prints a line for each mount.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let all = status::all(&status::directory());
        let all = all.map_err(|error| Failure::new(format_args!("read the mounts: {error}")))?;
        let mut out = anstream::stdout().lock();
        if self.json {
            let text = serde_json::to_string_pretty(&all).map_err(Failure::new)?;
            writeln!(out, "{text}")?;
        } else if !all.is_empty() {
            table(&all).write(&mut out)?;
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
