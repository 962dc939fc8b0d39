//! What `make` runs first, scripts/setup, on a machine that lacks something: every tool that it would call is
//! replaced by one that fails or does nothing.

use std::path::Path;

use surmise_testkit::{Outcome, Run, Scratch, skip};

const SETUP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/setup");

/// Runs it for `purpose` as if by root, with these tools (name and script) first in `PATH`.
fn setup(purpose: &str, tools: &[(&str, &str)]) -> Outcome {
    let scratch = Scratch::new();
    let usual = [
        ("id", "echo 0"),
        ("apt-get", ":"),
        ("apt-cache", ":"),
        ("cc", ":"),
        ("newuidmap", ":"),
    ];
    for (name, script) in usual.iter().chain(tools) {
        scratch.executable(format!("tools/{name}"), format!("#!/bin/sh\n{script}\n"));
    }
    let path = format!("{}:/usr/bin:/bin", scratch.path("tools").display());
    let run = Run::plain(&scratch, ["sh", SETUP, purpose]);
    run.env("PATH", path).outcome()
}

#[test]
fn a_download_that_fails_is_told_with_the_tools_own_error() {
    if Path::new("/usr/bin/cargo").exists() {
        skip("where /usr/bin has a toolchain nothing is downloaded");
        return;
    }
    let curl = (
        "curl",
        "echo 'curl: (6) Could not resolve host' >&2; exit 6",
    );
    let outcome = setup("build", &[curl]);
    outcome
        .assert_code(1)
        .assert_stdout("")
        .assert_stderr_contains("curl: (6) Could not resolve host\n")
        .assert_stderr_contains("Error: the download of https://sh.rustup.rs failed\n");
    let apt = ("apt-get", "echo 'E: no route to the mirror' >&2; exit 100");
    setup("build", &[curl, apt])
        .assert_code(1)
        .assert_stderr_contains("E: no route to the mirror\nsetup: apt-get update failed; ")
        .assert_stderr_contains("rustup.rs failed (apt-get update had failed before)\n");
}

#[test]
fn the_demo_says_at_once_that_there_are_no_namespaces() {
    let unshare = (
        "unshare",
        "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1",
    );
    let outcome = setup("demo", &[unshare]);
    outcome.assert_code(1).assert_stdout("");
    let first = "Error: no domain can be started here, so `make demo` can't work: unshare: unshare failed: \
                 Operation not permitted\nHint: in a chroot ";
    assert!(outcome.stderr.starts_with(first), "{}", outcome.stderr);
}
