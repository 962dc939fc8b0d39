//! On a terminal: what is asked, and in which state the terminal is left.

use surmise_testkit::{Run, Scratch};

const QUESTION: &str = "[k]eep, then Enter: ";

fn run(scratch: &Scratch) -> Run<'_> {
    Run::surmise(scratch, ["run", "--name", "t", "--", "touch", "made"])
}

#[test]
fn an_interrupt_of_the_pager_is_the_pagers_alone() {
    let scratch = Scratch::new();
    let pager = "trap 'echo interrupted; exit' INT; cat > /dev/null; echo paging; \
                 while :; do sleep 0.05; done";
    run(&scratch)
        .env("PAGER", pager)
        .on_terminal(&[
            (QUESTION, "d\n"),
            ("paging", "\x03"),
            ("interrupted", ""),
            (QUESTION, "n\n"),
        ])
        .assert_success();
    assert!(!scratch.state().join("surmise").exists());
}

#[test]
fn a_shell_that_does_not_start_is_no_decision() {
    let scratch = Scratch::new();
    run(&scratch)
        .env("SHELL", "/no/such/shell")
        .on_terminal(&[
            (QUESTION, "s\n"),
            ("Error: /no/such/shell: command not found", ""),
            (QUESTION, "y\n"),
        ])
        .assert_success();
    assert!(scratch.path("made").exists());
}

#[test]
fn in_the_background_the_terminal_is_left_alone() {
    let scratch = Scratch::new();
    let surmise = surmise_testkit::surmise_binary().display();
    // Whoever sets a terminal from the background is stopped, and `wait` tells.
    let script = format!("{surmise} run --commit -- touch made & wait $!; echo status $?");
    Run::plain(&scratch, ["bash", "-mc", &script])
        .on_terminal(&[])
        .assert_stdout_contains("status 0");
    assert!(scratch.path("made").exists());
}
