//! Whether a process is stopped.

use rustix::process::Pid;
use surmise_linux::proc;

/// Whether a process is stopped, as a job of a shell is by Ctrl-Z.
pub fn is_stopped(process: Pid) -> bool {
    proc::state(process).is_ok_and(|state| state == Some('T'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_runs_is_not_stopped() {
        assert!(!is_stopped(rustix::process::getpid()));
    }
}
