//! Changes that mounts have lost: listed, shown, and made again.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use surmise_api::quote::plain;
use surmise_mount::lost::{self, ReadError, Waiting};
use surmise_mount::replay::{self, ReplayError, Replayed};
use surmise_mount::status::{self, Described};
use surmise_remote::lost::LostFile;
use surmise_remote::replay::{Became, Line, Told, Why, lines};

use crate::failure::Failure;
use crate::report;
use crate::size;
use crate::summary::count;
use crate::table::Table;

/// A file of lost changes.
#[derive(Serialize)]
pub struct LostRow {
    file: PathBuf,
    state: &'static str,
    #[serde(flatten)]
    contents: Option<Contents>,
}

#[derive(Serialize)]
struct Contents {
    source: String,
    mount_point: PathBuf,
    /// In seconds since 1970.
    at: i64,
    why: String,
    changes: usize,
    bytes: usize,
}

impl LostRow {
    pub fn of(waiting: &Waiting) -> Self {
        let state = match &waiting.file {
            Err(_) => "damaged",
            Ok(file) if file.is_over => "left",
            Ok(file) if file.progress.is_empty() => "waits",
            Ok(_) => "begun",
        };
        let contents = waiting.file.as_ref().ok().map(|file| Contents {
            source: file.begins.source.clone(),
            mount_point: path(&file.begins.mount_point),
            at: file.begins.at.seconds,
            why: file.begins.why.clone(),
            changes: file.lost.changes.len(),
            bytes: file.lost.bytes(),
        });
        Self {
            file: waiting.path.clone(),
            state,
            contents,
        }
    }
}

pub fn table(rows: &[LostRow]) -> Table<5> {
    let mut table = Table::new(["LOST CHANGES OF", "CHANGES", "DATA", "STATE", "FILE"]);
    for row in rows {
        let of = row.contents.as_ref();
        let told = |told: fn(&Contents) -> String| of.map_or_else(|| "-".to_owned(), told);
        table.push([
            told(|contents| plain(&contents.source)),
            told(|contents| contents.changes.to_string()),
            told(|contents| size::shown(contents.bytes as u64)),
            row.state.to_owned(),
            row.file.display().to_string(),
        ]);
    }
    table
}

/// Prints what a file has.
pub fn show(file: &Path) -> Result<ExitCode, Failure> {
    let read = lost::read(file).map_err(|error| unreadable(file, &error))?;
    let mut out = anstream::stdout().lock();
    let begins = &read.begins;
    let since = SystemTime::UNIX_EPOCH + Duration::from_secs(begins.at.seconds.unsigned_abs());
    let ago = SystemTime::now().duration_since(since).unwrap_or_default();
    writeln!(
        out,
        "{} of {}, mounted on {}, lost {} ago: {}",
        count(read.lost.changes.len(), "change"),
        plain(&begins.source),
        shown(&begins.mount_point),
        crate::commands::age(ago),
        plain(&begins.why),
    )?;
    for line in lines(begins.root, &read.lost) {
        writeln!(out, "  {}", text_of(&line))?;
    }
    if let Some(onto) = &read.onto {
        let made = match read.is_over {
            true => "came to its end, and left changes out; it tells again which",
            false => "was begun",
        };
        writeln!(out, "A replay onto {} {made}", shown(onto))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text_of(line: &Line) -> String {
    let path = shown(&line.path);
    let what = line.what;
    match (&line.to, line.bytes) {
        (Some(to), _) => format!("{what} {path}: {}", shown(to)),
        (None, Some((size, 0))) => format!("{what} {path}: to {size} bytes"),
        (None, Some((offset, length))) => {
            format!("{what} {path}: {length} bytes at {offset}")
        }
        (None, None) => format!("{what} {path}"),
    }
}

/// Makes the changes of a file where they come from, or in another directory.
pub fn replay(file: &Path, onto: Option<&Path>) -> Result<ExitCode, Failure> {
    let read = lost::read(file).map_err(|error| unreadable(file, &error))?;
    let (onto, is_source) = match onto {
        Some(onto) => (onto.to_owned(), is_mount_of(onto, &read)),
        None => (mount_of(file, &read)?, true),
    };
    let replayed = replay::replay(file, &onto, is_source);
    let replayed = replayed.map_err(|error| failure(file, &onto, &error))?;
    let is_left = |told: &Told| matches!(told.what, Became::Left(..));
    let place = onto.display();
    for told in replayed.told.iter().filter(|told| !is_left(told)) {
        report::note(text_of_told(told));
    }
    let made = count(replayed.changes.saturating_sub(replayed.left()), "change");
    if replayed.left() == 0 {
        report::note(format_args!("{made} made in {place}; the file is removed"));
        return Ok(ExitCode::SUCCESS);
    }
    Err(left_out(file, &onto, &replayed, is_left))
}

fn left_out(
    file: &Path,
    onto: &Path,
    replayed: &Replayed,
    is_left: impl Fn(&Told) -> bool,
) -> Failure {
    let left = count(replayed.left(), "change");
    let earlier = if replayed.was_over { " earlier" } else { "" };
    let told = replayed.told.iter().filter(|told| is_left(told));
    let (onto, file) = (onto.display(), file.display());
    Failure::new(format_args!("{left} left out{earlier} in {onto}"))
        .details(told.map(text_of_told))
        .hint(format_args!(
            "all others are made; `surmise mounts --replay {file} --show` shows them, and rm {file} forgets them"
        ))
}

fn text_of_told(told: &Told) -> String {
    let path = shown(&told.path);
    match &told.what {
        Became::Beside(name) => format!(
            "{path}: others have made it; what was lost is {}",
            shown(name.as_bytes())
        ),
        Became::Anew(name) => format!(
            "{path}: others have removed it; what was lost is in {}",
            shown(name.as_bytes())
        ),
        Became::Copied(name) => format!(
            "{path}: others have changed it; with what was lost it is {}",
            shown(name.as_bytes())
        ),
        Became::Left(what, why) => {
            let why = match why {
                Why::Nameless | Why::Gone => "others have removed it".to_owned(),
                Why::Changed => "others have changed it".to_owned(),
                Why::Refused(errno) => std::io::Error::from_raw_os_error(errno.0).to_string(),
            };
            format!("{what} {path}: {why}")
        }
    }
}

/// The mount that lost changes come from, or another one of the same source.
fn mount_of(file: &Path, read: &LostFile) -> Result<PathBuf, Failure> {
    let source = &read.begins.source;
    let all = status::all(&status::directory());
    let all = all.map_err(|error| Failure::new(format_args!("read the mounts: {error}")))?;
    let of_source = all
        .into_iter()
        .filter(|one| one.source == *source && !one.status.is_ending)
        .map(|one| one.mount_point);
    let before = path(&read.begins.mount_point);
    let mut all: Vec<_> = of_source.collect();
    all.sort_by_key(|one| *one != before);
    all.into_iter().next().ok_or_else(|| {
        let (source, file, before) = (plain(source), file.display(), before.display());
        Failure::new(format_args!("{source} is not mounted")).hint(format_args!(
            "mount it again: surmise mount {source} {before}; or `surmise mounts --replay {file} --onto DIR`"
        ))
    })
}

/// Whether a directory is what the changes were made in.
fn is_mount_of(directory: &Path, read: &LostFile) -> bool {
    let all = status::all(&status::directory()).unwrap_or_default();
    let directory = directory.canonicalize();
    directory.is_ok_and(|directory| {
        let is_it =
            |one: &Described| one.source == read.begins.source && one.mount_point == directory;
        all.iter().any(is_it)
    })
}

fn failure(file: &Path, onto: &Path, error: &ReplayError) -> Failure {
    let (shown, place) = (file.display(), onto.display());
    let again = || format!("`surmise mounts --replay {shown}` goes on");
    match error {
        ReplayError::File(error) => unreadable(file, error),
        ReplayError::Elsewhere(begun) => Failure::new(format_args!("{shown}: {error}")).hint(
            format_args!(
                "finish that one first: surmise mounts --replay {shown} --onto {}",
                begun.display()
            ),
        ),
        ReplayError::Directory { .. } => Failure::new(error),
        ReplayError::Stopped { .. } => Failure::new(format_args!("{place}: {error}")).hint(again()),
        ReplayError::Sync(_) => Failure::new(format_args!("{place}: {error}")).hint(format_args!(
            "if that mount has lost changes again, `surmise mounts` lists their file: replay that first. Then {}",
            again()
        )),
        ReplayError::Busy | ReplayError::Note(_) => {
            Failure::new(format_args!("{shown}: {error}")).hint(again())
        }
    }
}

fn unreadable(file: &Path, error: &ReadError) -> Failure {
    let failure = Failure::new(format_args!("{}: {error}", file.display()));
    match error.is_damage() {
        true => failure
            .hint("the file is as it was, and nothing was made of it; a copy of it may be whole"),
        false => failure.hint("`surmise mounts` lists the files of lost changes"),
    }
}

fn path(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

fn shown(bytes: &[u8]) -> String {
    plain(&String::from_utf8_lossy(bytes))
}
