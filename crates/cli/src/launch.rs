//! What `run` and `shell` have in common.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use rustix::process::Signal;
use surmise_api::{Boundary, Domain, Exit, Launch, Outcome, RunError, Surmise};

use crate::failure::Failure;
use crate::person::AtTerminal;
use crate::refused::{self, Telling};
use crate::report;
use crate::terminal::{self, Settings};

/// Runs a command by `start`, gives the terminal its settings of before afterwards, and tells which
/// processes the command left, and what it was refused.
pub fn supervise(
    telling: Telling,
    start: impl FnOnce() -> Result<Outcome, RunError>,
) -> Result<Outcome, Failure> {
    let settings = Settings::save();
    let result = start();
    settings.restore();
    let outcome = result?;
    // The terminal shows Ctrl-C as ^C, and nobody ended that line.
    if outcome.exit == Exit::Signaled(Signal::INT.as_raw()) && terminal::can_ask() {
        report::end_line();
    }
    if telling.tells() {
        refused::tell(&outcome.refusals);
        report::lingering(&outcome.lingering);
    }
    report::lost(&outcome.lost);
    Ok(outcome)
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
        command,
        directory: directory()?,
        boundary,
        wait,
        tells_refusals: telling.hears(false),
        ..Launch::default()
    };
    supervise(telling, || Surmise::shell(domain, &launch, &AtTerminal))
}

/// The current directory.
pub fn directory() -> Result<PathBuf, Failure> {
    env::current_dir().map_err(|error| {
        Failure::new(format_args!("find the current directory: {error}"))
            .hint("it may have been removed; change to one that exists")
    })
}
