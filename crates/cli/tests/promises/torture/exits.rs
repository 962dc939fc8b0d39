//! S31: a parent is told of the exit of a child that is not certain yet, and all is taken back where it is wrong.

use surmise_testkit::tell;

use super::{compile, has, told, torture};
use crate::setting::{Setting, as_each_user};

const SHELL: &str = include_str!("family.sh");

#[test]
fn parents_that_check_what_they_are_told_find_nothing_wrong() {
    torture("exits", &["./exits"], checking);
}

#[test]
fn shells_get_what_their_subshells_end_with() {
    for shell in ["sh", "bash"] {
        torture(shell, &[shell, "-c", SHELL], |_| has(shell));
    }
}

#[test]
fn python_gets_what_its_children_end_with() {
    torture("family", &["python3", "family.py"], python);
}

/// The parent waits neither for the decision nor for the child, and is rolled back together with the child.
#[test]
fn a_parent_goes_on_before_the_exit_of_its_child_is_certain() {
    collected("exits", &["./exits"], checking);
    collected("sh", &["sh", "-c", SHELL], |_| true);
    collected("bash", &["bash", "-c", SHELL], |_| has("bash"));
    collected("python", &["python3", "-S", "-E", "family.py"], python);
}

/// The child stands still at its exit with the file open, so the change waits in the view until the child has really ended. For
/// that the parent has to be stopped while it waits in the view.
#[test]
fn a_parent_changes_what_a_child_has_read_that_has_exited() {
    const SCRIPT: &str = "test -e /usr; echo one >file; text=$(cat file); echo two >file
        echo $text $(cat file)";
    as_each_user(|setting| {
        compile(setting, "gives.c", &["gcc", "-O1"]);
        for guesses in ["1:300ms", "1:30ms"] {
            let arguments = ["run", "--dry-run", "--predict-right", guesses, "--"];
            for (command, wanted) in [
                (&["sh", "-c", SCRIPT][..], "one two\n"),
                (&["./gives"], "gives ok\n"),
            ] {
                let arguments: Vec<_> = arguments.iter().chain(command).copied().collect();
                let got = setting.surmise(&arguments).outcome();
                got.assert_code(0).assert_stdout(wanted);
            }
        }
    });
}

/// A parent that sleeps until its child ends would have slept without any guess. Nothing is decided while the child runs.
#[test]
fn a_parent_that_sleeps_for_a_child_does_not_wait_for_a_decision() {
    const SCRIPT: &str = "test -e /etc/passwd
        (n=0; while [ $n -lt 50000 ]; do n=$((n + 1)); done; exit 3)
        echo $?";
    as_each_user(|setting| {
        let arguments = ["run", "--predict-right", "1:1s", "--stats", "--json", "--"];
        let arguments: Vec<_> = arguments.into_iter().chain(["sh", "-c", SCRIPT]).collect();
        let got = setting.surmise(&arguments).outcome();
        got.assert_code(0).assert_stdout("3\n");
        let speculation = &told(&got.stderr)["speculation"];
        assert!(
            speculation["objects"]["child"].as_u64() > Some(0),
            "{speculation}"
        );
        let calls = speculation["calls"].as_array().expect("calls");
        let wait4 = calls.iter().find(|call| call["name"] == "wait4");
        let waits = &wait4.expect("the shell waits for its child")["waits"];
        assert_eq!(waits["count"], 0, "{speculation}");
    });
}

fn checking(setting: &Setting) -> bool {
    compile(setting, "exits.c", &["gcc", "-O1"]);
    true
}

fn python(setting: &Setting) -> bool {
    let program = include_str!("family.py");
    setting.scratch.file("family.py", program);
    has("python3")
}

/// Runs a command plainly, then with right guesses that are decided after 30 ms, and then with some that are wrong.
fn collected(name: &str, command: &[&str], prepare: impl Fn(&Setting) -> bool) {
    as_each_user(|setting| {
        let plain = setting.twin();
        if !prepare(&plain) || !prepare(setting) {
            return;
        }
        let wanted = plain.plain(command).outcome();
        // On a busy machine few parents ask before the decision.
        let mut told_at_all = 0;
        for guesses in ["1:30ms", "0.7:20ms:0.3"] {
            let mut arguments = vec!["run", "--predict-right", guesses];
            arguments.extend(["--stats", "--json", "--"]);
            arguments.extend(command);
            let got = setting.surmise(&arguments).outcome();
            got.assert_code(wanted.code).assert_stdout(&wanted.stdout);
            let speculation = &told(&got.stderr)["speculation"];
            let count = |what: &str, kind: &str| speculation[what][kind].as_u64().unwrap_or(0);
            let (held, told) = (count("objects", "exit"), count("objects", "child"));
            let undone = count("undone", "exit");
            tell(format_args!(
                "{name} {guesses}: {held} exits held, {told} told, {undone} undone"
            ));
            assert!(held > 0, "{speculation}");
            told_at_all += told;
            assert_eq!(
                undone > 0,
                guesses.matches(':').count() > 1,
                "{speculation}"
            );
        }
        assert!(told_at_all > 0, "{name}: no parent was told");
    });
}
