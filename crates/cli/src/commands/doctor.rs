//! `surmise doctor`.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use surmise_domain::StateRoot;
use surmise_sys::abilities::{Abilities, Ability};

use crate::failure::Failure;
use crate::table::Table;

/// Tell what this machine and user can do, and how to get what is missing
///
/// Exits with 1 when something that `surmise run` needs is missing.
#[derive(clap::Args)]
pub struct Arguments {
    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Tries everything and prints what it found.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let state = StateRoot::locate()?;
        let abilities = Abilities::probe(state.path());
        let out = anstream::stdout().lock();
        if self.json {
            write_json(out, &abilities)?;
        } else {
            write_table(out, &abilities)?;
        }
        Ok(match abilities.missing() {
            None => ExitCode::SUCCESS,
            Some(_) => ExitCode::FAILURE,
        })
    }
}

fn write_table(mut out: impl Write, abilities: &Abilities) -> Result<(), Failure> {
    let mut table = Table::new(["FEATURE", "HAVE IT", "VALUE"]);
    for ability in abilities.iter() {
        table.push([
            ability.name.to_owned(),
            have(ability).to_owned(),
            ability.value.clone(),
        ]);
    }
    table.write(&mut out)?;
    // Apart from the table: a fix is a sentence, and a column of sentences is unreadable.
    for ability in abilities.iter().filter(|ability| !ability.have) {
        writeln!(out, "\n{}\n    {}", ability.name, ability.hint)?;
    }
    let verdict = match abilities.missing() {
        None => "`surmise run` works here.",
        Some(_) => "`surmise run` cannot work here until what is missing is there.",
    };
    Ok(writeln!(out, "\n{verdict}")?)
}

fn have(ability: &Ability) -> &'static str {
    match (ability.have, ability.required) {
        (true, _) => "yes",
        (false, true) => "no",
        (false, false) => "no, optional",
    }
}

#[derive(Serialize)]
struct Report<'a> {
    works: bool,
    abilities: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    required: bool,
    have: bool,
    value: &'a str,
    hint: &'a str,
}

fn write_json(mut out: impl Write, abilities: &Abilities) -> Result<(), Failure> {
    let report = Report {
        works: abilities.missing().is_none(),
        abilities: abilities
            .iter()
            .map(|ability| Row {
                name: ability.name,
                required: ability.required,
                have: ability.have,
                value: &ability.value,
                hint: &ability.hint,
            })
            .collect(),
    };
    let text = serde_json::to_string_pretty(&report).map_err(Failure::new)?;
    Ok(writeln!(out, "{text}")?)
}
