//! The benchmark harness: every claim of speed is a ratio to a named peer in the same run.
//!
//! A row ([`rows`]) is data: what is measured, its peer and the limit that ours must keep. Both run
//! in alternating pairs, so that a drift of the machine meets both alike, and medians are compared.
//! The table goes to standard output, progress to standard error, and the samples to
//! `target/bench/SUITE.json`.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark talks to the terminal"
)]

mod command;
mod exchange;
mod limit;
mod measure;
mod memory;
mod place;
mod report;
mod rows;
mod run;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use exchange::client;
use memory::Touch;
use place::Place;

/// Compare Surmise with its peers, in alternating pairs on this machine
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    /// Run only tests whose name contains one of these
    #[arg(value_name = "TEST")]
    tests: Vec<String>,

    /// Run only this suite
    #[arg(long, value_name = "NAME")]
    suite: Option<String>,

    /// How many pairs to measure, after one that is not counted; slow tests do with fewer
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,

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
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match &arguments.inside {
        Some(inside) => inside.execute().map(|()| true),
        None => bench(&arguments),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
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
        }
        Ok(())
    }
}

/// Whether every row was measured and kept its limit.
fn bench(arguments: &Arguments) -> Result<bool, String> {
    let place = Place::locate()?;
    let mut all_met = true;
    for suite in arguments.suites()? {
        let mut rows = suite
            .rows
            .iter()
            .filter(|row| arguments.wants(row))
            .peekable();
        if rows.peek().is_some() {
            all_met &= measure(&place, suite.name, rows, arguments.pairs)?;
        }
    }
    Ok(all_met)
}

/// As [`bench`], of one suite. A row that cannot be measured does not keep the others from it, and
/// what was measured is saved at once.
fn measure<'a>(
    place: &Place,
    suite: &str,
    rows: impl Iterator<Item = &'a rows::Row>,
    pairs: u32,
) -> Result<bool, String> {
    let mut results = Vec::new();
    let mut all_met = true;
    report::print_head();
    for row in rows {
        match run::row(place, row, pairs) {
            Ok(outcome) => {
                outcome.print();
                all_met &= outcome.pass;
                results.push(outcome);
                report::save(place, suite, &results)?;
            }
            Err(error) => {
                eprintln!("\r\x1b[KError: {}: {error}", row.test);
                all_met = false;
            }
        }
    }
    let path = report::save(place, suite, &results)?;
    println!("samples: {}", path.display());
    Ok(all_met)
}

impl Arguments {
    fn suites(&self) -> Result<Vec<&'static rows::Suite>, String> {
        let Some(name) = &self.suite else {
            return Ok(rows::SUITES.iter().collect());
        };
        let suite = rows::SUITES.iter().find(|suite| suite.name == name);
        suite
            .map(|suite| vec![suite])
            .ok_or_else(|| format!("there is no suite {name}"))
    }

    fn wants(&self, row: &rows::Row) -> bool {
        let named = |part: &String| row.test.contains(part.as_str());
        self.tests.is_empty() || self.tests.iter().any(named)
    }
}
