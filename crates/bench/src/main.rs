//! The benchmark harness: every claim of speed is a ratio to a named peer in the same run.
//!
//! A row ([`rows`]) is data: what is measured, its peer and the limit that ours must keep. Both run
//! in alternating pairs, so that a drift of the machine meets both alike, and medians are compared.
//! The table goes to standard output, progress to standard error, the samples to
//! `target/bench/SUITE.json` and a picture of the ratios to `target/bench/SUITE.svg`.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark talks to the terminal"
)]

mod calls;
mod command;
mod exchange;
mod far;
mod hearing;
mod inputs;
mod limit;
mod measure;
mod memory;
mod messages;
mod place;
mod plot;
mod repeat;
mod report;
mod rival;
mod rows;
mod run;
mod sync;
mod told;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use calls::trial::Trial;
use exchange::client;
use far::loops::Loop;
use memory::Touch;
use place::Place;
use rival::Rivals;
use rows::Rows;
use sync::workload::Workload;

/// Compare Surmise with its peers, in alternating pairs on this machine
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    /// Run only tests whose name contains one of these
    #[arg(value_name = "TEST")]
    tests: Vec<String>,

    /// Run only these suites
    #[arg(long = "suite", value_name = "NAME")]
    suites: Vec<String>,

    /// Work in this directory, and leave the results there, instead of target/bench
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,

    /// Do not compare with other programs of the kind
    #[arg(long)]
    no_rivals: bool,

    /// How many pairs to measure, after one that is not counted; slow tests do with fewer
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,

    /// Stop sshfs after so many seconds, and tell only that it takes more
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    cap: u64,

    #[command(subcommand)]
    inside: Option<Inside>,
}

/// What this program does when it is the command that is measured.
#[derive(Subcommand)]
#[command(hide = true)]
enum Inside {
    /// Work with the server at an address, and print how well that went
    #[command(hide = true)]
    Client {
        /// The work, as JSON
        #[arg(value_parser = client::parse)]
        work: client::Work,
        address: SocketAddr,
    },
    /// Touch every file below a directory, say so, and stay until standard input ends
    #[command(hide = true)]
    Touch { how: Touch, directory: PathBuf },
    /// Be the server of a disk whose flushes take so long
    #[command(hide = true)]
    Disk {
        served: PathBuf,
        bytes: u64,
        delay_us: u64,
    },
    /// Write in the current directory, and ask after each change for it to be durable
    #[command(hide = true)]
    Write {
        /// The workload, as JSON
        #[arg(value_parser = sync::workload::parse)]
        workload: Workload,
        count: u32,
    },
    /// Make remote calls that depend on each other, and print what that took
    #[command(hide = true)]
    Calls {
        /// The trial, as JSON
        #[arg(value_parser = calls::trial::parse)]
        trial: Trial,
        how: How,
    },
    /// Make so many system calls, and print how many nanoseconds one took
    #[command(hide = true)]
    Call {
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        times: u32,
    },
    /// Make many small calls in the current directory
    #[command(hide = true)]
    Loop {
        #[command(subcommand)]
        what: Loop,
    },
    /// Be a web server on a port of loopback that logs in the current directory
    #[command(hide = true)]
    Log { port: u16 },
    /// Run a command so many times, and print how many milliseconds it took each time
    #[command(hide = true)]
    Repeat {
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        times: u32,
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

/// How calls are made.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum How {
    Plain,
    Ahead,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match &arguments.inside {
        Some(inside) => inside.execute().map(|()| ExitCode::SUCCESS),
        None => bench(&arguments),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::from(2)
        }
    }
}

impl Inside {
    fn execute(&self) -> Result<(), String> {
        match self {
            Self::Client { work, address } => {
                let value = work
                    .perform(*address)
                    .map_err(|error| format!("{work:?} with {address}: {error}"))?;
                println!("{value}");
            }
            Self::Touch { how, directory } => memory::touch(*how, directory)?,
            Self::Disk {
                served,
                bytes,
                delay_us,
            } => {
                let delay = Duration::from_micros(*delay_us);
                surmise_testkit::delayed_disk::serve(served, *bytes, delay)?;
            }
            Self::Write { workload, count } => workload
                .perform(*count)
                .map_err(|error| format!("{workload:?}: {error}"))?,
            Self::Calls { trial, how } => {
                let found = trial.perform(*how == How::Ahead)?;
                let found = serde_json::to_string(&found).map_err(|error| error.to_string())?;
                println!("{found}");
            }
            Self::Call { times } => hearing::call(*times),
            Self::Log { port } => {
                sync::posts::serve(*port).map_err(|error| format!("serve: {error}"))?;
            }
            Self::Loop { what } => what
                .perform()
                .map_err(|error| format!("{what:?}: {error}"))?,
            Self::Repeat { times, command } => repeat::repeat(*times, command)?,
        }
        Ok(())
    }
}

/// Succeeds if every row was measured and kept its limit.
fn bench(arguments: &Arguments) -> Result<ExitCode, String> {
    let place = Place::locate(arguments.directory.as_deref())?;
    let mut all_met = true;
    let suites = arguments.suites()?;
    // Before anything is measured: this process begins anew for it.
    let mounts = match suites.iter().any(|suite| suite.needs_disks) {
        true => sync::have_own_mounts(),
        false => Ok(()),
    };
    let is_remote = |suite: &&rows::Suite| matches!(suite.rows, Rows::Remote(_));
    let processes = match suites.iter().any(is_remote) {
        true => far::own::run_again(),
        false => Ok(None),
    };
    if let Ok(Some(code)) = processes {
        return Ok(code);
    }
    for suite in suites {
        let refusal = match suite.rows {
            Rows::Remote(_) => processes.as_ref().err(),
            Rows::Pairs(_) => mounts.as_ref().err().filter(|_| suite.needs_disks),
        };
        if let Some(reason) = refusal {
            println!("{}: not measured: {reason}", suite.name);
            continue;
        }
        all_met &= match suite.rows {
            Rows::Pairs(rows) => pairs(&place, arguments, suite, rows)?,
            Rows::Remote(rows) => remote(&place, arguments, suite.name, rows)?,
        };
    }
    Ok(if all_met {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn remote(
    place: &Place,
    arguments: &Arguments,
    suite: &str,
    rows: &[far::row::Row],
) -> Result<bool, String> {
    let wanted = |row: &&far::row::Row| arguments.wants(&row.name(""));
    let rows: Vec<_> = rows.iter().filter(wanted).collect();
    let options = far::Options {
        rounds: arguments.pairs,
        cap: Duration::from_secs(arguments.cap),
        has_rivals: !arguments.no_rivals,
    };
    far::measure(place, suite, &rows, options)
}

fn pairs(
    place: &Place,
    arguments: &Arguments,
    suite: &rows::Suite,
    rows: &[rows::Row],
) -> Result<bool, String> {
    let mut rows = rows
        .iter()
        .filter(|row| arguments.wants(row.test))
        .peekable();
    if rows.peek().is_none() {
        return Ok(true);
    }
    let rivals = if suite.has_rivals && !arguments.no_rivals {
        Rivals::find(place)
    } else {
        Rivals::none()
    };
    measure(place, &rivals, suite.name, rows, arguments.pairs)
}

/// As [`pairs`], of these rows. A row that cannot be measured does not keep the others from it, and
/// what was measured is saved at once.
fn measure<'a>(
    place: &Place,
    rivals: &Rivals,
    suite: &str,
    rows: impl Iterator<Item = &'a rows::Row>,
    pairs: u32,
) -> Result<bool, String> {
    let mut results = Vec::new();
    let mut all_met = true;
    report::print_head(rivals);
    for row in rows {
        if let Some(program) = row.missing_program() {
            println!("{:<21} not measured: there is no {program} here", row.test);
            continue;
        }
        match run::row(place, rivals, row, pairs) {
            Ok(outcomes) => {
                for outcome in outcomes {
                    outcome.print(rivals);
                    all_met &= outcome.pass;
                    results.push(outcome);
                }
                report::save(place, suite, &results)?;
            }
            Err(error) => {
                eprintln!("\r\x1b[KError: {}: {error}", row.test);
                all_met = false;
            }
        }
    }
    report::print_notes(rivals, &results);
    let path = report::save(place, suite, &results)?;
    println!("samples: {}, and a picture beside them", path.display());
    Ok(all_met)
}

impl Arguments {
    fn suites(&self) -> Result<Vec<&'static rows::Suite>, String> {
        if self.suites.is_empty() {
            return Ok(rows::SUITES.iter().collect());
        }
        let find = |name: &String| {
            let suite = rows::SUITES.iter().find(|suite| suite.name == name);
            suite.ok_or_else(|| format!("there is no suite {name}"))
        };
        self.suites.iter().map(find).collect()
    }

    fn wants(&self, test: &str) -> bool {
        let named = |part: &String| test.contains(part.as_str());
        self.tests.is_empty() || self.tests.iter().any(named)
    }
}
