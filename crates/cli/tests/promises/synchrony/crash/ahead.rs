//! S47: SQLite with a write-ahead log. Its index is a shared map, of which a loss of power leaves anything: nothing
//! that was shown is lost, whatever that is.

use std::path::Path;

use super::nothing_is_lost;
use super::programs::{Program, number, rows};

pub(super) const AHEAD: Program = Program::new("sqlite, write-ahead log", TRANSACTING, rows);
const CHECKPOINTS: Program = Program::new(
    "sqlite, many checkpoints",
    TRANSACTING_MUCH,
    rows_of_index_ahead,
);
const TWO: Program = Program::new(
    "sqlite, two processes",
    TRANSACTING_BOTH,
    rows_of_index_ahead,
);
const ALONE: Program = Program::new("sqlite, no index", TRANSACTING_ALONE, rows);

/// Rows of a base, each in a transaction of its own, which is synced; now and then their number is put out.
const TRANSACTING: &str = r#"
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

/// The same, and what the log holds is brought to the base all the time.
const TRANSACTING_MUCH: &str = r#"
import sqlite3
base = sqlite3.connect("base", isolation_level=None)
base.execute("pragma synchronous=full")
assert base.execute("pragma journal_mode=wal").fetchone() == ("wal",)
base.execute("pragma wal_autocheckpoint=5")
base.execute("create table if not exists rows (n integer primary key, text)")
for n in range(1, 301):
    base.execute("insert into rows values (?, ?)", (n, "x" * 300))
    if n % 10 == 0:
        print(n, flush=True)
"#;

/// The same by two processes at once. One shows what it finds of both.
const TRANSACTING_BOTH: &str = r#"
import os, sqlite3
def opened():
    base = sqlite3.connect("base", isolation_level=None, timeout=60)
    base.execute("pragma synchronous=full")
    base.execute("pragma wal_autocheckpoint=20")
    return base
base = opened()
assert base.execute("pragma journal_mode=wal").fetchone() == ("wal",)
base.execute("create table if not exists rows (n integer primary key, text)")
base.close()
other = os.fork()
base = opened()
for n in range(1, 151):
    base.execute("insert into rows (text) values (?)", ("x" * 300,))
    if other and n % 5 == 0:
        print(base.execute("select count(*) from rows").fetchone()[0], flush=True)
if other:
    assert os.waitpid(other, 0)[1] == 0
"#;

/// The same by one that lets nobody else open the base: the index is in its own memory.
const TRANSACTING_ALONE: &str = r#"
import os, sqlite3
base = sqlite3.connect("base", isolation_level=None)
base.execute("pragma synchronous=full")
base.execute("pragma locking_mode=exclusive")
assert base.execute("pragma journal_mode=wal").fetchone() == ("wal",)
base.execute("create table if not exists rows (n integer primary key, text)")
assert not os.path.exists("base-shm")
for n in range(1, 301):
    base.execute("insert into rows values (?, ?)", (n, "x" * 300))
    if n % 10 == 0:
        print(n, flush=True)
"#;

/// Puts beside the base the index that it would have had fifty transactions later.
const INDEX_AHEAD: &str = r#"
import os, shutil, sqlite3, tempfile
if os.path.exists("base-wal"):
    with tempfile.TemporaryDirectory() as copy:
        for name in ("base", "base-wal"):
            shutil.copy(name, copy)
        base = sqlite3.connect(copy + "/base", isolation_level=None)
        base.execute("pragma wal_autocheckpoint=0")
        base.execute("create table if not exists rows (n integer primary key, text)")
        for n in range(50):
            base.execute("insert into rows (text) values (?)", ("y" * 300,))
        shutil.copy(copy + "/base-shm", "base-shm")
        assert os.path.getsize("base-shm") % 32768 == 0
        base.close()
print(0)
"#;

fn rows_of_index_ahead(directory: &Path) -> Option<usize> {
    number(INDEX_AHEAD, directory)?;
    rows(directory)
}

#[test]
fn transactions_of_a_log_that_were_shown_are_there() {
    let test = "ahead::transactions_of_a_log_that_were_shown_are_there";
    nothing_is_lost(test, &AHEAD, "10");
}

#[test]
fn transactions_between_checkpoints_are_there() {
    let test = "ahead::transactions_between_checkpoints_are_there";
    nothing_is_lost(test, &CHECKPOINTS, "10");
}

#[test]
fn transactions_of_two_processes_are_there() {
    let test = "ahead::transactions_of_two_processes_are_there";
    nothing_is_lost(test, &TWO, "5");
}

#[test]
fn transactions_of_a_log_without_an_index_are_there() {
    let test = "ahead::transactions_of_a_log_without_an_index_are_there";
    nothing_is_lost(test, &ALONE, "10");
}
