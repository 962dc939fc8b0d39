//! Bytes that come, cut into lines.

use crate::protocol::{LINE_MAX, Problem, Rejected};

/// Bytes that have come and are no whole line.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Up to where there is no end of a line.
    searched: usize,
}

impl Lines {
    /// Takes in what has come.
    pub fn take_in(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// The next whole line, without its end; `None` where there is none.
    ///
    /// # Errors
    /// When it is too long. Nothing that follows can be understood.
    pub fn take_line(&mut self) -> Result<Option<Vec<u8>>, Rejected> {
        let rest = &self.bytes[self.searched..];
        let end = rest.iter().position(|&byte| byte == b'\n');
        let length = end.map_or(self.bytes.len(), |at| self.searched + at);
        if length > LINE_MAX {
            return Err(Rejected {
                id: None,
                problem: Problem::NoRequest,
                error: format!("a line of more than {LINE_MAX} bytes; nothing more is read"),
            });
        }
        self.searched = length;
        if end.is_none() {
            return Ok(None);
        }
        let rest = self.bytes.split_off(length + 1);
        let mut line = std::mem::replace(&mut self.bytes, rest);
        self.searched = 0;
        line.truncate(length);
        Ok(Some(line))
    }

    /// At the end of all that comes.
    ///
    /// # Errors
    /// When there is a part of a line.
    pub fn end(&self) -> Result<(), Rejected> {
        match self.bytes.is_empty() {
            true => Ok(()),
            false => Err(Rejected {
                id: None,
                problem: Problem::NoJson,
                error: "the last line has no end, and is not taken".into(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_however_they_come() {
        let text = b"one\n\ntwo\n";
        for cut in 0..=text.len() {
            let mut lines = Lines::default();
            let mut found = Vec::new();
            for piece in [&text[..cut], &text[cut..]] {
                lines.take_in(piece);
                while let Some(line) = lines.take_line().expect("short") {
                    found.push(line);
                }
            }
            assert_eq!(found, [&b"one"[..], b"", b"two"]);
            assert_eq!(lines.end(), Ok(()));
        }
    }

    #[test]
    fn a_long_line_and_a_part_of_one_are_told() {
        let mut lines = Lines::default();
        lines.take_in(b"{");
        assert_eq!(lines.take_line(), Ok(None));
        assert_eq!(lines.end().expect_err("half").problem, Problem::NoJson);
        lines.take_in(&vec![b' '; LINE_MAX - 1]);
        assert_eq!(lines.take_line(), Ok(None));
        lines.take_in(b" ");
        assert!(lines.take_line().is_err(), "before its end has come");
    }
}
