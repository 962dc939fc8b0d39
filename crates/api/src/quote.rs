//! Commands as a shell would take them.

use std::ffi::OsStr;

pub use surmise_diff::plain;

/// `words` in one line, each quoted where a shell would need it. For reading: a byte that is no UTF-8
/// is replaced.
pub fn command_line<S: AsRef<OsStr>>(words: &[S]) -> String {
    let quoted: Vec<_> = words
        .iter()
        .map(|word| quote(&word.as_ref().to_string_lossy()))
        .collect();
    quoted.join(" ")
}

fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%^".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", plain(word).replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_shell_would_split_or_expand_is_quoted() {
        let words = [
            "make",
            "CFLAGS=-O2 -g",
            "it's",
            "",
            "$HOME",
            "a/b.c",
            "\x1b[2J",
        ];
        assert_eq!(
            command_line(&words),
            r"make 'CFLAGS=-O2 -g' 'it'\''s' '' '$HOME' a/b.c '?[2J'"
        );
    }
}
