//! Paths and names as a person reads them: what would not read back as itself is quoted.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A path as a user reads it. One below `base` (absolute) is relative to it; a directory ends in `/`. A
/// path that would not read back as itself is quoted the way git quotes.
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

/// Without control characters: those of somebody else's text must not reach the terminal.
pub fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
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
    use super::*;

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
