//! What went wrong, as the user reads it: `Error: …`, then `Hint: …`.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use surmise_api::results::{ConflictRow, Failed, FailedLine};
use surmise_api::server::ListenError;
use surmise_api::{
    CommitError, DecideError, Explained, LaunchError, RunError, SettleError, StateError,
    SynchronyError, ThroughError,
};
use surmise_sync::volume::VolumeError;

use clap::builder::styling::{AnsiColor, Style};

use crate::json::Json;
use crate::kept::Kept;

/// Why a subcommand could not do its work.
#[derive(Debug)]
pub struct Failure(Box<Inner>);

#[derive(Debug)]
struct Inner {
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
    /// What went wrong, for programs.
    code: &'static str,
    conflicts: Vec<ConflictRow>,
}

/// The code of a failure that has no error of its own.
const PLAIN: &str = "failed";

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
        Self::of(Error::Told(error.to_string()))
    }

    fn of(error: Error) -> Self {
        Self(Box::new(Inner {
            error,
            details: Vec::new(),
            hint: None,
            status: None,
            domain: None,
            is_in_result: false,
            code: PLAIN,
            conflicts: Vec::new(),
        }))
    }

    /// A failure of wrong usage.
    pub fn usage(error: impl Display) -> Self {
        let mut failure = Self::new(error);
        failure.0.code = "usage";
        failure
    }

    fn explained(error: &impl Explained) -> Self {
        let mut failure = Self::new(error.text());
        let inner = failure.0.as_mut();
        inner.details = error.details();
        inner.hint = error.hint();
        inner.status = error.status();
        // The hint tells how to go on with it.
        inner.domain = error.domain().as_deref().map(Kept::told);
        inner.code = error.code();
        inner.conflicts = error.conflicts();
        failure
    }

    /// The same with the fix, which names a command where there is one.
    pub fn hint(mut self, hint: impl Display) -> Self {
        self.0.hint = Some(hint.to_string());
        self
    }

    /// The same with the fix, where there is one.
    pub fn maybe_hint(self, hint: Option<impl Display>) -> Self {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// The same with details, a line each.
    pub fn details(mut self, details: impl IntoIterator<Item = impl Display>) -> Self {
        let details = details.into_iter();
        self.0.details = details.map(|detail| detail.to_string()).collect();
        self
    }

    /// The same where the changes are kept in a domain.
    pub fn kept_in(mut self, domain: Kept) -> Self {
        self.0.domain = Some(domain);
        self
    }

    /// The same where the result that was printed as JSON has it: it is not printed once more.
    pub fn in_result(mut self) -> Self {
        self.0.is_in_result = true;
        self
    }

    /// The same as plain data, for a subcommand that usually exits with `failed`.
    fn plain(&self, failed: u8) -> Failed {
        let inner = self.0.as_ref();
        Failed {
            error: match &inner.error {
                Error::Told(error) => error.clone(),
                Error::ReaderGone => "the reader of standard output has gone".into(),
            },
            details: inner.details.clone(),
            hint: inner.hint.clone(),
            domain: inner.domain.as_ref().map(|domain| domain.name().to_owned()),
            status: self.code(failed),
            code: inner.code.to_owned(),
            conflicts: inner.conflicts.clone(),
        }
    }

    /// Prints it on standard error, and as JSON where that was asked for, and returns the status to exit
    /// with: `failed` unless this failure has a status of its own.
    pub fn show(&self, failed: u8, json: Option<Json>) -> ExitCode {
        self.tell();
        if let Some(json) = json.filter(|_| !self.0.is_in_result) {
            self.show_json(failed, json);
        }
        ExitCode::from(self.code(failed))
    }

    /// Prints it as JSON; the status to exit with is `failed` unless this failure has one of its own.
    pub fn show_json(&self, failed: u8, json: Json) {
        let line = FailedLine {
            failed: self.plain(failed),
        };
        // Where it can't be written, the status has to do.
        let _ = json.print(&line);
    }

    fn code(&self, failed: u8) -> u8 {
        match self.0.error {
            Error::ReaderGone => 0,
            Error::Told(_) => self.0.status.unwrap_or(failed),
        }
    }

    /// Prints it on standard error.
    pub fn tell(&self) {
        let inner = self.0.as_ref();
        let Error::Told(error) = &inner.error else {
            return;
        };
        let mut stderr = anstream::stderr().lock();
        // Where standard error can't be written, the status has to do.
        let _ = labelled(&mut stderr, AnsiColor::Red, "Error", error);
        for detail in &inner.details {
            let _ = writeln!(stderr, "  {detail}");
        }
        if let Some(hint) = &inner.hint {
            let _ = labelled(&mut stderr, AnsiColor::Cyan, "Hint", hint);
        }
        drop(stderr);
        if let Some(domain) = &inner.domain {
            domain.tell();
        }
    }
}

/// A failure to write to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::of(Error::ReaderGone),
            _ => Self::new(format_args!("write to standard output: {error}")),
        }
    }
}

macro_rules! from_explained {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::explained(&error)
            }
        }
    )*};
}

from_explained!(
    StateError,
    LaunchError,
    RunError,
    DecideError,
    CommitError,
    SettleError,
    SynchronyError,
    ThroughError,
    VolumeError,
    ListenError
);

fn labelled(out: &mut impl Write, colour: AnsiColor, label: &str, text: &str) -> io::Result<()> {
    let style = Style::new().bold().fg_color(Some(colour.into()));
    writeln!(out, "{style}{label}:{style:#} {text}")
}
