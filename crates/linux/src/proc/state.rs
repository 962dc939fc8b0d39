//! The state that `stat` tells (proc_pid_stat(5)).

use std::io;

use super::Entry;

/// One letter: `T` for a stopped job, `t` for a stopped tracee, `Z` for a zombie. It is told faster than all of a
/// [`Status`](super::Status).
///
/// # Errors
/// As for reading /proc.
pub fn state(entry: impl Into<Entry>) -> io::Result<Option<char>> {
    Ok(parse(&entry.into().read("stat")?))
}

/// The letter stands after the name, which is in parentheses and may be any bytes.
fn parse(stat: &[u8]) -> Option<char> {
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    stat.get(name_end + 2).map(|&letter| letter.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_whatever_the_name() {
        assert_eq!(parse(b"7 (sleep) S 1 7 7"), Some('S'));
        assert_eq!(parse(b"8 (a) Z (\xff) R 1"), Some('R'));
        assert_eq!(parse(b"9 (sh)"), None);
        assert_eq!(parse(b""), None);
        assert_eq!(state(Entry::own()).expect("read"), Some('R'));
    }
}
