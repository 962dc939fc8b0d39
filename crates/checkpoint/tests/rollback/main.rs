//! Real programs that check after each rollback that they are what they were. Their supervisor has one
//! thread, so this program runs its tests itself, and a second time as an ordinary user.

mod commands;
mod executions;
mod forks;
mod given;
mod leaks;
mod listening;
mod loans;
mod moments;
mod namespaces;
mod python;
mod steps;
mod tracee;
mod waits;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use surmise_sys::process;
use surmise_testkit::{become_ordinary_user, is_root, skip, tell};

use commands::Commands;
use tracee::{Tracee, compile};

/// The programs in tests/tracees that take part.
const PROGRAMS: [&str; 14] = [
    "births", "forks", "given", "image", "loan", "nested", "order", "program", "rounds", "shares",
    "signals", "threads", "vfork", "waits",
];

fn main() {
    let place = tempfile::tempdir().expect("a directory");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.path(), open).expect("chmod");
    for name in PROGRAMS {
        compile(name, place.path());
    }
    run_all(place.path());
    if !is_root() {
        return skip("rolling back as another user takes root");
    }
    let child = process::fork(&[], || {
        become_ordinary_user();
        run_all(place.path());
        0
    });
    let status = child.expect("fork").wait().expect("wait");
    assert_eq!(status.exit_status(), Some(0), "as an ordinary user");
}

/// What a test is called, and what it does with the programs in a directory.
type Test = (&'static str, fn(&Path));

const TESTS: &[Test] = &[
    ("a process is restored", |programs| {
        restored(programs, "image")
    }),
    ("its threads are restored", |programs| {
        restored(programs, "threads")
    }),
    ("a former program is restored", executions::restored),
    (
        "a program that cannot be left is known before",
        executions::known_before,
    ),
    ("shared files and places are restored", moments::shares),
    ("much memory is restored", moments::much_memory),
    (
        "a checkpoint within a checkpoint is restored",
        moments::nested,
    ),
    ("threads that were just born end", moments::births),
    (
        "a signal that comes meanwhile is taken once",
        moments::signal_meanwhile,
    ),
    (
        "a signal is taken after the rollback that it met",
        moments::signal_at_rollback,
    ),
    (
        "a second signal is taken, too",
        moments::signals_at_rollback,
    ),
    ("signals that wait come in order", moments::waiting_signals),
    (
        "a signal to a thread that is undone meets its process",
        moments::signal_to_newborn,
    ),
    (
        "a signal without a handler ends the process",
        moments::fatal_signal,
    ),
    (
        "a kill that comes meanwhile ends the process",
        moments::kill_meanwhile,
    ),
    (
        "a job's stop that comes meanwhile is kept",
        moments::stop_meanwhile,
    ),
    ("a signal is given in a call that waits", given::in_calls),
    ("a process that was never born is gone", forks::unborn),
    ("the end of another child is told", forks::told_of_another),
    (
        "a process that has lent its memory has it back",
        loans::unborn,
    ),
    ("a halt ends no wait", waits::no_wait_ends),
    ("a stopped job stays stopped", waits::stopped_job),
    (
        "threads pass the boundaries of their calls",
        waits::boundaries,
    ),
    (
        "a process in vfork is busy, and goes on",
        waits::vfork_is_busy,
    ),
    (
        "nobody gets a vessel in another namespace",
        namespaces::no_vessel_elsewhere,
    ),
    ("python imports what it would", python::imports),
    (
        "nothing is left of thousands of checkpoints",
        leaks::nothing_is_left,
    ),
];

/// Runs those whose name contains what was asked for on the command line, or all.
fn run_all(programs: &Path) {
    let asked = std::env::args().nth(1);
    let asked = asked
        .filter(|name| !name.starts_with('-'))
        .unwrap_or_default();
    let user = if is_root() { "root" } else { "ordinary user" };
    for (name, test) in TESTS.iter().filter(|(name, _)| name.contains(&asked)) {
        let begun = Instant::now();
        test(programs);
        let took = begun.elapsed().as_millis();
        tell(format_args!("ok as {user}, {took:>5} ms: {name}"));
    }
}

fn restored(programs: &Path, name: &str) {
    let mut commands = Commands::new(200);
    let mut tracee = Tracee::start(&mut Command::new(programs.join(name)), None);
    let (output, status) = tracee.run(&mut commands);
    assert_eq!(output, format!("{name} ok after 200\n"));
    assert_eq!(status, Some(0), "{name}");
    assert_eq!(commands.rollbacks, 200);
    assert!(commands.pages > 200, "{name}");
}
