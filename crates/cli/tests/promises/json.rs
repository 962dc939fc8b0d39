//! `--json` prints an object whatever happens, and a commit that fails names its domain.

use surmise_testkit::{Outcome, Run, Scratch};

/// The last line of a text, as JSON.
#[track_caller]
fn last(text: &str) -> serde_json::Value {
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {text:?}"))
}

#[track_caller]
fn failed(text: &str) -> serde_json::Value {
    let failed = last(text)["failed"].clone();
    for member in ["error", "details", "hint", "domain", "status"] {
        assert!(failed.get(member).is_some(), "{member}: {failed}");
    }
    failed
}

fn surmise(scratch: &Scratch, arguments: &[&str]) -> Outcome {
    Run::surmise(scratch, arguments.iter().copied()).outcome()
}

#[test]
fn a_start_that_fails_is_told_as_json() {
    let scratch = Scratch::new();
    let run = |rest: &[&str]| surmise(&scratch, &[&["run", "--json"], rest].concat());
    let missing = run(&["--", "no-such-program"]);
    let told = failed(&missing.assert_code(127).stderr);
    assert_eq!(told["error"], "no-such-program: command not found");
    assert_eq!(told["status"], 127);
    assert_eq!(told["domain"], serde_json::Value::Null);
    let name = run(&["--name", "../x", "--", "true"]);
    assert_eq!(failed(&name.assert_code(125).stderr)["status"], 125);
    let usage = run(&["--no-such-option", "--", "true"]);
    assert_eq!(failed(&usage.assert_code(2).stderr)["status"], 2);
}

#[test]
fn a_conflict_names_the_domain_and_how_to_go_on() {
    let scratch = Scratch::new();
    scratch.file("f", "old\n").file("outside", "");
    let script = format!(
        "echo new > f; until [ -s {} ]; do sleep 0.05; done",
        scratch.path("outside").display()
    );
    // The file outside is changed while the command waits for that.
    let changes = format!(
        "{0} run --commit --json --name t -- sh -c '{script}' & \
         until {0} diff t 2> /dev/null | grep -q f; do sleep 0.05; done; \
         echo theirs > f; echo x > outside; wait $!",
        surmise_testkit::surmise_binary().display()
    );
    let outcome = Run::plain(&scratch, ["bash", "-c", &changes]).outcome();
    outcome
        .assert_code(125)
        .assert_stderr_contains("surmise: the changes are kept in domain t\n")
        .assert_stderr_contains("  surmise commit t  make it real\n");
    let told = failed(&outcome.stderr);
    assert_eq!(told["domain"], "t");
    assert_eq!(told["details"].as_array().map(Vec::len), Some(1));
    let again = surmise(&scratch, &["commit", "--json", "t"]);
    assert_eq!(failed(&again.assert_code(1).stdout)["status"], 1);
    surmise(&scratch, &["commit", "--force-ours", "f", "t"]).assert_success();
    assert_eq!(
        std::fs::read_to_string(scratch.path("f")).expect("read"),
        "new\n"
    );
}

#[test]
fn a_signal_that_ends_the_command_leaves_an_object() {
    let scratch = Scratch::new();
    let script = "\"$0\" run --json --name t -- sh -c 'echo x > made; sleep 600' & \
                  until \"$0\" diff t 2> /dev/null | grep -q made; do sleep 0.05; done; \
                  kill -TERM $!; wait $!";
    let surmise = surmise_testkit::surmise_binary().as_os_str();
    let words = ["bash".as_ref(), "-c".as_ref(), script.as_ref(), surmise];
    let outcome = Run::plain(&scratch, words).outcome();
    let told = last(&outcome.assert_code(143).stderr);
    assert_eq!(told["exit"], 143);
    assert_eq!(told["state"], "kept");
}

#[test]
fn commands_that_fail_print_an_object_where_their_result_would_be() {
    let scratch = Scratch::new();
    for command in [&["commit", "--json", "x"][..], &["abort", "--json", "x"]] {
        let told = failed(&surmise(&scratch, command).assert_code(1).stdout);
        assert_eq!(told["error"], "no domain `x`");
    }
    for command in [&["list", "--json"][..], &["doctor", "--json"]] {
        let run = Run::surmise(&scratch, command.iter().copied());
        let outcome = run.env("HOME", "").env("XDG_STATE_HOME", "").outcome();
        failed(&outcome.assert_code(1).stdout);
    }
}
