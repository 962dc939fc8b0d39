//! What went wrong, as the user reads it: `Error: …`, then `Hint: …`.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;
use surmise_commit::CommitError;
use surmise_kept::{DecideError, DeliveryError, StateError};
use surmise_launch::LaunchError;
use surmise_sync::volume::VolumeError;

use clap::builder::styling::{AnsiColor, Style};

use crate::json::Json;
use crate::kept::Kept;

/// Why a subcommand could not do its work.
#[derive(Debug)]
pub struct Failure {
    error: Error,
    /// A line each, below the error.
    details: Vec<String>,
    hint: Option<String>,
    /// The status to exit with, where it is not the subcommand's usual one.
    status: Option<u8>,
    /// The domain that holds the changes, to go on with.
    domain: Option<Kept>,
    /// Whether the result that was printed as JSON has it already.
    is_in_result: bool,
}

/// A [`Failure`] for a program that reads it.
#[derive(Serialize)]
pub struct Plain<'a> {
    error: &'a str,
    details: &'a [String],
    hint: Option<&'a str>,
    domain: Option<&'a str>,
    /// The exit status.
    status: u8,
}

/// The line of JSON that tells of it.
#[derive(Serialize)]
struct Line<'a> {
    failed: Plain<'a>,
}

#[derive(Debug)]
enum Error {
    /// Says what, where and which value.
    Told(String),
    /// Whoever read our standard output has gone, as `head` does: they have seen enough.
    ReaderGone,
}

impl Failure {
    /// A failure without a fix to offer.
    pub fn new(error: impl Display) -> Self {
        Self {
            error: Error::Told(error.to_string()),
            details: Vec::new(),
            hint: None,
            status: None,
            domain: None,
            is_in_result: false,
        }
    }

    /// The same with the fix, which names a command where there is one.
    pub fn hint(self, hint: impl Display) -> Self {
        Self {
            hint: Some(hint.to_string()),
            ..self
        }
    }

    /// The same with details, a line each.
    pub fn details(self, details: impl IntoIterator<Item = impl Display>) -> Self {
        Self {
            details: details
                .into_iter()
                .map(|detail| detail.to_string())
                .collect(),
            ..self
        }
    }

    /// The same where the changes are kept in a domain.
    pub fn kept_in(self, domain: Kept) -> Self {
        Self {
            domain: Some(domain),
            ..self
        }
    }

    /// The same where the result that was printed as JSON has it: it is not printed once more.
    pub fn in_result(self) -> Self {
        Self {
            is_in_result: true,
            ..self
        }
    }

    /// The same as plain data, for a subcommand that usually exits with `failed`.
    fn plain(&self, failed: u8) -> Plain<'_> {
        Plain {
            error: match &self.error {
                Error::Told(error) => error,
                Error::ReaderGone => "the reader of standard output has gone",
            },
            details: &self.details,
            hint: self.hint.as_deref(),
            domain: self.domain.as_ref().map(Kept::name),
            status: self.code(failed),
        }
    }

    /// Prints it on standard error, and as JSON where that was asked for, and returns the status to exit
    /// with: `failed` unless this failure has a status of its own.
    pub fn show(&self, failed: u8, json: Option<Json>) -> ExitCode {
        self.tell();
        if let Some(json) = json.filter(|_| !self.is_in_result) {
            self.show_json(failed, json);
        }
        ExitCode::from(self.code(failed))
    }

    /// Prints it as JSON; the status to exit with is `failed` unless this failure has one of its own.
    pub fn show_json(&self, failed: u8, json: Json) {
        let line = Line {
            failed: self.plain(failed),
        };
        // Where it can't be written, the status has to do.
        let _ = json.print(&line);
    }

    fn code(&self, failed: u8) -> u8 {
        match self.error {
            Error::ReaderGone => 0,
            Error::Told(_) => self.status.unwrap_or(failed),
        }
    }

    /// Prints it on standard error.
    pub fn tell(&self) {
        let Error::Told(error) = &self.error else {
            return;
        };
        let mut stderr = anstream::stderr().lock();
        // Where standard error can't be written, the status has to do.
        let _ = labelled(&mut stderr, AnsiColor::Red, "Error", error);
        for detail in &self.details {
            let _ = writeln!(stderr, "  {detail}");
        }
        if let Some(hint) = &self.hint {
            let _ = labelled(&mut stderr, AnsiColor::Cyan, "Hint", hint);
        }
        drop(stderr);
        if let Some(domain) = &self.domain {
            domain.tell();
        }
    }
}

/// A failure to write to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self {
                error: Error::ReaderGone,
                details: Vec::new(),
                hint: None,
                status: None,
                domain: None,
                is_in_result: false,
            },
            _ => Self::new(format_args!("write to standard output: {error}")),
        }
    }
}

impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
        Self::new(&error).hint(error.hint())
    }
}

impl From<LaunchError> for Failure {
    fn from(error: LaunchError) -> Self {
        let status = Some(error.code());
        // The hint tells how to go on with it.
        let domain = error.domain().map(Kept::told);
        Self {
            hint: error.hint(),
            status,
            domain,
            ..Self::new(&error)
        }
    }
}

impl From<DecideError> for Failure {
    fn from(error: DecideError) -> Self {
        match error {
            DecideError::State(error) => error.into(),
            DecideError::Commit(error) => error.into(),
            DecideError::Delivery(DeliveryError::Unreachable(targets)) => {
                Self::new("held output has nowhere to go")
                    .details(targets)
                    .hint("nothing has changed; commit again when it can be reached")
            }
            DecideError::Refused(refusal) => Self {
                hint: refusal.hint,
                ..Self::new(refusal.error).details(refusal.details)
            },
            DecideError::Ended { .. } => {
                Self::new(&error).hint("`surmise list` shows what has become of it")
            }
            DecideError::Stopped { pid, .. } => Self::new(&error).hint(format_args!(
                "nothing has changed; `fg` in its shell, or `kill -CONT {pid}`, lets it go on"
            )),
            error => Self::new(error),
        }
    }
}

impl From<CommitError> for Failure {
    fn from(error: CommitError) -> Self {
        let failure = Self::new(&error).hint(error.hint());
        match error {
            CommitError::Conflicts(conflicts)
            | CommitError::Changed(conflicts)
            | CommitError::Unforceable(conflicts) => failure.details(conflicts),
            CommitError::Obstacles(obstacles) => failure.details(obstacles),
            _ => failure,
        }
    }
}

impl From<VolumeError> for Failure {
    fn from(error: VolumeError) -> Self {
        Self {
            hint: error.hint(),
            ..Self::new(&error)
        }
    }
}

fn labelled(out: &mut impl Write, colour: AnsiColor, label: &str, text: &str) -> io::Result<()> {
    let style = Style::new().bold().fg_color(Some(colour.into()));
    writeln!(out, "{style}{label}:{style:#} {text}")
}
