//! `surmise syscalls`.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use surmise_syscalls::{Exception, Kind, Row, rows};

use crate::failure::Failure;
use crate::json::Json;
use crate::table::Table;

/// Print what happens to each system call while something is undecided
///
/// One row a call: its disposition under consent (a person will agree, as in `surmise run`), under a
/// prediction and under an epoch. A line that starts with an argument's number is an exception: the
/// call is disposed of so when that argument has that value.
#[derive(clap::Args)]
pub struct Arguments {
    /// Print a JSON array, one object a call, on standard output
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Where it prints JSON, if it was asked to.
    pub fn json(&self) -> Option<Json> {
        self.json.then_some(Json::Out)
    }

    /// Prints the table.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let mut out = anstream::stdout().lock();
        if self.json {
            let calls: Vec<_> = rows().map(Call::from).collect();
            let text = serde_json::to_string_pretty(&calls).map_err(Failure::new)?;
            writeln!(out, "{text}")?;
        } else {
            table().write(&mut out)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn table() -> Table<7> {
    let mut table = Table::new([
        "NR",
        "CALL",
        "CONSENT",
        "PREDICTION",
        "EPOCH",
        "HANDLER",
        "REASON",
    ]);
    for row in rows() {
        let [consent, prediction, epoch] = Kind::ALL.map(|kind| row.disposition(kind).to_string());
        table.push([
            row.number().to_string(),
            row.name().to_string(),
            consent,
            prediction,
            epoch,
            row.handler().name().to_owned(),
            row.reason().to_owned(),
        ]);
        for exception in row.exceptions() {
            let [consent, prediction, epoch] =
                Kind::ALL.map(|kind| exception.disposition(kind).to_string());
            table.push([
                String::new(),
                format!("  {}", condition(exception)),
                consent,
                prediction,
                epoch,
                String::new(),
                exception.reason().to_owned(),
            ]);
        }
    }
    table
}

/// When an exception applies, arguments numbered from 0 as in the kernel's tables.
fn condition(exception: &Exception) -> String {
    let (argument, mask, value) = (exception.argument(), exception.mask(), exception.value());
    match mask {
        // An `int`, or the whole register.
        0xffff_ffff | u64::MAX => format!("{argument} = {value:#x}"),
        _ => format!("{argument} & {mask:#x} = {value:#x}"),
    }
}

#[derive(Serialize)]
struct Call {
    number: u32,
    name: &'static str,
    arguments: Vec<&'static str>,
    #[serde(flatten)]
    dispositions: Dispositions,
    handler: &'static str,
    reason: &'static str,
    exceptions: Vec<Case>,
}

#[derive(Serialize)]
struct Case {
    argument: usize,
    mask: u64,
    value: u64,
    #[serde(flatten)]
    dispositions: Dispositions,
    reason: &'static str,
}

#[derive(Serialize)]
struct Dispositions {
    consent: String,
    prediction: String,
    epoch: String,
}

impl From<&Row> for Call {
    fn from(row: &Row) -> Self {
        Self {
            number: row.number(),
            name: row.name().as_str(),
            arguments: row.arguments().iter().map(|shape| shape.name()).collect(),
            dispositions: Dispositions::of(|kind| row.disposition(kind).to_string()),
            handler: row.handler().name(),
            reason: row.reason(),
            exceptions: row.exceptions().iter().map(Case::from).collect(),
        }
    }
}

impl From<&Exception> for Case {
    fn from(exception: &Exception) -> Self {
        Self {
            argument: exception.argument(),
            mask: exception.mask(),
            value: exception.value(),
            dispositions: Dispositions::of(|kind| exception.disposition(kind).to_string()),
            reason: exception.reason(),
        }
    }
}

impl Dispositions {
    fn of(disposition: impl Fn(Kind) -> String) -> Self {
        Self {
            consent: disposition(Kind::Consent),
            prediction: disposition(Kind::Prediction),
            epoch: disposition(Kind::Epoch),
        }
    }
}
