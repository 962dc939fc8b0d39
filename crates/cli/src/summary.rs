//! A domain's changes in short, for standard error.

use std::io::Write;
use std::time::Duration;

use surmise_changes::ChangeKind;
use surmise_diff::{Diff, Note};
use surmise_kept::Domain;

use crate::failure::Failure;
use crate::launch;
use crate::pager;
use crate::patch::{Contents, left_out};
use crate::pending::Pending;

/// Lines shown before the rest is only counted, and as many more of those that give somebody rights.
const LINES_MAX: usize = 20;

/// Prints how many changes of which kind there are, the first of them, and the first of the others that
/// give somebody rights: those must not pass among many that do not.
pub fn show(diff: &Diff) -> Result<(), Failure> {
    let base = launch::directory()?;
    let kinds: Vec<_> = diff.changes().map(|change| change.kind).collect();
    let first = diff.iter().take(LINES_MAX);
    let rest = diff.iter().skip(LINES_MAX);
    let giving = rest.filter(|row| row.notes.iter().any(Note::gives_rights));
    let lines: Vec<_> = first
        .chain(giving.take(LINES_MAX))
        .map(|row| row.line(&base))
        .collect();
    // As all remarks: what can't be written must not change what a run does.
    let _ = anstream::stderr()
        .lock()
        .write_all(text(&kinds, &lines).as_bytes());
    Ok(())
}

/// Shows all of them, then what they are in files below the current directory, a screen at a time.
pub fn show_all(domain: &Domain, pending: &Pending) -> Result<(), Failure> {
    let base = launch::directory()?;
    let contents = Contents::of(domain)?;
    pager::page(|out| {
        for row in &pending.changes {
            writeln!(out, "{}", row.line(&base))?;
        }
        for held in &pending.held {
            writeln!(out, "{}", held.line())?;
        }
        writeln!(out)?;
        let left = contents.write_patch(&pending.changes, &base, out)?;
        for line in left_out(&left, &base) {
            writeln!(out, "{line}")?;
        }
        Ok(())
    })
    .map_err(|error| Failure::new(format_args!("show the changes: {error}")))
}

fn text(kinds: &[ChangeKind], lines: &[String]) -> String {
    let mut text = format!("surmise: {}", count(kinds.len(), "change"));
    let counted: Vec<_> = KINDS
        .iter()
        .map(|(kind, word)| (kinds.iter().filter(|found| *found == kind).count(), word))
        .filter(|(number, _)| *number > 0)
        .map(|(number, word)| format!("{number} {word}"))
        .collect();
    text.push_str(&format!(": {}\n", counted.join(", ")));
    for line in lines {
        text.push_str(&format!("  {line}\n"));
    }
    if kinds.len() > lines.len() {
        text.push_str(&format!("  … and {} more\n", kinds.len() - lines.len()));
    }
    text
}

const KINDS: [(ChangeKind, &str); 5] = [
    (ChangeKind::Added, "added"),
    (ChangeKind::Modified, "modified"),
    (ChangeKind::Deleted, "deleted"),
    (ChangeKind::Renamed, "renamed"),
    (ChangeKind::TypeChanged, "of another type"),
];

/// `1 change`, `2 changes`, `2 processes`.
pub fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ if noun.ends_with('s') => format!("{number} {noun}es"),
        _ => format!("{number} {noun}s"),
    }
}

/// [`count`] of what is counted in 64 bits.
pub fn counted(number: u64, noun: &str) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), noun)
}

/// A duration with three digits or so.
pub fn time(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..1_000_000 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_and_all_lines_shown_while_they_are_few() {
        let kinds = [ChangeKind::Added, ChangeKind::Deleted, ChangeKind::Added];
        let lines = ["A a", "D b", "A d/"].map(String::from);
        assert_eq!(
            text(&kinds, &lines),
            "surmise: 3 changes: 2 added, 1 deleted\n  A a\n  D b\n  A d/\n"
        );
    }

    #[test]
    fn what_is_not_shown_is_counted() {
        let lines = ["M a"].map(String::from);
        assert_eq!(
            text(&[ChangeKind::Modified; 3], &lines),
            "surmise: 3 changes: 3 modified\n  M a\n  … and 2 more\n"
        );
    }

    #[test]
    fn one_is_singular() {
        assert_eq!(count(1, "change"), "1 change");
        assert_eq!(count(0, "change"), "0 changes");
        assert_eq!(count(2, "process"), "2 processes");
    }

    #[test]
    fn a_time_has_a_unit_that_suits_it() {
        assert_eq!(time(Duration::from_micros(999)), "999 us");
        assert_eq!(time(Duration::from_micros(1_000)), "1.0 ms");
        assert_eq!(time(Duration::from_micros(2_345)), "2.3 ms");
        assert_eq!(time(Duration::from_secs(1)), "1.0 s");
    }
}
