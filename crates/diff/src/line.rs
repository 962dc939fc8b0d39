//! A change as one line of text.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::diff::Row;

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

/// A path as a user reads it: see [`Row::line`].
pub fn shown(path: &Path, base: &Path, is_directory: bool) -> String {
    let path = match path.strip_prefix(base) {
        Ok(relative) if relative.as_os_str().is_empty() => Path::new("."),
        Ok(relative) => relative,
        Err(_) => path,
    };
    let mut bytes = path.as_os_str().as_bytes().to_vec();
    if is_directory && !bytes.ends_with(b"/") {
        bytes.push(b'/');
    }
    match needs_quotes(&bytes) {
        true => quoted(&bytes),
        false => String::from_utf8(bytes).expect("bytes that need no quotes are UTF-8"),
    }
}

/// The name of an extended attribute in a list that has commas between its items.
pub(crate) fn shown_name(name: &OsStr) -> String {
    match name.to_str() {
        Some(text) if !needs_quotes(text.as_bytes()) && !text.contains(',') => text.to_owned(),
        _ => quoted(name.as_bytes()),
    }
}

/// Bytes in double quotes, with C escapes for all that is not plain text.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from('"');
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\r' => text.push_str("\\r"),
                _ if is_plain(character) => text.push(character),
                _ => octal(&mut text, character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        octal(&mut text, chunk.invalid());
    }
    text.push('"');
    text
}

/// A path in the headers of a patch, quoted where git would take it for something else.
pub(crate) fn patch_path(prefix: &str, path: &Path) -> Vec<u8> {
    let bytes = [prefix.as_bytes(), path.as_os_str().as_bytes()].concat();
    match needs_quotes(&bytes) {
        true => quoted(&bytes).into_bytes(),
        false => bytes,
    }
}

fn needs_quotes(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            text.contains(" -> ")
                || text.starts_with(' ')
                || text.ends_with(' ')
                || !text
                    .chars()
                    .all(|character| is_plain(character) && character != '"' && character != '\\')
        }
        Err(_) => true,
    }
}

/// Whether a character shows as itself: no control character and none that reorders or hides text.
fn is_plain(character: char) -> bool {
    let hides = matches!(character,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    !character.is_control() && !hides
}

fn octal(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        write!(text, "\\{byte:03o}").expect("a String takes everything");
    }
}

#[cfg(test)]
mod tests {
    use surmise_changes::{Change, ChangeKind};

    use super::*;
    use crate::Note;

    fn row(kind: ChangeKind, path: &str, from: Option<&str>, is_directory: bool) -> Row {
        let change = Change {
            kind,
            path: path.into(),
            from: from.map(Into::into),
            is_directory,
            node: None,
            old: None,
            replaces: None,
        };
        Row {
            change,
            notes: Vec::new(),
        }
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

    #[test]
    fn names_that_could_mislead_are_quoted() {
        let shown = |name: &[u8]| shown(Path::new(OsStr::from_bytes(name)), Path::new("/"), false);
        assert_eq!(shown(b"plain name"), "plain name");
        assert_eq!(shown("größe".as_bytes()), "größe");
        assert_eq!(shown(b"a\nD b"), r#""a\nD b""#);
        assert_eq!(shown(b"a -> b"), r#""a -> b""#);
        assert_eq!(shown(b"\xff\x1b[m\"\\"), r#""\377\033[m\"\\""#);
        assert_eq!(shown("\u{202e}gpj".as_bytes()), r#""\342\200\256gpj""#);
    }
}
