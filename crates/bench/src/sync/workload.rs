//! What is written, and made durable, by programs that are measured.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::place::about;

/// What this program does, in the current directory. Each sync is one operation, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Workload {
    /// A hundred bytes more in a file, and fsync.
    Append,
    /// The same, and a line on standard output after so many.
    AppendAndTell(u32),
    /// A new file of 4 KB, and fsync, of it and of its directory.
    SmallFiles,
}

/// Not the one that a version manager puts before it.
pub const PYTHON: &str = "/usr/bin/python3";

/// Its arguments are the number of insertions, a transaction each, and how the base keeps its journal.
pub const SQLITE: &str = "\
import sqlite3, sys
base = sqlite3.connect('base.db', isolation_level=None)
base.execute('PRAGMA journal_mode=' + sys.argv[2])
base.execute('PRAGMA synchronous=FULL')
base.execute('CREATE TABLE entries (id INTEGER PRIMARY KEY, text TEXT)')
for number in range(int(sys.argv[1])):
    base.execute('INSERT INTO entries (text) VALUES (?)', ('%0100d' % number,))
";

/// What PostMark is to do.
pub const POSTMARK_FILE: &str = "postmark.conf";

/// From what was written on a command line.
pub fn parse(text: &str) -> Result<Workload, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Has PostMark begin with so many files, and do as many transactions.
pub fn write_postmark(directory: &Path, count: u32) -> Result<(), String> {
    let path = directory.join(POSTMARK_FILE);
    let mut text = String::new();
    let _ = write!(
        text,
        "set number {count}\nset transactions {count}\nset report terse\nrun\nquit\n"
    );
    fs::write(&path, text).map_err(|error| about("write", &path, &error))
}

impl Workload {
    /// Does so many operations.
    pub fn perform(self, count: u32) -> io::Result<()> {
        match self {
            Self::Append => append(count, u32::MAX),
            Self::AppendAndTell(every) => append(count, every),
            Self::SmallFiles => small_files(count),
        }
    }
}

fn append(count: u32, tell_every: u32) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open("appended")?;
    let mut output = io::stdout().lock();
    for number in 1..=count {
        file.write_all(&[b'x'; 100])?;
        file.sync_all()?;
        if number.is_multiple_of(tell_every) {
            writeln!(output, "{number}")?;
            output.flush()?;
        }
    }
    Ok(())
}

/// How many files a directory holds.
const FILES_A_DIRECTORY: u32 = 1000;

fn small_files(count: u32) -> io::Result<()> {
    let content = [b'x'; 4096];
    for first in (0..count).step_by(FILES_A_DIRECTORY as usize) {
        let name = format!("directory-{first}");
        fs::create_dir(&name)?;
        let directory = File::open(&name)?;
        for number in first..count.min(first + FILES_A_DIRECTORY) {
            let mut file = File::create(format!("{name}/{number}"))?;
            file.write_all(&content)?;
            file.sync_all()?;
            drop(file);
            directory.sync_all()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_read_as_it_was_written() {
        for workload in [
            Workload::Append,
            Workload::AppendAndTell(10),
            Workload::SmallFiles,
        ] {
            let text = serde_json::to_string(&workload).expect("plain data");
            assert_eq!(parse(&text), Ok(workload));
        }
        assert!(parse("append").is_err());
    }
}
