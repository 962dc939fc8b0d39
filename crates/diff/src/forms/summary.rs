//! The changes in short: how many of which kind there are, and the first of them.

use std::io::{self, Write};

use surmise_changes::ChangeKind;

use super::{Form, Shown, Writer};
use crate::count::count;
use crate::notes::Note;

/// Lines shown before the rest is only counted, and as many more of those that give somebody rights.
const LINES_MAX: usize = 20;

const KINDS: [(ChangeKind, &str); 5] = [
    (ChangeKind::Added, "added"),
    (ChangeKind::Modified, "modified"),
    (ChangeKind::Deleted, "deleted"),
    (ChangeKind::Renamed, "renamed"),
    (ChangeKind::TypeChanged, "of another type"),
];

/// What is told after a run.
pub const FORM: Form = Form {
    asked: None,
    writer: Writer::Names(write),
};

/// Writes how many changes of which kind there are, the first of them, and the first of the others that
/// give somebody rights: those must not pass among many that do not.
///
/// # Errors
/// As `out`.
pub fn write(shown: &Shown<'_>, out: &mut dyn Write) -> io::Result<()> {
    let diff = shown.diff;
    let counted: Vec<_> = KINDS
        .iter()
        .map(|(kind, word)| {
            let of_kind = diff.changes().filter(|change| change.kind == *kind);
            (of_kind.count(), word)
        })
        .filter(|(number, _)| *number > 0)
        .map(|(number, word)| format!("{number} {word}"))
        .collect();
    let changes = count(diff.len(), "change");
    writeln!(out, "surmise: {changes}: {}", counted.join(", "))?;
    let first = diff.iter().take(LINES_MAX);
    let rest = diff.iter().skip(LINES_MAX);
    let giving = rest.filter(|row| row.notes.iter().any(Note::gives_rights));
    let mut written = 0;
    for row in first.chain(giving.take(LINES_MAX)) {
        writeln!(out, "  {}", row.line(shown.base))?;
        written += 1;
    }
    if diff.len() > written {
        writeln!(out, "  … and {} more", diff.len() - written)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::diff::{Diff, Row};

    fn summary(rows: Vec<Row>) -> String {
        let mut text = Vec::new();
        let shown = Shown {
            diff: &Diff::from(rows),
            held: &[],
            base: Path::new("/"),
        };
        write(&shown, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn kinds_are_counted_and_all_lines_shown_while_they_are_few() {
        let rows = vec![
            Row::of(ChangeKind::Added, "/a"),
            Row::of(ChangeKind::Deleted, "/b"),
            Row::of(ChangeKind::Added, "/d"),
        ];
        assert_eq!(
            summary(rows),
            "surmise: 3 changes: 2 added, 1 deleted\n  A a\n  D b\n  A d\n"
        );
    }

    #[test]
    fn what_is_not_shown_is_counted_but_for_what_gives_rights() {
        let mut rows: Vec<_> = (0..60)
            .map(|number| Row::of(ChangeKind::Modified, &format!("/{number}")))
            .collect();
        for row in &mut rows[30..55] {
            row.notes = vec![Note::WritableByAll];
        }
        let text = summary(rows);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "surmise: 60 changes: 60 modified");
        assert_eq!(lines[20..22], ["  M 19", "  M 30\twritable by all"]);
        assert_eq!(lines[40..], ["  M 49\twritable by all", "  … and 20 more"]);
    }
}
