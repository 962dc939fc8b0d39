//! Whoever waits for whom: every cycle of waits that was foreseen is provoked, under a watchdog.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use surmise_kept::Status;
use surmise_testkit::Act::{Do, Type};
use surmise_testkit::{Outcome, skip, watchdog};

use crate::Test;
use crate::commits::{Restless, commit, has_python, no_leftovers};
use crate::kills::{LOOKS_IN_VIEW, WAITS_IN_VIEW, waits_in_view};
use crate::setting::{Roles, Setting, children, name_of};
use crate::strike::{Census, Victim, strike};
use crate::writer::{self, Listener};

pub const TESTS: &[Test] = &[
    ("a_parent_in_vfork_holds_up_no_commit", vfork),
    ("a_task_that_is_stopped_stays_so_in_a_commit", stopped_task),
    (
        "a_stopped_reader_holds_up_no_commit_and_no_abort",
        stopped_reader,
    ),
    ("a_full_terminal_holds_up_no_commit", full_terminal),
    (
        "a_stopped_committing_client_holds_up_nobody",
        stopped_client,
    ),
    ("two_commits_at_once_are_one", two_clients),
    ("exits_that_wait_for_the_view_end_with_it", exits),
    ("a_task_that_is_traced_is_named_and_goes_on", traced),
    ("threads_that_fork_and_execute_are_committed", forking),
    ("an_outbox_without_room_resets_and_tells", full_disk),
    (
        "a_decision_that_nobody_can_hurry_keeps_no_commit_and_no_abort",
        undecided,
    ),
];

/// A domain that runs in a thread of its own until its command ends.
fn while_running(setting: &Setting, words: &[&str], act: impl FnOnce(&Roles)) -> Outcome {
    let words = [&["--name", "t"], words].concat();
    thread::scope(|scope| {
        let running = scope.spawn(|| setting.run_by(&[], &words).seconds(30).outcome());
        let command = words.iter().skip_while(|word| **word != "--").nth(1);
        act(&setting.roles(command.expect("a command")));
        running.join().expect("an outcome")
    })
}

fn committed(setting: &Setting) {
    commit(setting)
        .assert_code(0)
        .assert_stdout_contains("goes on: true");
}

#[track_caller]
fn appears(setting: &Setting, path: &str) {
    watchdog::until(path, watchdog::LIMIT, || {
        let domain = setting.root().open("t").expect("it runs");
        let lines = domain.changes().map(|changes| format!("{changes:?}"));
        lines.is_ok_and(|lines| lines.contains(&format!("/{path}\"")))
    });
}

fn real(setting: &Setting, path: &str) -> String {
    fs::read_to_string(setting.scratch.path(path)).unwrap_or_default()
}

fn discard(setting: &Setting) {
    let domain = setting.root().open("t").expect("kept");
    domain.abort().expect("abort");
}

fn vfork(setting: &Setting) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tracees/vfork.c");
    let program = setting.scratch.path("vfork");
    let compiled = Command::new("cc")
        .arg("-o")
        .arg(&program)
        .arg(source)
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        skip("there is no C compiler");
        return;
    }
    // Its child lives until there is no writer of the pipe any more.
    let script = "echo begun > f; mkfifo p; ./vfork < p > told & exec 3> p; \
                  while test ! -e done; do sleep 0.01; done; exec 3>&-; wait; cat told";
    let outcome = while_running(setting, &["--", "bash", "-c", script], |roles| {
        watchdog::until("the parent waits", watchdog::LIMIT, || {
            let below = children(roles.command).into_iter().flat_map(children);
            below
                .into_iter()
                .any(|pid| name_of(pid).as_deref() == Some("vfork"))
        });
        committed(setting);
        assert_eq!(real(setting, "f"), "begun\n");
        fs::write(setting.scratch.path("done"), "").expect("write");
    });
    outcome.assert_code(0).assert_stdout("parent goes on\n");
    discard(setting);
}

/// As by Ctrl-Z of a shell inside.
fn stopped_task(setting: &Setting) {
    let script = "(while :; do echo x >> g; done) & kill -STOP $!; echo begun > f; \
                  while test ! -e done; do sleep 0.01; done; \
                  sed -n 's/^State:.\\(.\\).*/\\1/p' /proc/$!/status; kill -KILL $!; kill -CONT $!";
    let outcome = while_running(setting, &["--", "bash", "-c", script], |_| {
        appears(setting, "f");
        for _ in 0..3 {
            committed(setting);
        }
        fs::write(setting.scratch.path("done"), "").expect("write");
    });
    outcome.assert_stdout("T\n");
    discard(setting);
}

/// The reader of standard output does not read before the domain has ended; the command blocks in a
/// write meanwhile.
fn stopped_reader(setting: &Setting) {
    let outside = r#"mkfifo go; exec 3<> go
        ("$@"; echo ended $? >&2; echo >&3) | (read <&3; wc -c)"#;
    let inside = "echo begun > f; yes | head -c 10000000; echo after > g; sleep 600";
    let words = ["--name", "t", "--", "bash", "-c", inside];
    let outcome = thread::scope(|scope| {
        let front = ["bash", "-c", outside, "bash"];
        let running = scope.spawn(move || setting.run_by(&front, &words).seconds(30).outcome());
        setting.roles("bash");
        appears(setting, "f");
        for _ in 0..3 {
            committed(setting);
        }
        assert_eq!(real(setting, "f"), "begun\n");
        let census = Census::take(setting);
        discard(setting);
        let outcome = running.join().expect("an outcome");
        census.end(setting);
        outcome
    });
    outcome.assert_stderr_contains("ended 125");
    assert!(
        !setting.scratch.path("g").exists(),
        "the command got through"
    );
}

fn full_terminal(setting: &Setting) {
    let stop = || {
        watchdog::until("the terminal is full", watchdog::LIMIT, || {
            let command = setting.roles("bash").command;
            let wait = fs::read_to_string(format!("/proc/{command}/wchan")).unwrap_or_default();
            wait.contains("n_tty_write") || wait.contains("wait_woken")
        });
        for _ in 0..3 {
            committed(setting);
        }
    };
    let script = "echo begun > f; while :; do echo line; done";
    let words = ["--name", "t", "--", "bash", "-c", script];
    // The keys that stop and start the output, then Ctrl-C.
    let acts = [
        ("line\n", Type("\x13")),
        ("", Do(&stop)),
        ("", Type("\x11\x03")),
    ];
    let run = setting.run_by(&[], &words).seconds(30);
    run.at_terminal(&acts).assert_code(130);
    assert_eq!(real(setting, "f"), "begun\n");
    discard(setting);
}

fn stopped_client(setting: &Setting) {
    if !has_python() {
        return;
    }
    let work = setting.scratch.work();
    let listener = Listener::start(work.clone());
    thread::scope(|scope| {
        let domain = Restless::start(scope, setting, &listener, 25);
        for pause in [0, 2, 10, 30, 60] {
            domain.work(setting);
            let before = writer::step(&work);
            let client = scope.spawn(|| commit(setting));
            let mut stopped = None;
            watchdog::until("somebody commits", watchdog::LIMIT, || {
                stopped = setting.client();
                stopped.is_some() || client.is_finished()
            });
            thread::sleep(Duration::from_millis(pause));
            let stopped = stopped.and_then(Pid::from_raw);
            // It may have ended.
            let signal = |signal| stopped.map(|pid| rustix::process::kill_process(pid, signal));
            signal(Signal::STOP);
            watchdog::until("another one commits", watchdog::LIMIT, || {
                commit_beside(setting).code == 0
            });
            assert!(writer::step(&work) > before);
            domain.work(setting);
            signal(Signal::CONT);
            client.join().expect("an outcome").assert_code(0);
        }
        domain.end(setting);
    });
    no_leftovers(&work);
    listener.check();
}

/// While another client waits.
fn commit_beside(setting: &Setting) -> Outcome {
    let told = commit(setting);
    if told.code != 0 {
        told.assert_stderr_contains("a commit is under way");
    }
    told
}

fn two_clients(setting: &Setting) {
    let words = [
        "--net-hold",
        "--",
        "sh",
        "-c",
        "echo begun > f; sleep 600; true",
    ];
    while_running(setting, &words, |roles| {
        setting.sleeping(roles);
        thread::scope(|scope| {
            // Without the relay process a commit does not go on.
            Roles::signal(roles.relay, Signal::STOP);
            let first = scope.spawn(|| commit(setting));
            watchdog::until("the tasks are stopped", watchdog::LIMIT, || {
                Victim::Tracer.find(setting).is_some()
            });
            commit(setting)
                .assert_code(1)
                .assert_stderr_contains("a commit is under way");
            Roles::signal(roles.relay, Signal::CONT);
            let told = first.join().expect("an outcome");
            told.assert_code(0).assert_stdout_contains("goes on: true");
        });
        assert_eq!(real(setting, "f"), "begun\n");
        committed(setting);
        discard(setting);
        roles.end();
    });
}

/// A process whose last act is to close a file waits for the view, and cannot be killed. A file that is there before it is opened
/// for reading and writing is written by messages, for root, too.
fn exits(setting: &Setting) {
    let script =
        "for i in 1 2 3 4; do touch f$i; (exec 5<> f$i; while :; do echo x >&5; done) & done
        sleep 600; true";
    let words = ["--", "bash", "-c", script];
    let outcome = while_running(setting, &words, |roles| {
        appears(setting, "f4");
        setting.sleeping(roles);
        Roles::signal(roles.view, Signal::STOP);
        let mut tasks = children(roles.command);
        // Were its sleep killed too, the command would end, and the domain with it, before the view is killed.
        tasks.retain(|pid| name_of(*pid).as_deref() != Some("sleep"));
        watchdog::until("somebody waits for the view", watchdog::LIMIT, || {
            tasks.iter().any(|pid| {
                let wait = fs::read_to_string(format!("/proc/{pid}/wchan"));
                wait.is_ok_and(|wait| wait.contains("request_wait_answer"))
            })
        });
        for pid in tasks {
            Roles::signal(pid, Signal::KILL);
        }
        let census = strike(
            setting,
            Victim::View,
            Duration::from_millis(50),
            &mut || true,
        );
        census.expect("it runs").end(setting);
    });
    outcome.assert_code(125);
    let domain = setting.root().open("t").expect("kept");
    assert_eq!(domain.status(), Status::Interrupted);
    discard(setting);
}

fn traced(setting: &Setting) {
    if Command::new("strace").arg("-V").output().is_err() {
        skip("there is no strace");
        return;
    }
    let script = "strace -o /dev/null sh -c 'echo begun > f; while test ! -e done; do sleep 0.01; done'; \
                  echo $? > g; while test ! -e over; do sleep 0.01; done";
    let outcome = while_running(setting, &["--", "bash", "-c", script], |_| {
        appears(setting, "f");
        commit(setting)
            .assert_code(1)
            .assert_stderr_contains("(sh) is traced by another process");
        assert_eq!(real(setting, "f"), "");
        fs::write(setting.scratch.path("done"), "").expect("write");
        appears(setting, "g");
        committed(setting);
        assert_eq!(real(setting, "g"), "0\n");
        fs::write(setting.scratch.path("over"), "").expect("write");
    });
    outcome.assert_code(0);
    discard(setting);
}

/// Its threads start programs all the time, by vfork.
const FORKING: &str = r#"
import subprocess, threading
def work(name):
    count = 0
    while True:
        count += 1
        subprocess.run(["sh", "-c", f"echo {count} > {name}.new; mv {name}.new {name}"], check=True)
for name in ["a", "b", "c", "d"]:
    threading.Thread(target=work, args=[name]).start()
"#;

fn forking(setting: &Setting) {
    if !has_python() {
        return;
    }
    while_running(setting, &["--", "python3", "-c", FORKING], |roles| {
        for round in 0..20 {
            let name = ["a", "b", "c", "d"][round % 4];
            let before = real(setting, name);
            appears(setting, name);
            committed(setting);
            assert_ne!(real(setting, name), before);
        }
        discard(setting);
        roles.end();
    });
}

fn full_disk(setting: &Setting) {
    if setting.user() != 0 {
        skip("a small file system takes root");
        return;
    }
    let state = setting.scratch.state();
    let outside = r#"mount -t tmpfs -o size=4m tmpfs "$0" && exec "$@""#;
    let state = state.to_str().expect("Unicode");
    let front = ["unshare", "-m", "sh", "-c", outside, state];
    // Far more than fits into the buffers of a connection, of which newer kernels let each have 32 MiB.
    let inside = "exec 5<> /dev/tcp/192.0.2.1/80; head -c 900000000 /dev/zero >&5; echo wrote $?";
    let words = ["--net-hold", "--", "bash", "-c", inside];
    setting
        .run_by(&front, &words)
        .outcome()
        .assert_stdout("wrote 1\n")
        .assert_stderr_contains("Connection reset by peer")
        .assert_stderr_contains("NotKept");
}

/// Its owner decides a minute later. Meanwhile the command waits in a call, or in the view, where it is deaf to all signals.
fn undecided(setting: &Setting) {
    let in_call = "test -e /usr; echo one > f; kill -0 0; sleep 600";
    for script in [in_call, WAITS_IN_VIEW] {
        let words = ["--predict-late", "--", "sh", "-c", script];
        let outcome = while_running(setting, &words, |roles| {
            let place = |pid| fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
            let waits = |pid| place(pid).starts_with("seccomp_do_user") || waits_in_view(pid);
            // Any call is heard for a moment.
            let mut looks = 0;
            watchdog::until("the command waits", watchdog::LIMIT, || {
                looks = if waits(roles.command) { looks + 1 } else { 0 };
                looks >= LOOKS_IN_VIEW
            });
            let census = Census::take(setting);
            commit(setting)
                .assert_code(1)
                .assert_stderr_contains("is traced by another process");
            assert_eq!(real(setting, "f"), "");
            discard(setting);
            census.end(setting);
        });
        outcome.assert_code(125);
        assert!(setting.root().list().expect("list").is_empty());
    }
}
