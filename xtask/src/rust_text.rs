//! Rust source, line by line, with comments and the contents of literals told from code.
//!
//! A scanner, not a parser: enough to find words of code without being fooled by a string or a
//! comment that contains them.

/// One line of Rust source.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The code, with the contents of string and character literals left out.
    pub code: String,
    /// The text of comments.
    pub comment: String,
    /// The contents of string literals.
    pub literal: String,
}

/// Splits `text` into lines.
pub fn lines(text: &str) -> Vec<Line> {
    let mut scanner = Scanner {
        rest: text,
        lines: vec![Line::default()],
    };
    while let Some(next) = scanner.rest.chars().next() {
        scanner.step(next);
    }
    if text.ends_with('\n') {
        scanner.lines.pop();
    }
    scanner.lines
}

/// Whether `text` contains `word` as a whole word, where letters, digits and `_` make words.
pub fn has_word(text: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part)
    })
}

struct Scanner<'a> {
    rest: &'a str,
    lines: Vec<Line>,
}

#[derive(Clone, Copy)]
enum Part {
    Code,
    Comment,
    Literal,
}

impl Scanner<'_> {
    fn step(&mut self, next: char) {
        if self.rest.starts_with("//") {
            let length = self.rest.find('\n').unwrap_or(self.rest.len());
            self.take(length, Part::Comment);
        } else if self.rest.starts_with("/*") {
            let length = block_comment_length(self.rest);
            self.take(length, Part::Comment);
        } else if let Some((open, close)) = raw_string(self.rest).filter(|_| !self.inside_word()) {
            self.take(open, Part::Code);
            let length = self.rest.find(&close).unwrap_or(self.rest.len());
            self.take(length, Part::Literal);
            self.take(close.len().min(self.rest.len()), Part::Code);
        } else if next == '"' {
            self.take(1, Part::Code);
            let length = escaped_length(self.rest, '"');
            self.take(length, Part::Literal);
            self.take(1.min(self.rest.len()), Part::Code);
        } else if next == '\'' && is_character_literal(self.rest) {
            self.take(1, Part::Code);
            let length = escaped_length(self.rest, '\'');
            self.take(length, Part::Literal);
            self.take(1, Part::Code);
        } else {
            self.take(next.len_utf8(), Part::Code);
        }
    }

    fn take(&mut self, length: usize, part: Part) {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        for (index, piece) in taken.split('\n').enumerate() {
            if index > 0 {
                self.lines.push(Line::default());
            }
            let line = self.lines.last_mut().expect("there is always a line");
            match part {
                Part::Code => line.code.push_str(piece),
                Part::Comment => line.comment.push_str(piece),
                Part::Literal => line.literal.push_str(piece),
            }
        }
    }

    /// Whether the last character of code belongs to a word, as the `r` of `for"` does.
    fn inside_word(&self) -> bool {
        let code = self.lines.last().map_or("", |line| &line.code);
        code.ends_with(|last: char| last.is_alphanumeric() || last == '_')
    }
}

fn block_comment_length(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of a raw string's opening and its closing, where one starts here.
fn raw_string(text: &str) -> Option<(usize, String)> {
    let prefix = ["r", "br", "cr"].into_iter().find(|prefix| {
        let after = text.strip_prefix(prefix).unwrap_or_default();
        after.trim_start_matches('#').starts_with('"')
    })?;
    let hashes = text[prefix.len()..]
        .bytes()
        .take_while(|&byte| byte == b'#')
        .count();
    Some((
        prefix.len() + hashes + 1,
        format!("\"{}", "#".repeat(hashes)),
    ))
}

/// The length of a literal's contents up to its unescaped `end`.
fn escaped_length(text: &str, end: char) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if character == end {
            return at;
        }
    }
    text.len()
}

/// Whether the quote that `text` starts with opens a character, not a lifetime.
fn is_character_literal(text: &str) -> bool {
    let mut characters = text.chars().skip(1);
    matches!(
        (characters.next(), characters.next()),
        (Some('\\'), _) | (Some(_), Some('\''))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        let lines: Vec<_> = lines(text).into_iter().map(|line| line.code).collect();
        lines.join("\n")
    }

    #[test]
    fn comments_and_literals_are_not_code() {
        assert_eq!(code("a(); // b\n/* c /* d */ e */ f"), "a(); \n f");
        assert_eq!(
            code(r##"x("y // \" z"); r#"a " b"#; c"##),
            r##"x(""); r#""#; c"##
        );
        assert_eq!(code(r"f('\'', 'x', '{')"), "f('', '', '')");
    }

    #[test]
    fn lifetimes_and_names_that_end_in_r_are_code() {
        assert_eq!(code("fn f<'a>(x: &'a str)"), "fn f<'a>(x: &'a str)");
        assert_eq!(code(r#"for"x""#), r#"for"""#);
    }

    #[test]
    fn a_literal_over_lines_keeps_the_line_count() {
        let all = lines("a(\"b\nc\");\n");
        assert_eq!(all.len(), 2);
        assert_eq!(
            (all[0].literal.as_str(), all[1].literal.as_str()),
            ("b", "c")
        );
        assert_eq!(all[1].code, "\");");
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("an unsafe block", "unsafe"));
        assert!(!has_word("forbid(unsafe_code)", "unsafe"));
    }
}
