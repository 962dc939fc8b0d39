//! The subcommands, one file each.

mod abort;
mod commit;
mod completions;
mod demo;
pub mod diff;
mod doctor;
mod list;
mod man;
mod run;
mod shell;
mod sync;
mod syscalls;
mod volume;

use std::process::ExitCode;

use crate::failure::Failure;

/// Exit status of `run`, `shell` and `sync` when Surmise itself fails; lower ones are the command's.
const LAUNCH_FAILED: u8 = 125;

/// What to do.
#[derive(clap::Subcommand)]
pub enum Command {
    Run(run::Arguments),
    List(list::Arguments),
    Diff(diff::Arguments),
    Commit(commit::Arguments),
    Abort(abort::Arguments),
    Shell(shell::Arguments),
    Sync(sync::Arguments),
    Volume(volume::Arguments),
    Doctor(doctor::Arguments),
    Demo(demo::Arguments),
    Syscalls(syscalls::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

impl Command {
    /// Does it. The status to exit with is the subcommand's own, or that of a command it ran.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Run(arguments) => arguments.execute(),
            Self::List(arguments) => arguments.execute(),
            Self::Diff(arguments) => arguments.execute(),
            Self::Commit(arguments) => arguments.execute(),
            Self::Abort(arguments) => arguments.execute(),
            Self::Shell(arguments) => arguments.execute(),
            Self::Sync(arguments) => arguments.execute(),
            Self::Volume(arguments) => arguments.execute(),
            Self::Doctor(arguments) => arguments.execute(),
            Self::Demo(arguments) => arguments.execute(),
            Self::Syscalls(arguments) => arguments.execute(),
            Self::Completions(arguments) => arguments.execute(),
            Self::Man(arguments) => arguments.execute(),
        }
    }

    /// The status to exit with after a [`Failure`].
    pub fn failed(&self) -> u8 {
        match self {
            Self::Run(_) | Self::Shell(_) | Self::Sync(_) => LAUNCH_FAILED,
            _ => 1,
        }
    }
}
