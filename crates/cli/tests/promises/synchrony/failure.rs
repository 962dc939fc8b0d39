//! A disk that fails while a command runs under external synchrony.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use surmise_testkit::{BlockLog, surmise_binary};

/// What it was told is durable is not, and it has gone on since.
#[test]
fn a_commit_that_fails_ends_the_domain_and_shows_nothing_more() {
    let test = "synchrony::failure::a_commit_that_fails_ends_the_domain_and_shows_nothing_more";
    BlockLog::with(test, 64 << 20, Duration::from_secs(60), |disk| {
        disk.make_ext4();
        let mounted = disk.mount_with("data=journal");
        let script = "echo begun; read line; echo text > file; sync file; echo never; sleep 1000";
        let mut command = Command::new(surmise_binary())
            .args(["sync", "--interval", "60m", "--", "sh", "-c", script])
            .current_dir(mounted.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start the command");
        let mut output = BufReader::new(command.stdout.take().expect("a pipe"));
        let mut first = String::new();
        output.read_line(&mut first).expect("a line");
        assert_eq!(first, "begun\n");
        disk.break_down();
        let mut input = command.stdin.take().expect("a pipe");
        input.write_all(b"go\n").expect("write");
        let mut rest = String::new();
        output.read_to_string(&mut rest).expect("the end");
        let ended = command.wait_with_output().expect("wait");
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(
            (rest.as_str(), ended.status.code()),
            ("", Some(125)),
            "{errors}"
        );
        assert!(
            errors.contains("make durable what was promised"),
            "{errors}"
        );
        assert!(errors.contains("Input/output error"), "{errors}");
        assert!(errors.contains("whatever was shown is durable"), "{errors}");
    });
}
