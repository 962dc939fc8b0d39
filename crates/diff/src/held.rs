//! Held output, as far as a diff tells of it.

use crate::count::count;
use crate::quote::plain;

/// What is held for one destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held<'h> {
    /// Where it goes.
    pub to: &'h str,
    /// How much it is.
    pub bytes: u64,
    /// How many bytes an earlier commit has sent, where that could not send the rest.
    pub unsent_after: Option<u64>,
    /// Its first line, where that is text.
    pub first_line: Option<&'h str>,
}

impl Held<'_> {
    /// `H destination (2 bytes): first line`.
    pub fn line(&self) -> String {
        let bytes = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        let bytes = count(bytes, "byte");
        let mut line = match self.unsent_after {
            None => format!("H {} ({bytes})", plain(self.to)),
            Some(sent) => format!("H {} ({bytes} unsent, {sent} sent)", plain(self.to)),
        };
        if let Some(first) = self.first_line {
            line.push_str(": ");
            line.push_str(&plain(first));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_where_how_much_and_how_it_begins() {
        let held = |first_line| Held {
            to: "127.0.0.1:8080",
            bytes: 312,
            unsent_after: None,
            first_line,
        };
        assert_eq!(held(None).line(), "H 127.0.0.1:8080 (312 bytes)");
        assert_eq!(
            held(Some("POST /x\u{1b} HTTP/1.1")).line(),
            "H 127.0.0.1:8080 (312 bytes): POST /x? HTTP/1.1"
        );
    }

    #[test]
    fn a_line_tells_what_an_earlier_commit_has_sent() {
        let held = Held {
            to: "h:1",
            bytes: 1,
            unsent_after: Some(2),
            first_line: None,
        };
        assert_eq!(held.line(), "H h:1 (1 byte unsent, 2 sent)");
    }
}
