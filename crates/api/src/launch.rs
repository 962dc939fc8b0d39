//! What is to be run, and why that may not be possible.

use std::ffi::OsString;
use std::path::PathBuf;

use surmise_kept::{Boundary, Native};
use surmise_launch::{LaunchError, Through};
use surmise_supervisor::Guessing;

use crate::error::Explained;
use crate::synchrony::Synchronous;

/// A command, and how it is to be run.
///
/// What the parts ask for can be combined as far as today's Surmise can; [`RunError::Combination`] names what it
/// can't yet.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The name of a new domain; without one, it is named after the command.
    pub name: Option<String>,
    /// Program and arguments. The program is looked up in `PATH`, inside.
    pub command: Vec<OsString>,
    /// Where to start it; an absolute path.
    pub directory: PathBuf,
    /// What of the environment differs from the caller's: variables with their values, or without one where they
    /// are not to be there.
    pub environment: Vec<(OsString, Option<OsString>)>,
    /// What crosses the boundary.
    pub boundary: Boundary,
    /// Whether to wait for processes that outlive the command, rather than end them.
    pub wait: bool,
    /// Whether calls are heard to find out what is refused.
    pub tells_refusals: bool,
    /// Which directories of programs and libraries are those outside, read-only, rather than served by the view. What was read
    /// there is not known.
    pub native: Native,
    /// What becomes of changes of files.
    pub files: Files,
    /// A directory that is the real one, where all other files are undone ([`pass_through`](crate::pass_through)).
    pub through: Option<Through>,
    /// With real files: whether syncs are put off, and how.
    pub sync: Option<Synchronous>,
    /// Where guesses come from that tasks are given, if they are given any.
    pub guessing: Vec<Guessing>,
}

/// What becomes of a command's changes of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Files {
    /// They wait in a domain for a decision.
    #[default]
    Undone,
    /// They are made. Only with [`Launch::sync`].
    Real,
}

/// Why a command was not run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The domain.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// What was asked for cannot be combined yet.
    #[error("not possible together yet: {one} and {other}")]
    Combination {
        /// What was asked for.
        one: &'static str,
        /// What was asked for as well.
        other: &'static str,
    },
    /// The calling process has several threads, so that it cannot be copied.
    #[error("a process with several threads cannot start a domain")]
    Threads,
    /// The process that is to control the domain could not be started.
    #[error("start a process: {0}")]
    Process(#[source] std::io::Error),
}

impl Launch {
    /// # Errors
    /// When today's Surmise can't do all of it together.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        let guesses = !self.guessing.is_empty();
        let (one, other) = match (self.files, &self.sync, guesses) {
            (Files::Undone, Some(_), _) => ("files that are undone", "syncs that are put off"),
            (Files::Real, None, _) => ("files that are real", "syncs that are not put off"),
            (Files::Real, _, true) => ("files that are real", "calls that are predicted"),
            (Files::Real, _, _) if self.through.is_some() => {
                ("files that are real", "a directory that is passed through")
            }
            (Files::Real, Some(_), false) if self.native == Native::All => {
                ("read-only directories of the system", "files that are real")
            }
            (Files::Undone, None, true) if self.native == Native::All => (
                "read-only directories of the system",
                "calls that are predicted",
            ),
            (Files::Undone, None, _) if self.native == Native::All && self.puts_syncs_off() => (
                "read-only directories of the system",
                "syncs that are put off",
            ),
            (Files::Undone, None, _) | (Files::Real, Some(_), false) => return Ok(()),
        };
        Err(RunError::Combination { one, other })
    }

    fn puts_syncs_off(&self) -> bool {
        let through = self.through.as_ref();
        through.is_some_and(|through| through.synchrony.is_some())
    }

    pub(crate) fn of_domain(&self) -> surmise_launch::Launch {
        surmise_launch::Launch {
            name: self.name.clone(),
            command: self.command.clone(),
            directory: self.directory.clone(),
            environment: self.environment.clone(),
            boundary: self.boundary.clone(),
            wait: self.wait,
            guessing: self.guessing.clone(),
            through: self.through.clone(),
            tells_refusals: self.tells_refusals,
            native: self.native,
        }
    }
}

impl Explained for RunError {
    fn code(&self) -> &'static str {
        match self {
            Self::Launch(error) => Explained::code(error),
            Self::Combination { .. } => "not_possible_yet",
            Self::Threads => "several_threads",
            Self::Process(_) => "no_process",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Launch(error) => Explained::hint(error),
            Self::Combination { .. } => Some("ask for one of them".into()),
            Self::Threads => {
                Some("use a client of `surmise api`, which does so in a process of its own".into())
            }
            Self::Process(_) => None,
        }
    }

    fn domain(&self) -> Option<String> {
        match self {
            Self::Launch(error) => Explained::domain(error),
            _ => None,
        }
    }

    fn status(&self) -> Option<u8> {
        match self {
            Self::Launch(error) => Explained::status(error),
            _ => Some(125),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_combined_yet_is_named() {
        let torture = surmise_supervisor::Torture { seed: 1, rate: 0.1 };
        let plain = Launch::default();
        assert!(plain.check().is_ok());
        let tortured = Launch {
            guessing: vec![Guessing::Torture(torture)],
            ..Launch::default()
        };
        assert!(tortured.check().is_ok());
        let read_only = Launch {
            native: Native::All,
            ..tortured.clone()
        };
        assert_eq!(
            read_only
                .check()
                .expect_err("its supervisor has to know of reads")
                .to_string(),
            "not possible together yet: read-only directories of the system and calls that are predicted"
        );
        let real = Launch {
            files: Files::Real,
            ..tortured
        };
        let error = real.check().expect_err("nobody puts syncs off");
        assert_eq!(error.code(), "not_possible_yet");
        assert_eq!(
            error.to_string(),
            "not possible together yet: files that are real and syncs that are not put off"
        );
    }
}
