//! Whether a process is stopped.

use std::fs;

use rustix::process::Pid;

/// Whether a process is stopped, as a job of a shell is by Ctrl-Z.
pub fn is_stopped(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    // The name is in parentheses and may hold any character.
    let stat = stat.unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, state)| state);
    state.is_some_and(|state| state.starts_with('T'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_runs_is_not_stopped() {
        assert!(!is_stopped(rustix::process::getpid()));
    }
}
