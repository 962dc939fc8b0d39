//! Held output as the user reads it.

use std::io::Write;

use surmise_api::results::HeldRow;
use surmise_diff::{Held, count};

/// What a diff tells of `rows`.
pub fn shown(rows: &[HeldRow]) -> Vec<Held<'_>> {
    rows.iter().map(held).collect()
}

fn held(row: &HeldRow) -> Held<'_> {
    Held {
        to: &row.to,
        bytes: row.bytes,
        unsent_after: row.unsent_after,
        first_line: row.first_line.as_deref(),
    }
}

/// Shows at most a screen of them, for the summary after a run.
pub fn show(rows: &[HeldRow]) {
    const LINES_MAX: usize = 10;
    if rows.is_empty() {
        return;
    }
    let mut text = format!(
        "surmise: {} until the commit\n",
        count(rows.len(), "held output")
    );
    for held in shown(rows).iter().take(LINES_MAX) {
        text.push_str(&format!("  {}\n", held.line()));
    }
    if rows.len() > LINES_MAX {
        text.push_str(&format!("  … and {} more\n", rows.len() - LINES_MAX));
    }
    // As all remarks: what can't be written must not change what a run does.
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}
