//! The `surmise` command: runs programs with undo.
//!
//! One file a subcommand under [`commands`]; what several of them show is beside it. Only this crate
//! talks to the terminal: the libraries return values and typed errors, and here they become text.
#![forbid(unsafe_code)]

mod after;
mod boundary;
mod commands;
mod commit;
mod completion;
mod credentials;
mod damaged;
mod demo;
mod failure;
mod form;
mod held;
mod json;
mod kept;
mod launch;
mod lost_changes;
mod manual;
mod messages;
mod mount_helper;
mod pager;
mod paths;
mod pending;
mod person;
mod progress;
mod prompt;
mod refused;
mod report;
mod size;
mod speculation;
mod summary;
mod synchrony;
mod table;
mod terminal;
mod through;
mod usage;

use std::process::ExitCode;

/// Run commands with undo
///
/// Surmise runs a command in a domain of its own. The command sees the whole file system and changes
/// it as it likes, but nothing changes outside until you agree: look at what it did with `surmise
/// diff`, make it real with `surmise commit`, throw it away with `surmise abort`.
///
/// Surmise contains mistakes, not attackers: it is no protection against hostile programs.
#[derive(clap::Parser)]
#[command(name = "surmise", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: commands::Command,
}

const AFTER_HELP: &str = "\
Examples:
  surmise run -- make install     try it, look at the changes, then decide
  surmise run --name up -- sh     the same with a name, in a shell
  surmise diff up                 what it changed
  surmise abort up                as if it had never run

Exit status:
  0      done
  1      failed
  2      wrong usage
  125    `run`, `shell` and `sync`: Surmise itself failed
  other  `run`, `shell` and `sync`: that of the command";

fn main() -> ExitCode {
    if let Some(exit) = mount_helper::run_if_called() {
        return exit;
    }
    // For a commit, too: it holds many directories open.
    surmise_linux::limits::raise_descriptors();
    let Arguments { command } = usage::parsed();
    let (failed, json) = (command.failed(), command.json());
    match command.execute() {
        Ok(exit) => exit,
        Err(failure) => failure.show(failed, json),
    }
}
