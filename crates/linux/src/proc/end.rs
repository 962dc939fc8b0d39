//! By which signal a process tells its parent of its end (proc_pid_stat(5)).

use std::io;

use super::Entry;

/// The number of the signal; 0 for none.
///
/// # Errors
/// As for reading /proc; `InvalidData` where the kernel does not tell.
pub fn end_signal(entry: impl Into<Entry>) -> io::Result<i32> {
    let told = parse(&entry.into().text("stat")?);
    told.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn parse(stat: &str) -> Option<i32> {
    /// `exit_signal`, as the manual numbers it, and the first field after the name.
    const NUMBER: usize = 38;
    const AFTER_NAME: usize = 3;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split_ascii_whitespace();
    fields.nth(NUMBER - AFTER_NAME)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_tells_by_its_signal() {
        let fields: Vec<_> = (4..=52).map(|number| number.to_string()).collect();
        assert_eq!(parse(&format!("7 (a) b) S {}", fields.join(" "))), Some(38));
        assert_eq!(parse("7 (a) S 4 5"), None);
        let mut child = std::process::Command::new("true").spawn().expect("spawn");
        let told = end_signal(rustix::process::Pid::from_child(&child)).expect("its stat");
        assert_eq!(told, rustix::process::Signal::CHILD.as_raw());
        child.wait().expect("wait");
    }
}
