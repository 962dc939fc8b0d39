//! What of a domain waits for a decision, as the user reads it.

use surmise_api::Pending;

use crate::failure::Failure;
use crate::held;
use crate::summary::{self, count};

/// Prints it in short on standard error.
pub fn show(pending: &Pending) -> Result<(), Failure> {
    let Pending { changes, held } = pending;
    if !changes.is_empty() || held.is_empty() {
        summary::show(changes)?;
    }
    held::show(held);
    Ok(())
}

/// How much it is.
pub fn amount(Pending { changes, held }: &Pending) -> String {
    let (no_changes, no_held) = (changes.is_empty(), held.is_empty());
    let changes = count(changes.len(), "change");
    let held = count(held.len(), "held output");
    match (no_changes, no_held) {
        (_, true) => changes,
        (true, false) => held,
        (false, false) => format!("{changes} and {held}"),
    }
}
