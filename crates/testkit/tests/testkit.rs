//! The helpers do what they promise, and fail where they promise to.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use surmise_testkit::watchdog;
use surmise_testkit::{
    Facets, Kind, Run, Scratch, TreeSnapshot, assert_same_tree, differences, ordinary_user, skip,
};

fn sample() -> Scratch {
    let scratch = Scratch::new();
    scratch
        .file("b", "two")
        .executable("d/run", "#!/bin/sh\n")
        .hard_link("b", "d/b2")
        .symlink("../b", "d/link")
        .fifo("pipe");
    scratch
}

/// The message of the panic that `work` must end with.
fn failure<T>(work: impl FnOnce() -> T) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(work)) else {
        panic!("a failure was expected");
    };
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().expect("a message")).to_owned(),
    }
}

#[test]
fn an_untouched_tree_is_the_same() {
    let scratch = sample();
    let before = TreeSnapshot::of(scratch.work());
    assert_same_tree(&before, &TreeSnapshot::of(scratch.work()), Facets::EXACT);
    assert_eq!(before.entry("d/link").kind, Kind::Symlink("../b".into()));
    assert_eq!(before.entry("d/b2").first_name, std::path::Path::new("b"));
    assert_eq!(before.entry("pipe").kind, Kind::Fifo);
}

#[test]
fn every_kind_of_change_is_told() {
    let scratch = sample();
    let before = TreeSnapshot::of(scratch.work());
    fs::write(scratch.path("b"), "twice").expect("write");
    fs::remove_file(scratch.path("d/link")).expect("remove");
    scratch
        .mode("d/run", 0o700)
        .file("new", "")
        .age("pipe", Duration::from_secs(60));
    let lines = differences(&before, &TreeSnapshot::of(scratch.work()), Facets::EXACT).join("\n");
    for wanted in [
        "b: file of 3 bytes",
        "d/b2: file of 3 bytes",
        "d/link: missing (link to ../b)",
        "d/run: mode 0755 became 0700",
        "new: new (file of 0 bytes",
        "pipe: mtime_ns",
        ".: mtime_ns",
    ] {
        assert!(
            lines.contains(wanted),
            "{wanted:?} is not told in:\n{lines}"
        );
    }
}

#[test]
fn a_rewrite_with_the_same_bytes_shows_only_in_times() {
    let scratch = sample();
    let before = TreeSnapshot::of(scratch.work());
    scratch.file("b", "two");
    let after = TreeSnapshot::of(scratch.work());
    assert_eq!(
        differences(&before, &after, Facets::SAME_RESULT),
        Vec::<String>::new()
    );
    assert!(failure(|| assert_same_tree(&before, &after, Facets::EXACT)).contains("mtime_ns"));
}

#[test]
fn a_split_hard_link_is_told() {
    let scratch = sample();
    let before = TreeSnapshot::of(scratch.work());
    fs::remove_file(scratch.path("d/b2")).expect("remove");
    scratch.file("d/b2", "two");
    let lines = differences(
        &before,
        &TreeSnapshot::of(scratch.work()),
        Facets::SAME_RESULT,
    );
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("d/b2: links 2 became 1")),
        "{lines:?}"
    );
}

#[test]
fn a_command_is_run_with_an_environment_of_its_own() {
    let scratch = Scratch::new();
    let script = "cat; echo $HOME $XDG_STATE_HOME $A; pwd >&2; exit 3";
    let outcome = Run::plain(&scratch, ["sh", "-c", script])
        .env("A", "a")
        .stdin("in ")
        .outcome();
    let home = format!(
        "in {} {} a\n",
        scratch.home().display(),
        scratch.state().display()
    );
    outcome
        .assert_code(3)
        .assert_stdout(&home)
        .assert_stderr_contains("/work");
    assert!(failure(|| outcome.assert_success()).contains("wanted: status 0"));
}

#[test]
fn a_command_that_hangs_is_killed_and_fails_the_test() {
    let scratch = Scratch::new();
    let run = Run::plain(&scratch, ["sh", "-c", "echo started; exec sleep 60"]).seconds(1);
    let message = failure(|| run.outcome());
    assert!(message.contains("still running after 1s"), "{message}");
    assert!(message.contains("stdout: started"), "{message}");
}

#[test]
fn a_process_that_outlives_the_command_fails_the_test() {
    let scratch = Scratch::new();
    let run = Run::plain(&scratch, ["sh", "-c", "sleep 5 & exit 0"]);
    assert!(failure(|| run.outcome()).contains("outlived"));
}

#[test]
fn work_in_the_test_itself_is_bounded() {
    assert_eq!(watchdog::within(watchdog::LIMIT, || 7), 7);
    let started = Instant::now();
    let sleep = || std::thread::sleep(Duration::from_secs(20));
    assert!(
        failure(|| watchdog::within(Duration::from_millis(50), sleep)).contains("still at work")
    );
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(failure(|| watchdog::within(watchdog::LIMIT, || panic!("inner"))).contains("inner"));
}

#[test]
fn a_dialogue_is_held_on_a_terminal() {
    let scratch = Scratch::new();
    let script =
        "test -t 0 && test -t 2 && printf 'Name? ' && read name && echo hello $name; stty size";
    let run = Run::plain(&scratch, ["sh", "-c", script]);
    let outcome = run.on_terminal(&[("Name?", "ann\n")]);
    outcome
        .assert_success()
        .assert_stdout("Name? ann\nhello ann\n24 80\n");
    let run = Run::plain(&scratch, ["sh", "-c", "exec sleep 60"]).seconds(1);
    assert!(failure(|| run.on_terminal(&[("Name?", "x")])).contains("did not appear"));
}

#[test]
fn a_command_runs_as_an_ordinary_user() {
    let user = match ordinary_user() {
        Ok(user) => user,
        Err(reason) => return skip(reason),
    };
    let scratch = Scratch::owned_by(user);
    scratch.file("mine", "");
    let script = "id -u; touch mine fresh; test -w /dev/fuse && echo open";
    let outcome = Run::plain(&scratch, ["sh", "-c", script])
        .user(user)
        .outcome();
    outcome
        .assert_success()
        .assert_no_stderr()
        .assert_stdout(&format!("{}\nopen\n", user.uid));
    assert_eq!(
        TreeSnapshot::of(scratch.work()).entry("fresh").uid,
        user.uid
    );
}

#[test]
fn a_second_look_at_what_was_changed_finds_all_changes() {
    let scratch = sample();
    let mut snapshot = TreeSnapshot::of(scratch.work());
    let mut changed = |paths: &[&str]| {
        let paths: Vec<_> = paths.iter().map(PathBuf::from).collect();
        snapshot.look_again(scratch.work(), &paths);
        assert_same_tree(&snapshot, &TreeSnapshot::of(scratch.work()), Facets::EXACT);
    };
    // Shows by another name, too.
    fs::write(scratch.path("b"), "other").expect("write");
    changed(&["b"]);
    fs::rename(scratch.path("d"), scratch.path("e")).expect("rename");
    changed(&["d", "e"]);
    fs::remove_file(scratch.path("e/b2")).expect("remove");
    changed(&["e/b2"]);
    fs::create_dir(scratch.path("new")).expect("make");
    changed(&["new"]);
}
