//! Held output as the user reads it.

use std::io::Write;

use serde::Serialize;
use surmise_diff::{Held, count};
use surmise_kept::{DecideError, Domain, HeldChannel, Holdings, Status};

/// What a domain holds for one destination.
#[derive(Serialize)]
pub struct Row {
    /// Where it goes.
    to: String,
    bytes: u64,
    /// How many bytes an earlier commit has sent, where that could not send the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    unsent_after: Option<u64>,
    /// Its first line, where that is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_line: Option<String>,
    /// Who sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<Process>,
}

#[derive(Serialize)]
struct Process {
    pid: i32,
    name: String,
}

/// What `domain` holds, in the order in which it goes out.
pub fn rows(domain: &Domain) -> Result<Vec<Row>, DecideError> {
    Ok(rows_of(&domain.holdings()?, domain.status()))
}

/// The same of what is known of a domain.
pub fn rows_of(holdings: &Holdings, status: Status) -> Vec<Row> {
    let Holdings { pending, unsent } = holdings;
    let mut rows: Vec<_> = pending.iter().map(Row::of).collect();
    if !matches!(status, Status::Running { .. }) {
        let unsent = unsent.iter().filter(|channel| !pending.contains(channel));
        rows.extend(unsent.map(|channel| Row {
            unsent_after: Some(channel.sent),
            ..Row::of(channel)
        }));
    }
    rows
}

impl Row {
    fn of(channel: &HeldChannel) -> Self {
        Self {
            to: channel.target.to_string(),
            bytes: channel.bytes,
            unsent_after: None,
            first_line: channel.first_line.clone(),
            process: channel.sender.as_ref().map(|sender| Process {
                pid: sender.pid,
                name: sender.name.clone(),
            }),
        }
    }

    /// How much it is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What a diff tells of it.
    fn shown(&self) -> Held<'_> {
        Held {
            to: &self.to,
            bytes: self.bytes,
            unsent_after: self.unsent_after,
            first_line: self.first_line.as_deref(),
        }
    }
}

/// What a diff tells of `rows`.
pub fn shown(rows: &[Row]) -> Vec<Held<'_>> {
    rows.iter().map(Row::shown).collect()
}

/// Shows at most a screen of them, for the summary after a run.
pub fn show(rows: &[Row]) {
    const LINES_MAX: usize = 10;
    if rows.is_empty() {
        return;
    }
    let mut text = format!(
        "surmise: {} until the commit\n",
        count(rows.len(), "held output")
    );
    for row in rows.iter().take(LINES_MAX) {
        text.push_str(&format!("  {}\n", row.shown().line()));
    }
    if rows.len() > LINES_MAX {
        text.push_str(&format!("  … and {} more\n", rows.len() - LINES_MAX));
    }
    // As all remarks: what can't be written must not change what a run does.
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}
