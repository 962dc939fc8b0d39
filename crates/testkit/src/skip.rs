//! Telling that a test could not run here, or what it has tried.

use std::io::Write;

/// Tells on standard error that the calling test cannot run here: `SKIP test: reason`. The caller
/// then returns.
///
/// Written past the test harness's capture, so that a log of a run shows what it did not cover.
pub fn skip(reason: impl std::fmt::Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("unnamed");
    tell(format_args!("SKIP {test}: {reason}"));
}

/// Tells a line on standard error, likewise past the capture: what a test has counted.
pub fn tell(line: impl std::fmt::Display) {
    std::io::stderr()
        .write_all(format!("{line}\n").as_bytes())
        .expect("write to standard error");
}

/// Whether the test runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether a program is found by its name, or is there by its path.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
