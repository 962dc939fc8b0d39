//! Power losses while a command runs under external synchrony, and after it.

mod ahead;
mod kills;
mod ledger;
mod mapped;
mod postgres;
mod programs;
mod table;
mod trial;

use std::time::Duration;

use surmise_testkit::{BlockLog, is_installed, skip, surmise_binary, tell};

use ledger::{Ledger, states};
use postgres::POSTGRES;
use programs::{COMMITS, LINES, Program, RENAMED, RENAMED_LAST, ROLLBACK};
use trial::Trial;

const DISK_BYTES: usize = 64 << 20;

/// What one program and all its states may take.
fn limit() -> Duration {
    Duration::from_secs(600 + 2 * states() as u64)
}

/// The whole name of a test in here.
fn named(test: &str) -> String {
    format!("synchrony::crash::{test}")
}

#[track_caller]
fn nothing_is_lost(test: &str, program: &Program, every: &str) {
    nothing_is_lost_with(&[], test, program, every);
}

#[track_caller]
fn nothing_is_lost_with(options: &[&str], test: &str, program: &Program, every: &str) {
    BlockLog::with(&named(test), DISK_BYTES, limit(), |disk| {
        let binary = surmise_binary().display().to_string();
        let sync = [&[&*binary, "sync"], options, &["--"]].concat();
        let command = program.command(&sync, &["sync", every]);
        // The arguments are a part of what was tried.
        let name = format!("{} {every}", program.name);
        let found = Ledger::of_environment().fill(&name, |states| {
            Trial {
                program,
                command: &command,
                options: "data=journal",
                kill: None,
                states,
            }
            .run(disk)
        });
        tell(format_args!("{test}: {found:?}"));
        assert_eq!(found.wrong(), 0, "{found:?}");
    });
}

#[test]
fn lines_that_were_shown_are_there() {
    nothing_is_lost("lines_that_were_shown_are_there", &LINES, "10");
}

/// Soon it does not pay to put their syncs off.
#[test]
fn lines_that_are_all_shown_are_there() {
    nothing_is_lost("lines_that_are_all_shown_are_there", &LINES, "1");
}

#[test]
fn transactions_that_were_shown_are_there() {
    nothing_is_lost("transactions_that_were_shown_are_there", &ROLLBACK, "10");
}

#[test]
fn transactions_of_a_server_that_were_shown_are_there() {
    if postgres::programs().is_none() {
        return skip("PostgreSQL is not installed");
    }
    nothing_is_lost(
        "transactions_of_a_server_that_were_shown_are_there",
        &POSTGRES,
        "10",
    );
}

#[test]
fn commits_that_were_shown_are_there() {
    if !is_installed("git") {
        return skip("git is not installed");
    }
    nothing_is_lost("commits_that_were_shown_are_there", &COMMITS, "1");
}

#[test]
fn replaced_files_that_were_shown_are_there() {
    nothing_is_lost("replaced_files_that_were_shown_are_there", &RENAMED, "10");
}

/// What a program does last it may not ask for, and a commit may come before that.
#[test]
fn what_came_after_the_last_sync_is_there_when_it_was_shown() {
    let test = "what_came_after_the_last_sync_is_there_when_it_was_shown";
    nothing_is_lost_with(&["--interval", "20ms"], test, &RENAMED_LAST, "1");
}

/// What is lost of a program whose syncs do nothing.
#[track_caller]
fn something_is_lost(test: &str, program: &Program, before: &[&str], argument: &str) {
    BlockLog::with(&named(test), DISK_BYTES, limit(), |disk| {
        let found = Trial {
            program,
            command: &program.command(before, &[argument, "10"]),
            options: "",
            kill: None,
            states: states(),
        }
        .run(disk);
        tell(format_args!("{test}: {found:?}"));
        assert!(found.wrong() > 0, "{found:?}");
    });
}

/// What makes the tests above mean something: the same program, where its syncs do nothing.
#[test]
fn without_synchrony_what_was_shown_is_lost() {
    let test = "without_synchrony_what_was_shown_is_lost";
    something_is_lost(test, &LINES, &[], "no");
}

/// Here the syncs are called, and something in between leaves them out.
#[test]
fn where_syncs_are_left_out_what_was_shown_is_lost() {
    if !is_installed("eatmydata") {
        return skip("eatmydata is not installed");
    }
    let test = "where_syncs_are_left_out_what_was_shown_is_lost";
    something_is_lost(test, &ROLLBACK, &["eatmydata", "--"], "sync");
}
