//! What `run` and `shell` have in common.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use rustix::process::Signal;
use surmise_kept::{Boundary, Domain, Exit};
use surmise_launch::{Launch, LaunchError, Lingering, LostStream, Outcome, Refusals, Synced};

use crate::failure::Failure;
use crate::person::AtTerminal;
use crate::refused::{self, Telling};
use crate::report;
use crate::terminal::{self, Settings};

/// Runs a command by `start`, gives the terminal its settings of before afterwards, and tells which
/// processes the command left, and what it was refused.
pub fn supervise(
    telling: Telling,
    start: impl FnOnce() -> Result<Outcome, LaunchError>,
) -> Result<Outcome, Failure> {
    let outcome = with_settings_saved(start)?;
    tell_end(
        telling,
        outcome.exit,
        (&outcome.lingering, &outcome.lost),
        &outcome.refusals,
    );
    Ok(outcome)
}

/// As [`supervise`], for a command under external synchrony.
pub fn synced(
    telling: Telling,
    start: impl FnOnce() -> Result<Synced, LaunchError>,
) -> Result<Synced, Failure> {
    let synced = with_settings_saved(start)?;
    tell_end(
        telling,
        synced.exit,
        (&synced.lingering, &synced.lost),
        &synced.refusals,
    );
    Ok(synced)
}

fn with_settings_saved<T>(
    start: impl FnOnce() -> Result<T, LaunchError>,
) -> Result<T, LaunchError> {
    let settings = Settings::save();
    let result = start();
    settings.restore();
    result
}

fn tell_end(
    telling: Telling,
    exit: Exit,
    (lingering, lost): (&[Lingering], &[LostStream]),
    refusals: &Refusals,
) {
    // The terminal shows Ctrl-C as ^C, and nobody ended that line.
    if exit == Exit::Signaled(Signal::INT.as_raw()) && terminal::can_ask() {
        report::end_line();
    }
    if telling.tells() {
        refused::tell(refusals);
        report::lingering(lingering);
    }
    report::lost(lost);
}

/// Runs `command`, or the user's shell, inside `domain`, from the current directory.
pub fn enter(
    domain: &Domain,
    mut command: Vec<OsString>,
    boundary: Boundary,
    wait: bool,
    telling: Telling,
) -> Result<Outcome, Failure> {
    if command.is_empty() {
        command.push(env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into()));
    }
    let launch = Launch {
        name: None,
        command,
        directory: directory()?,
        environment: Vec::new(),
        boundary,
        wait,
        guessing: Vec::new(),
        through: None,
        tells_refusals: telling.hears(false),
    };
    supervise(telling, || {
        surmise_launch::shell(domain, &launch, &AtTerminal)
    })
}

/// The current directory.
pub fn directory() -> Result<PathBuf, Failure> {
    env::current_dir().map_err(|error| {
        Failure::new(format_args!("find the current directory: {error}"))
            .hint("it may have been removed; change to one that exists")
    })
}
