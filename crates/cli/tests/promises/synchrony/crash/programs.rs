//! Programs that number what they sync, and how to tell how far they had come from what is on a disk.

use std::path::Path;
use std::process::{Command, Stdio};

/// A program of Python that puts out how far it has come, when it has synced as much.
#[derive(Clone, Copy)]
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) source: &'static str,
    /// The words that start another with the rights and the environment that the program needs.
    pub(super) starter: fn() -> Vec<String>,
    /// Makes what the program finds, before anything is recorded.
    pub(super) prepare: fn(&Path),
    pub(super) look: Look,
}

/// What a state holds: how far the program had come, or `None` for no state of it at all.
pub(super) type Look = fn(&Path) -> Option<usize>;

impl Program {
    pub(super) const fn new(name: &'static str, source: &'static str, look: Look) -> Self {
        Self {
            name,
            source,
            starter: Vec::new,
            prepare: |_| {},
            look,
        }
    }

    /// The words that start it behind others that start another, with its own arguments.
    pub(super) fn command(&self, before: &[&str], arguments: &[&str]) -> Vec<String> {
        let before = before.iter().map(|word| (*word).to_owned());
        let python = ["python3", "-c", self.source].into_iter();
        let own = python.chain(arguments.iter().copied()).map(String::from);
        before.chain((self.starter)()).chain(own).collect()
    }
}

pub(super) const LINES: Program = Program::new("appended lines", APPENDING, lines);
pub(super) const ROLLBACK: Program = Program::new("sqlite, rollback journal", TRANSACTING, rows);
pub(super) const RENAMED: Program = Program::new("renamed over", REPLACING, replaced);
pub(super) const RENAMED_LAST: Program =
    Program::new("renamed after the sync", REPLACING_LAST, replaced);
pub(super) const COMMITS: Program = Program::new("git commit", COMMITTING, commits);

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
    # The last that git does is to rename a file that it has synced: it never asks for the name.
    print(n, flush=True)
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

/// The same without a sync of the name, and with time for a commit before there is one.
const REPLACING_LAST: &str = r#"
import os, time
for n in range(1, 41):
    with open("new", "w") as new:
        new.write("%07d" % n * 1000)
        new.flush()
        os.fsync(new.fileno())
    time.sleep(0.05)
    os.rename("new", "current")
    print(n, flush=True)
"#;

/// Prints the number of rows, or fails where the base is damaged.
pub(super) const CHECKING: &str = r#"
import sqlite3
base = sqlite3.connect("base")
assert base.execute("pragma integrity_check").fetchone() == ("ok",)
try:
    print(base.execute("select count(*) from rows").fetchone()[0])
except sqlite3.OperationalError as error:
    assert "no such table" in str(error), error
    print(0)
"#;

fn lines(directory: &Path) -> Option<usize> {
    let found = std::fs::read_to_string(directory.join("lines")).unwrap_or_default();
    let whole = found.lines().enumerate();
    let count = found.lines().count();
    let is_right = whole
        .into_iter()
        .all(|(at, line)| line == format!("{:07}", at + 1));
    (is_right && found.len() == count * 8).then_some(count)
}

/// The rows of a base of SQLite, where it is whole.
pub(super) fn rows(directory: &Path) -> Option<usize> {
    number(CHECKING, directory)
}

/// What a program of Python prints that looks at a state: one number; `None` where it fails.
pub(super) fn number(source: &str, directory: &Path) -> Option<usize> {
    let checked = Command::new("python3")
        .args(["-c", source])
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
