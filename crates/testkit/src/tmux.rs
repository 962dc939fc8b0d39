//! A person's terminal: a tmux server of a test's own, typed into and looked at.

use std::ffi::OsString;
use std::process::Command;

use crate::{Scratch, standing, watchdog};

/// A terminal of 120 columns and 24 lines with a shell in it. It ends when dropped.
pub struct Tmux {
    socket: OsString,
}

impl Tmux {
    /// Starts one in `work/` of a scratch tree. Its shell finds `surmise` as the built command and
    /// says `$` when it is ready.
    pub fn start(scratch: &Scratch) -> Self {
        let socket = scratch.root().join("tmux").into_os_string();
        let terminal = Self { socket };
        let bin = scratch.root().join("bin");
        std::fs::create_dir_all(&bin).expect("make a directory");
        let link = bin.join("surmise");
        if !link.exists() {
            std::os::unix::fs::symlink(crate::surmise_binary(), &link).expect("link");
        }
        let path = std::env::var("PATH").expect("a PATH");
        let set = |name: &str, value: String| format!("{name}={value}");
        let started = terminal
            .command(&[
                "-f",
                "/dev/null",
                "new-session",
                "-d",
                "-x",
                "120",
                "-y",
                "24",
            ])
            .args(["env", "-i", "PS1=$ ", "LANG=C.UTF-8", "TERM=screen"])
            .arg(set("PATH", format!("{}:{path}", bin.display())))
            .arg(set("HOME", scratch.home().display().to_string()))
            .arg(set("XDG_STATE_HOME", scratch.state().display().to_string()))
            .args(["bash", "--norc", "--noprofile", "-i"])
            .current_dir(scratch.work())
            .status();
        assert!(started.expect("start tmux").success(), "tmux did not start");
        terminal.wait_for_last("$");
        terminal
    }

    /// Types `keys` as tmux names them: `Enter`, `C-c`, or plain text.
    pub fn keys(&self, keys: &[&str]) {
        let done = self.command(&["send-keys"]).args(keys).status();
        assert!(done.expect("start tmux").success(), "type {keys:?}");
    }

    /// Types a line.
    pub fn line(&self, line: &str) {
        let done = self.command(&["send-keys", "-l", line]).status();
        assert!(done.expect("start tmux").success(), "type {line:?}");
        self.keys(&["Enter"]);
    }

    /// Changes the terminal's size.
    pub fn resize(&self, columns: u32, lines: u32) {
        let (columns, lines) = (columns.to_string(), lines.to_string());
        let done = self
            .command(&["resize-window", "-x", &columns, "-y", &lines])
            .status();
        assert!(done.expect("start tmux").success(), "resize");
    }

    /// What is on the screen.
    pub fn screen(&self) -> String {
        let output = self.command(&["capture-pane", "-p"]).output();
        String::from_utf8_lossy(&output.expect("start tmux").stdout).into_owned()
    }

    /// Waits until the screen shows `text`; fails the test with what it shows instead.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        self.wait(&format!("{text:?}"), |screen| screen.contains(text));
    }

    /// Waits until the last line that is not empty is `text`.
    #[track_caller]
    pub fn wait_for_last(&self, text: &str) {
        self.wait(&format!("{text:?} as the last line"), |screen| {
            screen
                .lines()
                .rfind(|line| !line.trim().is_empty())
                .is_some_and(|line| line.trim_end() == text)
        });
    }

    #[track_caller]
    fn wait(&self, what: &str, condition: impl Fn(&str) -> bool) {
        let deadline = std::time::Instant::now() + watchdog::LIMIT;
        loop {
            let screen = self.screen();
            if condition(&screen) {
                return;
            }
            assert!(
                std::time::Instant::now() < deadline,
                "{what} did not appear:\n{screen}\n{}",
                self.standing()
            );
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Where everything in the terminal stands.
    fn standing(&self) -> String {
        let pid = self.command(&["display-message", "-p", "#{pid}"]).output();
        let pid = String::from_utf8(pid.expect("start tmux").stdout).expect("a number");
        pid.trim().parse().map(standing::below).unwrap_or_default()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(arguments);
        command.env_remove("TMUX");
        command
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // Already gone when the shell has exited.
        let _ = self.command(&["kill-server"]).output();
    }
}
