//! What a checkpoint, its discard and a rollback take, for a small process, one of 64 MB, one of five
//! threads, and python3. The peer is CRIU, which does the same by files.
//!
//! `make bench-rollback`; `cargo bench -p surmise-checkpoint --bench rollback -- small` measures one
//! process alone. The table goes to standard output, the samples to `target/bench/rollback.json`. The
//! process is not traced before each checkpoint, unless it is said.
#![allow(clippy::print_stdout, reason = "a benchmark talks to the terminal")]

mod criu;
#[path = "../../tests/rollback/listening.rs"]
mod listening;
mod report;
mod subject;
#[path = "../../tests/rollback/tracee.rs"]
mod tracee;

use std::path::Path;
use std::process::{Command, ExitCode};

use report::Report;
use subject::{Samples, measure};
use tracee::compile;

/// How many rounds are measured of each process.
const ROUNDS: u32 = 400;

/// Imports some sixty modules, then takes checkpoints as tests/tracees/rounds.c does.
const PYTHON: &str = "\
import sys, os, json, email.parser, http.client, decimal, argparse, logging, threading
for round in range(1, int(sys.argv[1]) + 1):
    os.kill(0x5bec0000, 1)
    work = [str(number) for number in range(2000)]
    if round % 4:
        os.kill(0x5bec0000, 2)
    os.kill(0x5bec0000, 3)
";

/// A process, with the targets of its items in microseconds; 0 where there is none.
struct Row {
    name: &'static str,
    /// Of rounds.c: pages, dirty pages, further threads. None: python3.
    arguments: Option<[&'static str; 3]>,
    checkpoint_us_max: f64,
    rollback_us_max: f64,
}

const ROWS: &[Row] = &[
    Row {
        name: "small",
        arguments: Some(["16", "2", "0"]),
        checkpoint_us_max: 80.0,
        rollback_us_max: 300.0,
    },
    Row {
        name: "5 threads",
        arguments: Some(["16", "2", "4"]),
        checkpoint_us_max: 200.0,
        rollback_us_max: 0.0,
    },
    Row {
        name: "64 MB",
        arguments: Some(["16384", "4096", "0"]),
        checkpoint_us_max: 800.0,
        rollback_us_max: 0.0,
    },
    Row {
        name: "python3",
        arguments: None,
        checkpoint_us_max: 0.0,
        rollback_us_max: 2000.0,
    },
];

fn main() -> ExitCode {
    let place = tempfile::tempdir().expect("a directory");
    let rounds = compile("rounds", place.path());
    let mut report = Report::new();
    let asked = std::env::args().skip(1);
    let asked: Vec<_> = asked.filter(|name| !name.starts_with('-')).collect();
    let is_asked = |row: &&Row| asked.is_empty() || asked.iter().any(|name| name == row.name);
    for row in ROWS.iter().filter(is_asked) {
        if let Some(mut command) = command(row, &rounds) {
            row.add(&measure(&mut command), &mut report);
        }
    }
    criu::measure(&mut report);
    if report.finish() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn command(row: &Row, rounds: &Path) -> Option<Command> {
    let number = ROUNDS.to_string();
    let Some(arguments) = row.arguments else {
        let python = "/usr/bin/python3";
        if !Path::new(python).exists() {
            println!("{:<28} not measured: there is no {python} here", row.name);
            return None;
        }
        let mut command = Command::new(python);
        command.args(["-B", "-c", PYTHON, &number]);
        return Some(command);
    };
    let mut command = Command::new(rounds);
    command.arg(&number).args(arguments);
    Some(command)
}

impl Row {
    fn add(&self, samples: &Samples, report: &mut Report) {
        let limit = |us_max: f64| (us_max > 0.0).then_some(us_max);
        let name = self.name;
        let checkpoint = limit(self.checkpoint_us_max);
        report.add(name, "checkpoint", &samples.checkpoint, checkpoint);
        report.add(name, "checkpoint, already traced", &samples.traced, None);
        report.add(name, "  of it, without the stop", &samples.copy, None);
        report.add(name, "discard", &samples.discard, None);
        report.add(
            name,
            "rollback",
            &samples.rollback,
            limit(self.rollback_us_max),
        );
        println!("{name:<12} {} pages copied by a rollback", samples.pages());
    }
}
