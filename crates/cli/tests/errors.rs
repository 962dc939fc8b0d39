//! Failures read `Error: …`, then `Hint: …`, on standard error, and exit as documented.

use std::os::unix::fs::chown;

use surmise_testkit::{Run, Scratch, is_root, skip};

/// Runs `surmise` and expects it to fail with `code` and exactly `stderr`.
#[track_caller]
fn fails(scratch: &Scratch, arguments: &[&str], code: i32, stderr: &str) {
    let outcome = Run::surmise(scratch, arguments.iter().copied()).outcome();
    outcome.assert_code(code).assert_stdout("");
    assert_eq!(outcome.stderr, stderr, "{}", outcome.command);
}

const UNKNOWN: &str = "Error: no domain `x`\nHint: `surmise list` shows all domains\n";

#[test]
fn an_unknown_domain_is_named() {
    let scratch = Scratch::new();
    for command in ["diff", "commit", "abort"] {
        fails(&scratch, &[command, "x"], 1, UNKNOWN);
    }
    fails(&scratch, &["shell", "x"], 125, UNKNOWN);
}

#[test]
fn a_name_that_is_none_is_refused_before_anything_runs() {
    let scratch = Scratch::new();
    let refusal = "Error: `../x` is not a domain name\n\
                   Hint: use 1 to 64 letters, digits, `.`, `_` or `-`, not starting with `.`\n";
    fails(&scratch, &["abort", "../x"], 1, refusal);
    fails(
        &scratch,
        &["run", "--name", "../x", "--", "touch", "a"],
        125,
        refusal,
    );
    assert!(!scratch.path("a").exists());
    assert!(!scratch.state().join("surmise").exists());
}

#[test]
fn without_a_home_there_is_no_place_for_domains() {
    let scratch = Scratch::new();
    Run::surmise(&scratch, ["list"])
        .env("XDG_STATE_HOME", "")
        .env("HOME", "")
        .outcome()
        .assert_code(1)
        .assert_stderr_contains("Error: no place for domains")
        .assert_stderr_contains("Hint: set HOME");
}

#[test]
fn a_domain_that_cannot_be_aborted_does_not_keep_the_others() {
    let scratch = Scratch::new();
    let state = scratch.state().join("surmise");
    for name in ["a", "b"] {
        std::fs::create_dir_all(state.join(name)).expect("a domain");
    }
    // Of an earlier version, which alone can finish that commit.
    let journal = b"SURMISEJCOMMIT\0\0\x01\0\0\0\x59\x45\xde\x82, and what was to be done";
    std::fs::write(state.join("a/commit"), journal).expect("write");
    let refusal = "Error: a commit of domain `a` is under way\n\
                   Hint: `surmise commit a` finishes it, `surmise commit --undo a` takes it back\n";
    fails(&scratch, &["abort", "a", "b"], 1, refusal);
    assert!(state.join("a").exists() && !state.join("b").exists());
}

#[test]
fn domains_of_somebody_else_are_left_alone() {
    if !is_root() {
        skip("to give a directory away takes root");
        return;
    }
    let scratch = Scratch::new();
    let state = scratch.state().join("surmise");
    std::fs::create_dir_all(state.join("t")).expect("a domain");
    chown(&state, Some(1), None).expect("chown");
    for (command, code) in [
        (&["list"][..], 1),
        (&["diff", "t"], 1),
        (&["commit", "t"], 1),
        (&["abort", "t"], 1),
        (&["shell", "t"], 125),
        (&["run", "--name", "new", "--", "true"], 125),
    ] {
        Run::surmise(&scratch, command.iter().copied())
            .outcome()
            .assert_code(code)
            .assert_stderr_contains("owned by user 1, not by user 0\nHint: set XDG_STATE_HOME");
    }
    let left = std::fs::read_dir(&state).expect("list").count();
    assert_eq!(left, 1, "something was made there");
}

#[test]
fn inside_a_domain_run_refuses_with_a_hint() {
    let scratch = Scratch::new();
    Run::surmise(&scratch, ["run", "--", "true"])
        .env("SURMISE_DOMAIN", "outer")
        .outcome()
        .assert_code(125)
        .assert_stderr_contains("Error: already inside a domain (`outer`)\nHint: ");
}

#[test]
fn no_domain_is_an_empty_list() {
    let scratch = Scratch::new();
    Run::surmise(&scratch, ["list"])
        .outcome()
        .assert_success()
        .assert_stdout("")
        .assert_no_stderr();
    Run::surmise(&scratch, ["list", "--json"])
        .outcome()
        .assert_success()
        .assert_stdout("[]\n");
}
