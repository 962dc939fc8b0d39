//! What the boundary refused.

use serde::{Deserialize, Serialize};
use surmise_launch::{RefusalKind, Refusals};

/// What was refused to one program, and how often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedRow {
    /// What was tried: `connection`, `datagram`, `name`, `socket`, `fifo`, `process` or `call`.
    pub kind: RefusalKind,
    /// With whom or what.
    pub target: String,
    /// The program that tried; null where that is not known.
    pub program: Option<String>,
    /// How often.
    pub count: u64,
    /// The option of `surmise run` that allows it; null where none does.
    pub allow: Option<String>,
}

impl RefusedRow {
    /// All that were refused, but for those that are only counted.
    pub fn all(refusals: &Refusals) -> Vec<Self> {
        let row = |one: &surmise_launch::RefusedInside| Self {
            kind: one.kind,
            target: one.target.clone(),
            program: one.program.clone(),
            count: one.count,
            allow: one.allow.clone(),
        };
        refusals.list.iter().map(row).collect()
    }
}
