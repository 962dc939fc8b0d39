//! The subcommands, one file each.

mod abort;
mod api;
mod certificates;
mod commit;
mod completions;
mod demo;
pub mod diff;
mod doctor;
mod list;
mod man;
mod mount;
mod mounts;
mod run;
mod serve;
mod shell;
mod sync;
mod syscalls;
mod umount;
mod volume;

use std::process::ExitCode;

use crate::failure::Failure;
use crate::json::Json;
pub use list::age;

/// Exit status of `run`, `shell` and `sync` when Surmise itself fails; lower ones are the command's.
pub const LAUNCH_FAILED: u8 = 125;

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
    Mount(mount::Arguments),
    Mounts(mounts::Arguments),
    Umount(umount::Arguments),
    Serve(serve::Arguments),
    Certificates(certificates::Arguments),
    Api(api::Arguments),
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
            Self::Mount(arguments) => arguments.execute(),
            Self::Mounts(arguments) => arguments.execute(),
            Self::Umount(arguments) => arguments.execute(),
            Self::Serve(arguments) => arguments.execute(),
            Self::Certificates(arguments) => arguments.execute(),
            Self::Api(arguments) => arguments.execute(),
            Self::Doctor(arguments) => arguments.execute(),
            Self::Demo(arguments) => arguments.execute(),
            Self::Syscalls(arguments) => arguments.execute(),
            Self::Completions(arguments) => arguments.execute(),
            Self::Man(arguments) => arguments.execute(),
        }
    }

    /// Where the subcommand prints JSON, if it was asked to.
    pub fn json(&self) -> Option<Json> {
        match self {
            Self::Run(arguments) => arguments.json(),
            Self::List(arguments) => arguments.json(),
            Self::Commit(arguments) => arguments.json(),
            Self::Abort(arguments) => arguments.json(),
            Self::Sync(arguments) => arguments.json(),
            Self::Volume(arguments) => arguments.json(),
            Self::Mounts(arguments) => arguments.json(),
            Self::Doctor(arguments) => arguments.json(),
            Self::Syscalls(arguments) => arguments.json(),
            Self::Diff(_)
            | Self::Shell(_)
            | Self::Mount(_)
            | Self::Umount(_)
            | Self::Serve(_)
            | Self::Certificates(_)
            | Self::Api(_)
            | Self::Demo(_)
            | Self::Completions(_)
            | Self::Man(_) => None,
        }
    }

    /// The status to exit with after a [`Failure`].
    pub fn failed(&self) -> u8 {
        match self {
            Self::Run(_) | Self::Shell(_) | Self::Sync(_) => LAUNCH_FAILED,
            Self::Mount(arguments) if arguments.has_command() => LAUNCH_FAILED,
            _ => 1,
        }
    }
}
