//! What of a domain waits for a decision: changes, and held output.

use std::fmt;

use surmise_diff::Diff;
use surmise_kept::Domain;

use crate::failure::Failure;
use crate::held;
use crate::summary::{self, count};

/// What a commit would make real.
pub struct Pending {
    pub changes: Diff,
    pub held: Vec<held::Row>,
}

impl Pending {
    /// What waits in `domain` now.
    pub fn of(domain: &Domain) -> Result<Self, Failure> {
        Ok(Self {
            changes: domain.noted_changes()?,
            held: held::rows(domain)?,
        })
    }

    /// Whether there is nothing to decide.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.held.is_empty()
    }

    /// Prints it in short on standard error.
    pub fn show(&self) -> Result<(), Failure> {
        if !self.changes.is_empty() || self.held.is_empty() {
            summary::show(&self.changes)?;
        }
        held::show(&self.held);
        Ok(())
    }
}

/// How much it is.
impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes = count(self.changes.len(), "change");
        let held = count(self.held.len(), "held output");
        match (self.changes.is_empty(), self.held.is_empty()) {
            (_, true) => write!(f, "{changes}"),
            (true, false) => write!(f, "{held}"),
            (false, false) => write!(f, "{changes} and {held}"),
        }
    }
}
