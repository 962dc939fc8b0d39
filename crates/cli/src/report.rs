//! What Surmise says on standard error beside a command's own output.
//!
//! Nothing here fails: a remark that cannot be written must not change what a run does or how it
//! exits.

use std::fmt::Display;
use std::io::Write;

use surmise_api::{Lingering, LostStream};

use crate::summary::count;
use surmise_api::quote::command_line;

/// One remark, marked as Surmise's.
pub fn note(text: impl Display) {
    let _ = writeln!(anstream::stderr().lock(), "surmise: {text}");
}

/// Lines of detail below a remark, and how many more there are.
pub fn details(lines: &[String], more: usize) {
    let mut stderr = anstream::stderr().lock();
    for line in lines {
        let _ = writeln!(stderr, "  {line}");
    }
    if more > 0 {
        let _ = writeln!(stderr, "  … and {more} more");
    }
}

/// The end of a line that somebody else began.
pub fn end_line() {
    let _ = writeln!(anstream::stderr().lock());
}

/// The processes that outlived the command and were ended.
pub fn lingering(ended: &[Lingering]) {
    if ended.is_empty() {
        return;
    }
    note(format_args!(
        "ended {} that outlived the command: {}",
        count(ended.len(), "process"),
        named(ended)
    ));
}

/// Output of the command that nobody has.
pub fn lost(streams: &[LostStream]) {
    for LostStream { stream, errno } in streams {
        let error = std::io::Error::from_raw_os_error(*errno);
        note(format_args!("not all was written to {stream}: {error}"));
    }
}

fn named(processes: &[Lingering]) -> String {
    let names: Vec<_> = processes
        .iter()
        .map(|process| {
            let name = command_line(&[&process.name]);
            format!("{name} (pid {})", process.pid)
        })
        .collect();
    names.join(", ")
}

/// The commands to go on with for a domain that is kept.
pub fn follow_ups(name: &str) {
    ways_on(
        name,
        &[
            ("diff", "show what changed"),
            ("commit", "make it real"),
            ("abort", "throw it away"),
        ],
    );
}

/// Commands for the domain `name`, and what each is for.
pub fn ways_on(name: &str, commands: &[(&str, &str)]) {
    let lines = commands
        .iter()
        .map(|(command, purpose)| (format!("surmise {command} {name}"), purpose));
    let lines: Vec<_> = lines.collect();
    let width = lines.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
    let mut stderr = anstream::stderr().lock();
    for (line, purpose) in lines {
        let _ = writeln!(stderr, "  {line:width$}  {purpose}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lingering_processes_are_named_with_their_ids() {
        let ended = [(7, "sleep"), (12, "\u{1b}[2J")].map(|(pid, name)| Lingering {
            pid,
            name: name.into(),
        });
        assert_eq!(named(&ended), "sleep (pid 7), '?[2J' (pid 12)");
    }
}
