//! `surmise list`.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use surmise_api::results::{DomainSummary, HeldRow};
use surmise_api::{Domain, Maker, Surmise};

use crate::failure::Failure;
use crate::json::Json;
use crate::table::Table;
use surmise_api::quote::plain;

/// List the domains whose changes wait
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Print a JSON array, one object a domain, on standard output
    #[arg(long, conflicts_with = "names")]
    json: bool,

    /// Print only the names, a line each
    #[arg(long)]
    names: bool,
}

const AFTER_HELP: &str = "\
Status:
  running      the command has not ended; `surmise commit NAME` makes real what it has done so
               far and lets it go on, `surmise abort NAME` ends it
  exited N     it exited with status N
  signal N     signal N ended it
  interrupted  Surmise ended before it did, or the machine; the changes up to then are there
  damaged      a file of it is not as it was; `surmise diff --damaged NAME` tells
  committing   a commit was cut short; `surmise commit NAME` finishes it, and
               `surmise commit --undo NAME` takes it back
  unsent       the changes are committed, and held output could not be sent; `surmise commit
               --unsent rest NAME` sends what is left, `surmise abort NAME` drops it

By:
  who made it: what SURMISE_MAKER was then, else who called sudo, else who had logged in; and the
  program that started surmise. `surmise abort --all` takes what the same maker has made

JSON:
  An array of {\"name\", \"status\", \"created\", \"command\", \"directory\", \"maker\", \"changes\",
  \"held\"}; maker is {\"label\", \"sudo_user\", \"login\", \"program\"}, without what is not known. If it
  fails, {\"failed\": {\"error\", \"details\", \"hint\", \"domain\", \"status\"}}";

impl Arguments {
    /// Where it prints JSON, if it was asked to.
    pub fn json(&self) -> Option<Json> {
        self.json.then_some(Json::Out)
    }

    /// Prints a line for each domain, oldest first.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let domains = Surmise::locate()?.domains()?;
        let mut out = anstream::stdout().lock();
        if self.names {
            // Quick, however much they changed: shells complete with it.
            for domain in &domains {
                writeln!(out, "{}", domain.name())?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let rows: Vec<_> = domains.iter().map(Domain::summary).collect();
        if self.json {
            let text = serde_json::to_string_pretty(&rows).map_err(Failure::new)?;
            writeln!(out, "{text}")?;
        } else if !rows.is_empty() {
            table(&rows, SystemTime::now()).write(&mut out)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn table(rows: &[DomainSummary], now: SystemTime) -> Table<7> {
    let mut table = Table::new(["NAME", "STATUS", "AGE", "CHANGES", "HELD", "BY", "COMMAND"]);
    for row in rows {
        let created = SystemTime::UNIX_EPOCH + Duration::from_secs(row.created);
        table.push([
            row.name.clone(),
            row.status.clone(),
            age(now.duration_since(created).unwrap_or_default()),
            row.changes
                .map_or_else(|| "-".to_owned(), |changes| changes.to_string()),
            held_text(&row.held),
            row.maker.as_ref().map_or_else(|| "-".into(), maker_text),
            row.command.clone(),
        ]);
    }
    table
}

/// The maker by its plainest mark, and by which program it was made.
fn maker_text(maker: &Maker) -> String {
    let login = maker.login.map(|user| format!("user {user}"));
    let mark = maker.label.clone().or(maker.sudo_user.clone()).or(login);
    let program = maker.program.as_deref();
    let text = match (mark, program) {
        (Some(mark), Some(program)) => format!("{mark} ({program})"),
        (Some(mark), None) => mark,
        (None, program) => program.unwrap_or("-").to_owned(),
    };
    plain(&text)
}

/// How many outputs, and how large they are together.
fn held_text(held: &[HeldRow]) -> String {
    match held {
        [] => "-".to_owned(),
        held => {
            let bytes: u64 = held.iter().map(|held| held.bytes).sum();
            format!("{} ({bytes} B)", held.len())
        }
    }
}

/// A duration in its largest whole unit.
pub fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maker_is_shown_by_its_plainest_mark() {
        let by_program = Maker {
            program: Some("bash".into()),
            ..Maker::default()
        };
        assert_eq!(maker_text(&by_program), "bash");
        let logged_in = Maker {
            login: Some(1000),
            ..by_program.clone()
        };
        assert_eq!(maker_text(&logged_in), "user 1000 (bash)");
        let labelled = Maker {
            label: Some("ci\u{1b}".into()),
            sudo_user: Some("anna".into()),
            ..Maker::default()
        };
        assert_eq!(maker_text(&labelled), "ci?");
    }

    #[test]
    fn an_age_is_told_in_its_largest_whole_unit() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (3599, "59m"),
            (3600, "1h"),
            (86_399, "23h"),
            (86_400, "1d"),
            (400 * 86_400, "400d"),
        ] {
            assert_eq!(age(Duration::from_secs(seconds)), text);
        }
    }
}
