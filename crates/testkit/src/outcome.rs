//! What came of a command, with assertions that show all of it.

use std::os::unix::process::ExitStatusExt;

use crate::watchdog::Finished;

/// What came of a command. The assertions return `&Self`, so that they chain, and show the command
/// line, the status and both outputs when they fail.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The command line, for messages.
    pub command: String,
    /// The exit status, or 128 + the number of the signal that ended the command.
    pub code: i32,
    /// Standard output; bytes that are no UTF-8 are replaced.
    pub stdout: String,
    /// Standard error, likewise; empty for a command that ran on a terminal.
    pub stderr: String,
}

impl Outcome {
    pub(crate) fn new(command: String, finished: &Finished) -> Self {
        let status = finished.status;
        let code = status
            .code()
            .or_else(|| status.signal().map(|signal| 128 + signal));
        Self {
            command,
            code: code.expect("an ended process exited or was ended by a signal"),
            stdout: String::from_utf8_lossy(&finished.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&finished.stderr).into_owned(),
        }
    }

    /// The lines of standard output.
    pub fn lines(&self) -> Vec<&str> {
        self.stdout.lines().collect()
    }

    /// The command exited 0.
    #[track_caller]
    pub fn assert_success(&self) -> &Self {
        self.assert_code(0)
    }

    /// The command exited with `code`.
    #[track_caller]
    pub fn assert_code(&self, code: i32) -> &Self {
        self.assert(self.code == code, &format!("status {code}"));
        self
    }

    /// Standard output is exactly `text`.
    #[track_caller]
    pub fn assert_stdout(&self, text: &str) -> &Self {
        self.assert(self.stdout == text, &format!("stdout exactly {text:?}"));
        self
    }

    /// The lines of standard output are `lines`, in any order.
    #[track_caller]
    pub fn assert_lines(&self, lines: &[&str]) -> &Self {
        let (mut have, mut want) = (self.lines(), lines.to_vec());
        have.sort_unstable();
        want.sort_unstable();
        self.assert(have == want, &format!("the lines {lines:#?} on stdout"));
        self
    }

    /// Standard output contains `text`.
    #[track_caller]
    pub fn assert_stdout_contains(&self, text: &str) -> &Self {
        self.assert(self.stdout.contains(text), &format!("{text:?} in stdout"));
        self
    }

    /// Standard error contains `text`.
    #[track_caller]
    pub fn assert_stderr_contains(&self, text: &str) -> &Self {
        self.assert(self.stderr.contains(text), &format!("{text:?} in stderr"));
        self
    }

    /// Standard error is empty.
    #[track_caller]
    pub fn assert_no_stderr(&self) -> &Self {
        self.assert(self.stderr.is_empty(), "nothing on stderr");
        self
    }

    #[track_caller]
    fn assert(&self, holds: bool, wanted: &str) {
        assert!(
            holds,
            "{}\nwanted: {wanted}\nstatus: {}\nstdout:\n{}\nstderr:\n{}",
            self.command, self.code, self.stdout, self.stderr
        );
    }
}
