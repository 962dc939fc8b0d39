//! The benchmark harness: every claim of speed is a ratio to a named peer in the same run.
//!
//! A row ([`rows`]) is data: the command, its peer and the ratio that it may cost at most. Both run
//! in alternating pairs, so that a drift of the machine meets both alike, and medians are compared.
//! The table goes to standard output, progress to standard error, and the samples to
//! `target/bench/SUITE.json`.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark talks to the terminal"
)]

mod measure;
mod place;
mod report;
mod rows;
mod run;

use std::process::ExitCode;

use clap::Parser;

use place::Place;

/// Compare Surmise with its peers, in alternating pairs on this machine
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Run only tests whose name contains one of these
    #[arg(value_name = "TEST")]
    tests: Vec<String>,

    /// How many pairs to measure, after one that is not counted
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
}

fn main() -> ExitCode {
    match bench(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether every row met its target.
fn bench(arguments: &Arguments) -> Result<bool, String> {
    let place = Place::locate()?;
    let mut all_met = true;
    for suite in rows::SUITES {
        let wanted = |row: &&rows::Row| {
            arguments.tests.is_empty()
                || arguments
                    .tests
                    .iter()
                    .any(|part| row.test.contains(part.as_str()))
        };
        let mut results = Vec::new();
        for row in suite.rows.iter().filter(wanted) {
            results.push(run::row(&place, row, arguments.pairs)?);
        }
        if !results.is_empty() {
            report::print(&results);
            report::save(&place, suite.name, &results)?;
        }
        all_met &= results.iter().all(|result| result.pass);
    }
    Ok(all_met)
}
