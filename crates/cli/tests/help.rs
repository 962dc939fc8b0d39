//! The whole of `--help`, and what is said of wrong usage, as snapshots: a change of them is a change
//! of the interface. `INSTA_UPDATE=always cargo test -p surmise --test help` accepts the new text.

use surmise_testkit::{Run, Scratch};

#[test]
fn help_is_as_reviewed() {
    let commands = [
        "run",
        "list",
        "diff",
        "commit",
        "abort",
        "shell",
        "sync",
        "volume",
        "mount",
        "mounts",
        "umount",
        "serve",
        "certificates",
        "api",
        "doctor",
        "demo",
        "syscalls",
        "completions",
        "man",
    ];
    let scratch = Scratch::new();
    let help = Run::surmise(&scratch, ["--help"]).outcome();
    help.assert_success().assert_no_stderr();
    insta::assert_snapshot!("surmise", help.stdout);
    for command in commands {
        help.assert_stdout_contains(&format!("  {command} "));
        let help = Run::surmise(&scratch, [command, "--help"]).outcome();
        help.assert_success().assert_no_stderr();
        insta::assert_snapshot!(command, help.stdout);
    }
}

#[test]
fn the_short_help_of_a_command_starts_as_its_line_in_the_list() {
    let scratch = Scratch::new();
    let list = Run::surmise(&scratch, ["-h"]).outcome();
    for command in ["run", "diff", "doctor"] {
        let help = Run::surmise(&scratch, [command, "-h"]).outcome();
        let about = help.lines()[0].to_owned();
        list.assert_stdout_contains(&about);
    }
}

#[test]
fn wrong_usage_exits_with_2_and_names_the_mistake() {
    let scratch = Scratch::new();
    for (arguments, mistake) in [
        (&["run"][..], "<CMD>"),
        (
            &["run", "--commit", "--dry-run", "--", "true"],
            "'--dry-run'",
        ),
        (&["run", "--net", "some", "--", "true"], "'some'"),
        (&["run", "--torture", "x", "--", "true"], "'x'"),
        (&["run", "--torture", "1:2", "--", "true"], "at most 1"),
        (&["shell", "--stats", "t"], "'--stats'"),
        (&["diff"], "<NAME>"),
        (&["commit"], "<NAME>"),
        (&["abort"], "<NAME>"),
        (&["abort", "--all", "t"], "'--all'"),
        (&["shell"], "<NAME>"),
        (&["sync"], "Usage: surmise sync"),
        (
            &["sync", "--interval", "2h", "--", "true"],
            "from 1ms to 60m",
        ),
        (&["sync", "--json", "--", "true"], "--stats"),
        (&["volume"], "Usage: surmise volume"),
        (&["volume", "create", "2X", "f"], "500M"),
        (&["undo"], "'undo'"),
    ] {
        Run::surmise(&scratch, arguments.iter().copied())
            .outcome()
            .assert_code(2)
            .assert_stdout("")
            .assert_stderr_contains(mistake);
    }
}
