//! The result of a run for programs: `surmise run --json`.

use serde::Serialize;
use surmise_diff::{self as diff, Note};
use surmise_kept::Exit;
use surmise_launch::{Lingering, Refusals};
use surmise_supervisor::Stats;

use crate::after::Fate;
use crate::held;
use crate::json::Json;
use crate::pending::Pending;
use crate::refused;
use crate::speculation;
use crate::synchrony;

/// What a run did.
pub struct RunResult<'a> {
    pub name: &'a str,
    pub exit: Exit,
    pub state: Fate,
    pub missing: &'a [String],
    pub pending: &'a Pending,
    pub lingering: &'a [Lingering],
    pub refusals: &'a Refusals,
    pub speculation: Option<&'a Stats>,
    pub synchrony: Option<&'a surmise_sync::Stats>,
}

/// One JSON object. Paths are absolute; a byte that is no UTF-8 is replaced.
#[derive(Serialize)]
struct Object<'a> {
    name: &'a str,
    /// The exit status.
    exit: u8,
    state: Fate,
    changes: Vec<Row>,
    held: &'a [held::Row],
    lingering: Vec<Process<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    missing: &'a [String],
    refused: Vec<refused::Row<'a>>,
    refused_more: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    speculation: Option<speculation::Object<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    synchrony: Option<synchrony::Object<'a>>,
}

#[derive(Serialize)]
struct Row {
    kind: char,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Process<'a> {
    pid: i32,
    name: &'a str,
}

impl RunResult<'_> {
    /// Prints it as one line on standard error, since standard output is the command's.
    pub fn print(&self) {
        // As all remarks: what can't be written must not change what a run does.
        let _ = Json::Err.print(&self.object());
    }

    fn object(&self) -> Object<'_> {
        let lingering = self.lingering.iter().map(|process| Process {
            pid: process.pid,
            name: &process.name,
        });
        Object {
            name: self.name,
            exit: self.exit.code(),
            state: self.state,
            changes: self.pending.changes.iter().map(Row::from).collect(),
            held: &self.pending.held,
            lingering: lingering.collect(),
            missing: self.missing,
            refused: refused::Row::all(self.refusals),
            refused_more: self.refusals.more,
            speculation: self.speculation.map(speculation::Object::from),
            synchrony: self.synchrony.map(synchrony::Object::from),
        }
    }
}

impl From<&diff::Row> for Row {
    fn from(row: &diff::Row) -> Self {
        let change = &row.change;
        Self {
            kind: change.kind.letter(),
            path: change.path.to_string_lossy().into_owned(),
            from: change
                .from
                .as_ref()
                .map(|path| path.to_string_lossy().into_owned()),
            notes: row.notes.iter().map(Note::to_string).collect(),
        }
    }
}
