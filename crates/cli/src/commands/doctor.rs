//! `surmise doctor`.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use surmise_api::Surmise;
use surmise_linux::abilities::{Abilities, Ability};
use surmise_sys::behaviours::{self, BEHAVIOURS, Deviation};

use crate::failure::Failure;
use crate::json::Json;
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
    /// Where it prints JSON, if it was asked to.
    pub fn json(&self) -> Option<Json> {
        self.json.then_some(Json::Out)
    }

    /// Tries everything and prints what it found.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let state = Surmise::locate()?;
        let abilities = Abilities::probe(state.path());
        let found = Found {
            abilities,
            behaviours: behaviours::check(BEHAVIOURS, behaviours::LIMIT),
        };
        let out = anstream::stdout().lock();
        if self.json {
            write_json(out, &found)?;
        } else {
            write_tables(out, &found)?;
        }
        Ok(match found.abilities.missing() {
            None => ExitCode::SUCCESS,
            Some(_) => ExitCode::FAILURE,
        })
    }
}

struct Found {
    abilities: Abilities,
    /// Those of [`BEHAVIOURS`].
    behaviours: Vec<Result<(), Deviation>>,
}

impl Found {
    /// Whether tasks can speculate.
    fn speculates(&self) -> bool {
        self.behaviours.iter().all(Result::is_ok)
    }
}

fn write_tables(mut out: impl Write, found: &Found) -> Result<(), Failure> {
    let abilities = &found.abilities;
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
    writeln!(out)?;
    write_behaviours(&mut out, &found.behaviours)?;
    let verdict = match abilities.missing() {
        None => "`surmise run` works here.",
        Some(_) => "`surmise run` cannot work here until what is missing is there.",
    };
    writeln!(out, "\n{verdict}")?;
    if !found.speculates() {
        writeln!(
            out,
            "Tasks cannot speculate here: no `surmise run --torture`."
        )?;
    }
    Ok(())
}

/// `outcomes`: those of [`BEHAVIOURS`].
fn write_behaviours(
    out: &mut impl Write,
    outcomes: &[Result<(), Deviation>],
) -> Result<(), Failure> {
    let mut table = Table::new(["SPECULATION: WHAT THE KERNEL DOES", "HOLDS", "FOR"]);
    for (behaviour, outcome) in BEHAVIOURS.iter().zip(outcomes) {
        table.push([
            format!("{:2} {}", behaviour.number, behaviour.name),
            if outcome.is_ok() { "yes" } else { "no" }.to_owned(),
            behaviour.purpose.to_owned(),
        ]);
    }
    table.write(out)?;
    for (behaviour, outcome) in BEHAVIOURS.iter().zip(outcomes) {
        if let Err(deviation) = outcome {
            writeln!(out, "\n{}\n    {deviation}", behaviour.name)?;
        }
    }
    Ok(())
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
    speculates: bool,
    abilities: Vec<AbilityRow<'a>>,
    behaviours: Vec<BehaviourRow>,
}

#[derive(Serialize)]
struct AbilityRow<'a> {
    name: &'a str,
    required: bool,
    have: bool,
    value: &'a str,
    hint: &'a str,
}

#[derive(Serialize)]
struct BehaviourRow {
    number: u8,
    name: &'static str,
    purpose: &'static str,
    holds: bool,
    /// In place of it; empty where it holds.
    seen: String,
}

fn write_json(mut out: impl Write, found: &Found) -> Result<(), Failure> {
    let report = Report {
        works: found.abilities.missing().is_none(),
        speculates: found.speculates(),
        abilities: found
            .abilities
            .iter()
            .map(|ability| AbilityRow {
                name: ability.name,
                required: ability.required,
                have: ability.have,
                value: &ability.value,
                hint: &ability.hint,
            })
            .collect(),
        behaviours: BEHAVIOURS
            .iter()
            .zip(&found.behaviours)
            .map(|(behaviour, outcome)| BehaviourRow {
                number: behaviour.number,
                name: behaviour.name,
                purpose: behaviour.purpose,
                holds: outcome.is_ok(),
                seen: outcome
                    .as_ref()
                    .map_or_else(ToString::to_string, |()| String::new()),
            })
            .collect(),
    };
    let text = serde_json::to_string_pretty(&report).map_err(Failure::new)?;
    Ok(writeln!(out, "{text}")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_behaviour_has_a_line_and_one_that_differs_an_explanation() {
        let mut outcomes: Vec<_> = BEHAVIOURS.iter().map(|_| Ok(())).collect();
        let written = |outcomes: &[_]| {
            let mut out = anstream::StripStream::new(Vec::new());
            write_behaviours(&mut out, outcomes).unwrap();
            String::from_utf8(out.into_inner()).unwrap()
        };
        let good = written(&outcomes);
        assert_eq!(good.lines().count(), 1 + BEHAVIOURS.len());
        for (line, behaviour) in good.lines().skip(1).zip(BEHAVIOURS) {
            assert!(
                line.contains(behaviour.name) && line.contains("  yes  "),
                "{line}"
            );
        }
        outcomes[1] = Err(Deviation::Differs("number 7 was lost".into()));
        let bad = written(&outcomes);
        assert_eq!(bad.matches("  no  ").count(), 1, "{bad}");
        let name = BEHAVIOURS[1].name;
        assert!(
            bad.ends_with(&format!("\n\n{name}\n    number 7 was lost\n")),
            "{bad}"
        );
    }
}
