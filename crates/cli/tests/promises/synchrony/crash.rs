//! Power losses while a command runs under external synchrony, and after it.

mod kills;
mod table;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use surmise_testkit::{BlockLog, PowerLoss, is_installed, skip, surmise_binary, tell};

const DISK_BYTES: usize = 64 << 20;

/// Lines appended to a file, each by itself and with a sync; now and then the number is put out, after
/// which the program may be told to pause.
const APPENDING: &str = r#"
import os, sys, time
pause = float(sys.argv[3]) if len(sys.argv) > 3 else 0
file = os.open("lines", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
os.fsync(os.open(".", os.O_RDONLY))
for n in range(1, 601):
    os.write(file, b"%07d\n" % n)
    if sys.argv[1] == "sync":
        os.fsync(file)
    if n % int(sys.argv[2]) == 0:
        print(n, flush=True)
        time.sleep(pause)
"#;

/// Rows of a base, each in a transaction of its own; pauses likewise.
const TRANSACTING: &str = r#"
import sqlite3, sys, time
pause = float(sys.argv[3]) if len(sys.argv) > 3 else 0
base = sqlite3.connect("base", isolation_level=None)
base.execute("create table if not exists rows (n integer primary key, text)")
for n in range(1, 301):
    base.execute("insert into rows values (?, ?)", (n, "x" * 300))
    if n % 10 == 0:
        print(n, flush=True)
        time.sleep(pause)
"#;

/// The same with a log that is written ahead, synced at every transaction.
const TRANSACTING_AHEAD: &str = r#"
import sqlite3
base = sqlite3.connect("base", isolation_level=None)
base.execute("pragma synchronous=full")
assert base.execute("pragma journal_mode=wal").fetchone() == ("wal",)
base.execute("create table if not exists rows (n integer primary key, text)")
for n in range(1, 301):
    base.execute("insert into rows values (?, ?)", (n, "x" * 300))
    if n % 10 == 0:
        print(n, flush=True)
"#;

/// Commits of git, which syncs each file by itself. Nothing is tidied up in the background.
const COMMITTING: &str = r#"
import os, subprocess
def git(*arguments):
    settings = ["core.fsync=all", "core.fsyncMethod=fsync", "gc.auto=0", "maintenance.auto=false",
                "user.name=someone", "user.email=someone@example.org"]
    subprocess.run(["git"] + [word for setting in settings for word in ("-c", setting)] + list(arguments),
                   check=True, stdout=subprocess.DEVNULL)
git("init", "--initial-branch=main", "repository")
# Git never syncs what init has made, such as its settings.
os.sync()
for n in range(1, 41):
    with open("repository/file", "w") as file:
        file.write("%d\n" % n)
    git("-C", "repository", "add", "file")
    git("-C", "repository", "commit", "--message=%d" % n)
    print(n, flush=True)
"#;

/// Prints the number of rows, or fails where the base is damaged.
const CHECKING: &str = r#"
import sqlite3
base = sqlite3.connect("base")
assert base.execute("pragma integrity_check").fetchone() == ("ok",)
try:
    print(base.execute("select count(*) from rows").fetchone()[0])
except sqlite3.OperationalError as error:
    assert "no such table" in str(error), error
    print(0)
"#;

/// A file that is replaced by another one, again and again.
const REPLACING: &str = r#"
import os
for n in range(1, 401):
    with open("new", "w") as new:
        new.write("%07d" % n * 1000)
        new.flush()
        os.fsync(new.fileno())
    os.rename("new", "current")
    os.fsync(os.open(".", os.O_RDONLY))
    if n % 10 == 0:
        print(n, flush=True)
"#;

/// What was shown when.
struct Shown {
    /// How many flushes the disk had been asked for by then.
    flushes: usize,
    number: usize,
}

/// Something of the domain is killed while the command runs.
#[derive(Clone, Copy, Debug)]
struct Kill {
    /// The name of the process.
    victim: &'static str,
    /// When so many lines have been shown.
    after: usize,
}

/// What power losses left.
#[derive(Debug, Default)]
struct Found {
    states: usize,
    /// Something was not there that had been shown.
    lost: usize,
    /// What was there was no state that the program ever left.
    damaged: usize,
}

/// What a state holds: how far the program had come, or `None` for no state of it at all.
type Look = fn(&Path) -> Option<usize>;

fn losses(
    disk: &BlockLog,
    (options, command): (&str, &[&str]),
    kill: Option<Kill>,
    look: Look,
) -> Found {
    disk.make_ext4();
    let mounted = disk.mount_with(options);
    disk.record();
    let shown = show(disk, mounted.path(), command, kill);
    drop(mounted);
    let flushes = disk.stop().len();
    let mut found = Found::default();
    // The kills share the states.
    let states = kill.map_or(states(), |_| states() / kills::COUNT);
    let mut moments = moments(flushes, states);
    // What matters most after a kill: the power fails when the last line is seen.
    let last = shown.last().filter(|_| kill.is_some());
    moments.extend(last.into_iter().flat_map(|shown| {
        [None, Some(1), Some(2)].map(|seed| PowerLoss {
            flushes: shown.flushes,
            seed,
        })
    }));
    for loss in moments {
        disk.lose_power(loss);
        let recovered = disk.mount_with(options);
        let last = shown
            .iter()
            .rev()
            .find(|shown| shown.flushes <= loss.flushes);
        let last = last.map_or(0, |shown| shown.number);
        found.states += 1;
        match look(recovered.path()) {
            None => found.damaged += 1,
            Some(number) if number < last => found.lost += 1,
            Some(_) => {}
        }
    }
    found
}

/// Moments spread over all flushes. Every third state is exactly what a flush left.
fn moments(flushes: usize, states: usize) -> Vec<PowerLoss> {
    let moment = |state: usize| PowerLoss {
        flushes: state * flushes / states,
        seed: (!state.is_multiple_of(3)).then_some(state as u64),
    };
    (0..states).map(moment).collect()
}

fn show(disk: &BlockLog, directory: &Path, command: &[&str], kill: Option<Kill>) -> Vec<Shown> {
    let mut child = Command::new(command[0])
        .args(&command[1..])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start the command");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut shown = Vec::new();
    for line in lines {
        shown.push(Shown {
            number: line.expect("a line").parse().expect("a number"),
            flushes: disk.flushes(),
        });
        if let Some(kill) = kill.filter(|kill| kill.after == shown.len()) {
            kill.strike(child.id());
        }
    }
    let status = child.wait().expect("wait");
    match kill {
        None => {
            assert!(status.success(), "{status}");
            assert!(shown.len() >= 30, "{} lines", shown.len());
        }
        Some(kill) => {
            assert!(!status.success(), "{status} after {kill:?}");
            assert!(shown.len() >= kill.after, "{} lines", shown.len());
        }
    }
    shown
}

/// What one program and all its states may take.
fn limit() -> Duration {
    Duration::from_secs(600 + states() as u64)
}

fn states() -> usize {
    let states = std::env::var("SURMISE_STATES");
    states.map_or(30, |states| {
        states.parse().expect("SURMISE_STATES is a number")
    })
}

fn lines(directory: &Path) -> Option<usize> {
    let found = std::fs::read_to_string(directory.join("lines")).unwrap_or_default();
    let whole = found.lines().enumerate();
    let count = found.lines().count();
    let is_right = whole
        .into_iter()
        .all(|(at, line)| line == format!("{:07}", at + 1));
    (is_right && found.len() == count * 8).then_some(count)
}

fn rows(directory: &Path) -> Option<usize> {
    let checked = Command::new("python3")
        .args(["-c", CHECKING])
        .current_dir(directory)
        .stderr(Stdio::null())
        .output()
        .expect("start python3");
    let number = String::from_utf8(checked.stdout).ok()?;
    checked
        .status
        .success()
        .then(|| number.trim().parse().ok())?
}

/// The commits of the branch, where all of them are whole.
fn commits(directory: &Path) -> Option<usize> {
    let repository = directory.join("repository");
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(["-c", "safe.directory=*", "-C"])
            .arg(&repository)
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .expect("start git");
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then_some(text)
    };
    // `git init` is many steps and syncs none of them for certain: before the first commit there
    // is nothing to be whole.
    if !repository.join(".git/refs/heads/main").exists() {
        return Some(0);
    }
    git(&["fsck", "--strict"])?;
    git(&["rev-list", "--count", "main"])?.trim().parse().ok()
}

fn replaced(directory: &Path) -> Option<usize> {
    let Ok(found) = std::fs::read_to_string(directory.join("current")) else {
        return Some(0);
    };
    let number: usize = found.get(..7)?.parse().ok()?;
    (found == format!("{number:07}").repeat(1000)).then_some(number)
}

#[track_caller]
fn nothing_is_lost(test: &str, (program, every): (&str, &str), look: Look) {
    let name = format!("synchrony::crash::{test}");
    BlockLog::with(&name, DISK_BYTES, limit(), |disk| {
        let binary = surmise_binary().display().to_string();
        let command = [
            &binary, "sync", "--", "python3", "-c", program, "sync", every,
        ];
        let found = losses(disk, ("data=journal", &command), None, look);
        tell(format_args!("{test}: {found:?}"));
        assert_eq!((found.lost, found.damaged), (0, 0));
    });
}

#[test]
fn lines_that_were_shown_are_there() {
    nothing_is_lost("lines_that_were_shown_are_there", (APPENDING, "10"), lines);
}

/// Soon it does not pay to put their syncs off.
#[test]
fn lines_that_are_all_shown_are_there() {
    nothing_is_lost(
        "lines_that_are_all_shown_are_there",
        (APPENDING, "1"),
        lines,
    );
}

#[test]
fn transactions_that_were_shown_are_there() {
    nothing_is_lost(
        "transactions_that_were_shown_are_there",
        (TRANSACTING, ""),
        rows,
    );
}

#[test]
fn transactions_of_a_log_that_were_shown_are_there() {
    nothing_is_lost(
        "transactions_of_a_log_that_were_shown_are_there",
        (TRANSACTING_AHEAD, ""),
        rows,
    );
}

#[test]
fn commits_that_were_shown_are_there() {
    if !is_installed("git") {
        return skip("git is not installed");
    }
    nothing_is_lost(
        "commits_that_were_shown_are_there",
        (COMMITTING, ""),
        commits,
    );
}

#[test]
fn replaced_files_that_were_shown_are_there() {
    nothing_is_lost(
        "replaced_files_that_were_shown_are_there",
        (REPLACING, ""),
        replaced,
    );
}

/// What makes the tests above mean something: the same program, where its syncs do nothing.
#[test]
fn without_synchrony_what_was_shown_is_lost() {
    let test = "synchrony::crash::without_synchrony_what_was_shown_is_lost";
    BlockLog::with(test, DISK_BYTES, limit(), |disk| {
        let command = ["python3", "-c", APPENDING, "no", "10"];
        let found = losses(disk, ("", &command), None, lines);
        tell(format_args!("without: {found:?}"));
        assert!(found.lost + found.damaged > 0, "{found:?}");
    });
}

/// Here the syncs are called, and something in between leaves them out.
#[test]
fn where_syncs_are_left_out_what_was_shown_is_lost() {
    if !is_installed("eatmydata") {
        return skip("eatmydata is not installed");
    }
    let test = "synchrony::crash::where_syncs_are_left_out_what_was_shown_is_lost";
    BlockLog::with(test, DISK_BYTES, limit(), |disk| {
        let command = ["eatmydata", "--", "python3", "-c", TRANSACTING];
        let found = losses(disk, ("", &command), None, rows);
        tell(format_args!("eatmydata: {found:?}"));
        assert!(found.lost + found.damaged > 0, "{found:?}");
    });
}
