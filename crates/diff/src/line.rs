//! A change as one line of text.

use std::fmt::Write as _;
use std::path::Path;

use crate::diff::Row;
use crate::quote::shown;

impl Row {
    /// `A path`, `M path`, `D path`, `T path` or `R old -> new`. Paths below `base` (absolute) are
    /// relative to it, others absolute; directories end in `/`. A path that would not read back as
    /// itself is quoted the way git quotes. Where there are notes they follow after a tab, which is in
    /// no path, with commas between them.
    pub fn line(&self, base: &Path) -> String {
        let change = &self.change;
        let path = shown(&change.path, base, change.is_directory);
        let letter = change.kind.letter();
        let mut line = match &change.from {
            Some(from) => {
                let from = shown(from, base, change.is_directory);
                format!("{letter} {from} -> {path}")
            }
            None => format!("{letter} {path}"),
        };
        for (index, note) in self.notes.iter().enumerate() {
            let separator = if index == 0 { "\t" } else { ", " };
            write!(line, "{separator}{note}").expect("a String takes everything");
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use surmise_changes::ChangeKind;

    use super::*;
    use crate::Note;

    fn row(kind: ChangeKind, path: &str, from: Option<&str>, is_directory: bool) -> Row {
        let mut row = Row::of(kind, path);
        row.change.from = from.map(Into::into);
        row.change.is_directory = is_directory;
        row
    }

    #[test]
    fn paths_below_the_base_are_relative_and_others_absolute() {
        let base = Path::new("/home/u");
        let line = |row: Row| row.line(base);
        assert_eq!(
            line(row(ChangeKind::Added, "/home/u/a", None, false)),
            "A a"
        );
        assert_eq!(
            line(row(ChangeKind::Added, "/tmp/x", None, true)),
            "A /tmp/x/"
        );
        assert_eq!(
            line(row(ChangeKind::Modified, "/home/u", None, true)),
            "M ./"
        );
        assert_eq!(
            line(row(
                ChangeKind::Renamed,
                "/home/u/d/c",
                Some("/home/u/c"),
                false
            )),
            "R c -> d/c"
        );
    }

    #[test]
    fn notes_follow_after_the_only_tab() {
        let noted = Row {
            notes: vec![Note::SetUser(0), Note::Mode(0o755, 0o4755)],
            ..row(ChangeKind::Modified, "/a\tset-user-id root", None, false)
        };
        assert_eq!(
            noted.line(Path::new("/")),
            "M \"a\\tset-user-id root\"\tset-user-id root, mode 0755 -> 4755"
        );
    }
}
