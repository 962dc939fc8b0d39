//! Telling that a test could not run here.

use std::io::Write;

/// Tells on standard error that the calling test cannot run here: `SKIP test: reason`. The caller
/// then returns.
///
/// Written past the test harness's capture, so that a log of a run shows what it did not cover.
pub fn skip(reason: impl std::fmt::Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("unnamed");
    let line = format!("SKIP {test}: {reason}\n");
    std::io::stderr()
        .write_all(line.as_bytes())
        .expect("write to standard error");
}

/// Whether the test runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
