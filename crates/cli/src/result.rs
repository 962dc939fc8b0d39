//! The result of a run for programs: `surmise run --json`.

use std::io::Write;

use serde::Serialize;
use surmise_commit::{Change, Changes};
use surmise_domain::{Exit, Lingering};

use crate::after::Fate;
use crate::failure::Failure;

/// One JSON object. Paths are absolute; a byte that is no UTF-8 is replaced.
#[derive(Serialize)]
pub struct RunResult<'a> {
    name: &'a str,
    /// The exit status.
    exit: u8,
    state: Fate,
    changes: Vec<Row>,
    lingering: Vec<Process<'a>>,
}

#[derive(Serialize)]
struct Row {
    kind: char,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
}

#[derive(Serialize)]
struct Process<'a> {
    pid: i32,
    name: &'a str,
}

impl<'a> RunResult<'a> {
    /// The result of a run in the domain `name`.
    pub fn new(
        name: &'a str,
        exit: Exit,
        state: Fate,
        changes: &Changes,
        lingering: &'a [Lingering],
    ) -> Self {
        Self {
            name,
            exit: exit.code(),
            state,
            changes: changes.iter().map(Row::from).collect(),
            lingering: lingering
                .iter()
                .map(|process| Process {
                    pid: process.pid,
                    name: &process.name,
                })
                .collect(),
        }
    }

    /// Prints it as one line on standard error, since standard output is the command's.
    pub fn print(&self) -> Result<(), Failure> {
        let text = serde_json::to_string(self).map_err(Failure::new)?;
        let _ = writeln!(anstream::stderr().lock(), "{text}");
        Ok(())
    }
}

impl From<&Change> for Row {
    fn from(change: &Change) -> Self {
        Self {
            kind: change.kind.letter(),
            path: change.path.to_string_lossy().into_owned(),
            from: change
                .from
                .as_ref()
                .map(|path| path.to_string_lossy().into_owned()),
        }
    }
}
