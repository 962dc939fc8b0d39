//! The names of processes and threads.

use std::io;

use super::Entry;

/// The name of a process or thread, as `ps` shows it: at first that of the program. What is no UTF-8 in it is
/// replaced.
///
/// # Errors
/// As for reading /proc.
pub fn name(entry: impl Into<Entry>) -> io::Result<String> {
    let mut name = entry.into().text("comm")?;
    name.truncate(name.trim_end().len());
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_its_name() {
        let named = std::thread::Builder::new().name("a worker".into());
        let thread = named.spawn(|| name(Entry::own()).expect("its own"));
        let name = thread.expect("spawn").join().expect("no panic");
        assert_eq!(name, "a worker");
    }
}
