//! What went wrong, as the user reads it: `Error: …`, then `Hint: …`.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;
use surmise_commit::CommitError;
use surmise_domain::{DecideError, DeliveryError, LaunchError, StateError};
use surmise_sync::volume::VolumeError;

use clap::builder::styling::{AnsiColor, Style};

/// Why a subcommand could not do its work.
#[derive(Debug)]
pub struct Failure {
    error: Error,
    /// A line each, below the error.
    details: Vec<String>,
    hint: Option<String>,
    /// The status to exit with, where it is not the subcommand's usual one.
    status: Option<u8>,
}

/// A [`Failure`] for a program that reads it.
#[derive(Serialize)]
pub struct Plain<'a> {
    error: &'a str,
    details: &'a [String],
    hint: Option<&'a str>,
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

    /// The same as plain data.
    pub fn plain(&self) -> Plain<'_> {
        Plain {
            error: match &self.error {
                Error::Told(error) => error,
                Error::ReaderGone => "the reader of standard output has gone",
            },
            details: &self.details,
            hint: self.hint.as_deref(),
        }
    }

    /// Prints it on standard error and returns the status to exit with: `failed` unless this
    /// failure has a status of its own.
    pub fn show(&self, failed: u8) -> ExitCode {
        self.tell();
        match self.error {
            Error::ReaderGone => ExitCode::SUCCESS,
            Error::Told(_) => ExitCode::from(self.status.unwrap_or(failed)),
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
        Self {
            hint: error.hint(),
            status,
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
