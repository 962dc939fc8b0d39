//! What a launch returns, and what it leaves behind.

use std::fs;
use std::ops::ControlFlow;
use std::panic;

use surmise_commit::Activity;
use surmise_kept::{Exit, StateError, Status};
use surmise_testkit::skip;

use crate::Test;
use crate::setting::Setting;

pub const TESTS: &[Test] = &[
    ("the_exit_status_is_a_shells", exit_status),
    ("what_the_machine_lacks_is_told", lacking),
    ("what_cannot_run_leaves_no_domain", cannot_run),
    (
        "a_limit_on_file_sizes_is_the_commands_alone",
        file_size_limit,
    ),
    ("a_directory_as_a_stream_is_refused", directory_stream),
    ("a_domain_inside_a_domain_is_refused", nested),
    ("a_domain_is_kept_under_its_name", kept),
    ("changes_are_told_and_made_real", decided),
    ("a_commit_cut_short_is_finished_or_taken_back", cut_short),
    ("the_program_is_the_one_that_is_first_inside", search),
    ("a_second_command_sees_what_the_first_did", shell),
    ("what_outlives_the_command_is_ended_and_told", lingering),
    ("with_wait_nothing_is_ended", waiting),
];

fn exit_status(setting: &Setting) {
    setting.script("exit 7").assert_code(7);
    setting.script("kill -TERM $$").assert_code(143);
    setting.script("kill -KILL $$").assert_code(137);
}

fn lacking(setting: &Setting) {
    if setting.user() != 0 {
        skip("to take something away from this user, and from nobody else, takes root");
        return;
    }
    let no_namespaces = r#"echo 0 > /proc/sys/user/max_user_namespaces; exec "$@""#;
    setting
        .run_by(
            &["unshare", "-Ur", "sh", "-c", no_namespaces, "sh"],
            &["--", "true"],
        )
        .outcome()
        .assert_code(125)
        .assert_stderr_contains("error: make namespaces: No space left on device")
        .assert_stderr_contains("hint: user namespaces: ")
        .assert_stderr_contains("sysctl -w user.max_user_namespaces=");
    let no_device = r#"mount --bind /dev/null /dev/fuse; exec "$@""#;
    setting
        .run_by(
            &["unshare", "-m", "sh", "-c", no_device, "sh"],
            &["--", "true"],
        )
        .outcome()
        .assert_code(125)
        .assert_stderr_contains("error: mount the view: ")
        .assert_stderr_contains("hint: FUSE in a user namespace: ");
    assert!(!setting.root().path().exists(), "a state root is left");
}

fn cannot_run(setting: &Setting) {
    setting
        .run(&["--", "no-such-program"])
        .assert_code(127)
        .assert_stderr_contains("error: no-such-program: command not found");
    setting.scratch.file("plain", "text");
    setting
        .run(&["--", "./plain"])
        .assert_code(126)
        .assert_stderr_contains("error: ./plain: Permission denied");
    setting.run(&["--", "/"]).assert_code(126);
    setting
        .run(&["--in", "/no/such/directory", "--", "true"])
        .assert_code(125)
        .assert_stderr_contains("error: /no/such/directory: No such file");
    // As a full disk.
    let no_space = r#"trap '' XFSZ; ulimit -f 0; exec "$@""#;
    setting
        .run_by(&["sh", "-c", no_space, "sh"], &["--", "true"])
        .outcome()
        .assert_code(125)
        .assert_stderr_contains("File too large");
    assert!(!setting.root().path().exists(), "a state root is left");
}

fn search(setting: &Setting) {
    for name in ["first", "second"] {
        let tool = format!("#!/bin/sh\necho {name}\n");
        setting.scratch.executable(format!("{name}/tool"), tool);
    }
    let work = setting.scratch.work();
    let path = format!("PATH={0}/first:{0}/second:/usr/bin:/bin", work.display());
    let tool = |options: &[&str], expected: &str| {
        let words = [options, &["--", "tool"]].concat();
        let outcome = setting.run_by(&["env", &path], &words).outcome();
        outcome.assert_success().assert_stdout(expected);
    };
    tool(&[], "first\n");
    setting.run(&["--name", "kept", "--", "rm", "first/tool"]);
    tool(&["--shell", "kept"], "second\n");
    setting.scratch.mode("first/tool", 0o644);
    tool(&[], "second\n");
    setting
        .run(&["--", "sh", "-c", "echo $0"])
        .assert_stdout("sh\n");
}

/// The view's own files may grow: 40 names of 200 bytes make a log of more than 8 KiB.
fn file_size_limit(setting: &Setting) {
    let by = ["sh", "-c", r#"ulimit -S -f 8; exec "$@""#, "sh"];
    let script = "
        name=$(printf '%0200d' 0)
        for i in $(seq 40); do : > $name$i || exit 1; done
        trap '' XFSZ
        dd if=/dev/zero of=large bs=1024 count=64 2> message
        grep -o 'File too large' message
    ";
    setting
        .run_by(&by, &["--", "sh", "-c", script])
        .outcome()
        .assert_success()
        .assert_stdout("File too large\n");
}

fn directory_stream(setting: &Setting) {
    let by = ["sh", "-c", r#"exec "$@" < /"#, "sh"];
    setting
        .run_by(&by, &["--", "true"])
        .outcome()
        .assert_code(125)
        .assert_stderr_contains("error: standard input: is a directory");
}

fn nested(setting: &Setting) {
    let inner = setting.words(&["--", "true"]);
    let inner: Vec<&str> = inner
        .iter()
        .map(|word| word.to_str().expect("Unicode"))
        .collect();
    let outer = |front: &[&str]| {
        let words = [&["--name", "outer", "--"], front, &inner[..]].concat();
        let outcome = setting.run(&words);
        setting
            .root()
            .open("outer")
            .expect("kept")
            .abort()
            .expect("abort");
        outcome
    };
    outer(&[])
        .assert_code(125)
        .assert_stderr_contains("error: already inside a domain (`outer`)");
    outer(&["env", "-u", "SURMISE_DOMAIN"])
        .assert_code(125)
        .assert_stderr_contains("error: already inside a domain\n");
}

fn kept(setting: &Setting) {
    let script = "echo $SURMISE_DOMAIN; exit 3";
    setting
        .run(&["--name", "t", "--", "sh", "-c", script])
        .assert_code(3)
        .assert_stdout("t\n");
    setting.script("true").assert_stderr_contains("kept: sh-1");
    setting.script("true").assert_stderr_contains("kept: sh-2");
    setting
        .run(&["--name", "t", "--", "true"])
        .assert_code(125)
        .assert_stderr_contains("error: a domain `t` exists already");
    setting
        .run(&["--name", ".t", "--", "true"])
        .assert_code(125);
    let domains = setting.root().list().expect("list");
    let names: Vec<_> = domains.iter().map(|domain| domain.name()).collect();
    assert_eq!(names, ["sh-1", "sh-2", "t"]);
    let domain = setting.root().open("t").expect("open");
    assert_eq!(
        domain.status(),
        Status::Ended {
            exit: Exit::Exited(3)
        }
    );
    assert_eq!(domain.record().command, ["sh", "-c", script]);
    assert_eq!(domain.record().directory, setting.scratch.work());
    for domain in domains {
        domain.abort().expect("abort");
    }
    assert!(!setting.root().path().exists(), "a state root is left");
}

fn decided(setting: &Setting) {
    setting.scratch.file("gone", "old");
    let script = "echo new > made; rm gone";
    setting
        .run(&["--name", "t", "--", "sh", "-c", script])
        .assert_code(0);
    let domain = setting.root().open("t").expect("kept");
    assert_eq!(domain.changes().expect("changes").len(), 2);
    let lock = domain.lock().expect("lock");
    let refused = domain.clone().abort().expect_err("in use");
    assert!(matches!(refused, StateError::Running { .. }), "{refused}");
    drop(lock);
    domain
        .commit(&mut |_| ControlFlow::Continue(()), &mut |_, _| Ok(()))
        .expect("commit");
    assert!(!setting.scratch.path("gone").exists(), "not committed");
    assert_eq!(
        fs::read(setting.scratch.path("made")).expect("read"),
        b"new\n"
    );
    assert!(!setting.root().path().exists(), "a state root is left");
}

/// Before its first visible change it can be aborted; after it, nothing may be done but finish it.
fn cut_short(setting: &Setting) {
    for cut_in in [Activity::Stage, Activity::Apply] {
        setting
            .run(&["--name", "t", "--", "sh", "-c", "echo new > made"])
            .assert_code(0);
        let domain = setting.root().open("t").expect("kept");
        let killed = panic::catch_unwind(|| {
            let domain = setting.root().open("t").expect("kept");
            let on_progress = &mut |progress: surmise_commit::Progress| {
                if progress.activity == cut_in {
                    // As a kill: nothing is tidied up.
                    panic::resume_unwind(Box::new(()));
                }
                ControlFlow::Continue(())
            };
            domain.commit(on_progress, &mut |_, _| Ok(()))
        });
        assert!(killed.is_err(), "it was not cut short");
        assert_eq!(domain.status(), Status::Committing);
        setting
            .run(&["--shell", "t", "--", "true"])
            .assert_code(125)
            .assert_stderr_contains("error: a commit of domain `t` is under way");
        if cut_in == Activity::Stage {
            domain.abort().expect("abort");
            let left = fs::read_dir(setting.scratch.work()).expect("list").count();
            assert_eq!(left, 0, "something is left of the commit");
        } else {
            let refused = domain.clone().abort().expect_err("committed in part");
            assert!(
                matches!(refused, StateError::Committing { .. }),
                "{refused}"
            );
            domain
                .commit(&mut |_| ControlFlow::Continue(()), &mut |_, _| Ok(()))
                .expect("finish it");
            assert!(setting.scratch.path("made").exists(), "not committed");
        }
    }
}

fn shell(setting: &Setting) {
    setting
        .run(&["--name", "t", "--", "sh", "-c", "echo one > a"])
        .assert_code(0);
    setting
        .run(&["--shell", "t", "--", "sh", "-c", "cat a; echo two >> a"])
        .assert_stdout("one\n");
    setting
        .run(&["--shell", "t", "--", "cat", "a"])
        .assert_stdout("one\ntwo\n");
    setting
        .run(&["--shell", "t", "--", "no-such-program"])
        .assert_code(127);
    assert_eq!(setting.root().list().expect("list").len(), 1);
    assert!(!setting.scratch.path("a").exists(), "it shows outside");
}

fn lingering(setting: &Setting) {
    setting
        .script("trap '' TERM; sleep 600 & sleep 600 & sleep 0.3; exit 4")
        .assert_code(4)
        .assert_stderr_contains(" sleep\nlingering: ");
    setting
        .script("(kill -STOP $(exec sh -c 'echo $PPID')) & sleep 0.2")
        .assert_code(0)
        .assert_stderr_contains(" sh\n");
    setting.script("true & exit 0").assert_code(0);
}

fn waiting(setting: &Setting) {
    let script = "(sleep 0.3; echo late) & exit 4";
    let outcome = setting.run(&["--wait", "--", "sh", "-c", script]);
    outcome.assert_code(4).assert_stdout("late\n");
    assert!(!outcome.stderr.contains("lingering"), "{}", outcome.stderr);
}
