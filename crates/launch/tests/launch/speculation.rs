//! A domain whose tracked calls somebody hears.

use std::thread;

use rustix::process::Signal;
use surmise_kept::Status;
use surmise_testkit::{Outcome, watchdog};

use crate::Test;
use crate::setting::{Roles, Setting, children, name_of};

pub const TESTS: &[Test] = &[
    ("a_command_that_is_listened_to_ends_as_a_plain_one", plain),
    ("threads_and_children_are_listened_to", many),
    ("a_terminal_is_one_where_calls_are_heard", terminal),
    ("what_cannot_run_is_told_where_calls_are_heard", cannot_run),
    (
        "a_running_command_that_is_listened_to_is_committed",
        committed,
    ),
    ("the_supervisor_killed", killed),
    ("the_view_killed_where_calls_are_heard", view_killed),
    (
        "a_stopped_supervisor_does_not_keep_an_aborted_domain",
        stopped,
    ),
];

/// Keeps the supervisor busy, in several processes.
const BUSY: &str = "while :; do ls -R /usr/share > /dev/null; done & \
                    while :; do echo x > f; rm f; done & sleep 600";

fn plain(setting: &Setting) {
    let script = "echo hi; ls / >/dev/null; exit 3";
    let plain = setting.run(&["--", "sh", "-c", script]);
    let heard = setting.run(&["--speculate", "--", "sh", "-c", script]);
    heard.assert_code(3).assert_stdout(&plain.stdout);
    plain.assert_code(3).assert_stdout("hi\n");
    // Both processes end, and one of them reads a directory.
    heard
        .assert_stderr_contains("heard: exit_group 2\n")
        .assert_stderr_contains("heard: getdents64 2\n");
    assert!(!heard.stderr.contains("heard: rt_sigreturn"), "{heard:?}");
    assert!(!plain.stderr.contains("heard: "), "{plain:?}");
}

fn many(setting: &Setting) {
    let script = "
import os, subprocess, threading
def work():
    for _ in range(50): os.stat('/')
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
words = [subprocess.run(['echo', str(n)], capture_output=True, text=True).stdout for n in range(20)]
print(''.join(words).split() == [str(n) for n in range(20)])";
    let words = ["--speculate", "--", "python3", "-c", script];
    setting
        .run(&words)
        .assert_code(0)
        .assert_stdout("True\n")
        .assert_stderr_contains("heard: exit 8\n");
}

fn terminal(setting: &Setting) {
    let script = "tty; sleep 0.1; echo through > /dev/tty";
    let words = ["--speculate", "--", "bash", "-ic", script];
    let outcome = setting.run_by(&[], &words).at_terminal(&[]);
    outcome
        .assert_code(0)
        .assert_stdout_contains("/dev/pts/0\nthrough\n")
        .assert_stdout_contains("heard: ioctl ");
}

fn cannot_run(setting: &Setting) {
    for (word, code) in [("/no/such/program", 127), ("/etc/passwd", 126)] {
        let outcome = setting.run(&["--speculate", "--", word]);
        outcome.assert_code(code).assert_stderr_contains(word);
    }
    let words = ["--speculate", "--in", "/no/such/directory", "--", "true"];
    setting.run(&words).assert_code(125);
    assert!(setting.root().list().expect("list").is_empty());
}

/// A commit stops all tasks by a tracer of its own, wherever they wait.
fn committed(setting: &Setting) {
    let script = "echo one > done; sleep 600; true";
    let outcome = while_running(setting, script, |roles| {
        let commit = setting.run(&["--commit", "t"]);
        commit.assert_code(0);
        let made = std::fs::read_to_string(setting.scratch.path("done"));
        assert_eq!(made.expect("made real"), "one\n");
        Roles::signal(roles.command, Signal::KILL);
    });
    outcome.assert_code(137);
}

/// No call fails for want of somebody who hears it: it waits for the end.
fn killed(setting: &Setting) {
    for script in ["sleep 600; true", BUSY] {
        let outcome = while_running(setting, script, |roles| {
            Roles::signal(supervisor(roles), Signal::KILL);
        });
        outcome
            .assert_code(125)
            .assert_stderr_contains("error: the supervisor of the domain was killed");
        assert!(!outcome.stderr.contains("not implemented"), "{outcome:?}");
    }
}

fn view_killed(setting: &Setting) {
    while_running(setting, BUSY, |roles| {
        Roles::signal(roles.view, Signal::KILL)
    })
    .assert_code(125)
    .assert_stderr_contains("error: the view process of the domain was killed");
}

fn stopped(setting: &Setting) {
    while_running(setting, BUSY, |roles| {
        Roles::signal(supervisor(roles), Signal::STOP);
        Roles::signal(roles.control, Signal::TERM);
    })
    .assert_code(125)
    .assert_stderr_contains("error: the supervisor of the domain was killed");
}

/// Runs `script` and does `act` when it sleeps; then nobody must be left.
fn while_running(setting: &Setting, script: &str, act: impl FnOnce(&Roles)) -> Outcome {
    let words = ["--speculate", "--name", "t", "--", "sh", "-c", script];
    let outcome = thread::scope(|scope| {
        let running = scope.spawn(|| setting.run(&words));
        let roles = setting.roles("sh");
        setting.sleeping(&roles);
        let supervisor = supervisor(&roles);
        act(&roles);
        roles.end();
        watchdog::until("the supervisor", watchdog::LIMIT, || {
            name_of(supervisor).as_deref() != Some("surmise-super")
        });
        running.join().expect("an outcome")
    });
    assert!(!setting.has_processes(), "a process is left");
    let domain = setting.root().open("t").expect("kept");
    let status = domain.status();
    let ended = matches!(status, Status::Interrupted | Status::Ended { .. });
    assert!(ended, "{status:?}");
    domain.abort().expect("abort");
    outcome
}

fn supervisor(roles: &Roles) -> i32 {
    let mut all = children(roles.control).into_iter();
    let found = all.find(|&pid| name_of(pid).as_deref() == Some("surmise-super"));
    found.expect("control has a supervisor")
}
