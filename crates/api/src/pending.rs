//! What of a domain waits for a decision: changes, and held output.

use surmise_diff::Diff;
use surmise_kept::{DecideError, Domain as Kept, Holdings, Status};

use crate::results::{ChangeRow, HeldRow};

/// What a commit would make real.
#[derive(Clone, Debug)]
pub struct Pending {
    /// The changes, in the order in which they happened, with notes.
    pub changes: Diff,
    /// Held output, in the order in which it goes out.
    pub held: Vec<HeldRow>,
}

impl Pending {
    pub(crate) fn of(domain: &Kept) -> Result<Self, DecideError> {
        Ok(Self {
            changes: domain.noted_changes()?,
            held: held(domain)?,
        })
    }

    /// Whether there is nothing to decide.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.held.is_empty()
    }

    /// The changes as plain data.
    pub fn rows(&self) -> Vec<ChangeRow> {
        self.changes.iter().map(ChangeRow::from).collect()
    }
}

/// What `domain` holds, in the order in which it goes out.
pub(crate) fn held(domain: &Kept) -> Result<Vec<HeldRow>, DecideError> {
    Ok(held_rows(&domain.holdings()?, domain.status()))
}

/// The same of what is known of a domain.
pub(crate) fn held_rows(holdings: &Holdings, status: Status) -> Vec<HeldRow> {
    let Holdings { pending, unsent } = holdings;
    let mut rows: Vec<_> = pending.iter().map(HeldRow::from).collect();
    if !matches!(status, Status::Running { .. }) {
        let unsent = unsent.iter().filter(|channel| !pending.contains(channel));
        rows.extend(unsent.map(|channel| HeldRow {
            unsent_after: Some(channel.sent),
            ..HeldRow::from(channel)
        }));
    }
    rows
}
