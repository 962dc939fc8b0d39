//! S31: what is guessed and decided late ends as a plain run does, and what waited for it is told.

use std::cell::{Cell, RefCell};

use surmise_testkit::tell;

use super::{has, told};
use crate::setting::{Setting, as_each_user};

#[test]
fn a_pipeline_waits_for_what_it_depends_on() {
    let script = "for n in 3 1 2; do echo $n; done | sort | tee sorted; cat sorted";
    late(&["sh", "-c", script], |_| true);
}

#[test]
fn sqlite_changes_a_base() {
    let script = include_str!("base.sql");
    late(&["sqlite3", "base.db", script], |_| has("sqlite3"));
}

/// Each thread that is to take a signal waits for the others' guesses, while the others are given new ones.
#[test]
fn threads_that_are_sent_signals_get_on() {
    late(&["python3", "threads.py"], |setting| {
        setting
            .scratch
            .file("threads.py", include_str!("threads.py"));
        has("python3")
    });
}

/// A call that has waited until its process could be let go is made again then. Guessed anew, it would wait for ever.
#[test]
fn a_call_that_has_waited_is_not_guessed() {
    late(&["python3", "shared.py"], |setting| {
        let program = include_str!("shared.py");
        setting.scratch.file("shared.py", program);
        has("python3")
    });
}

/// Nothing of the view is durable before a commit, and what has no name cannot be made.
#[test]
fn what_does_nothing_waits_for_no_decision() {
    const PROGRAM: &str = r#"use IO::Handle; for (1 .. 5) {
        open my $file, '>', "f$_" or die; syswrite $file, 'x';
        $file->sync or die; mkdir '' and die; }"#;
    as_each_user(|setting| {
        if !has("perl") {
            return;
        }
        let arguments = ["run", "--dry-run", "--predict-right", "1:30ms"];
        let command = ["--stats", "--json", "--", "perl", "-e", PROGRAM];
        let got = setting
            .surmise(&[&arguments[..], &command].concat())
            .outcome();
        got.assert_code(0);
        let speculation = &told(&got.stderr)["speculation"];
        let calls = speculation["calls"].as_array().expect("calls");
        for name in ["fsync", "mkdir"] {
            let call = calls.iter().find(|call| call["name"] == name);
            let call = call.unwrap_or_else(|| panic!("no {name}: {speculation}"));
            assert_eq!(call["waits"]["count"], 0, "{call}");
        }
    });
}

/// Its descriptor has a path, by which the file is given a name.
#[test]
fn a_file_without_a_name_is_named_at_once() {
    const PROGRAM: &str = r#"
import ctypes, os
HERE, FOLLOW = -100, 0x400
for number in range(5):
    made = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
    path = b"/proc/self/fd/%d" % made
    assert ctypes.CDLL(None).linkat(HERE, path, HERE, b"named%d" % number, FOLLOW) == 0
    os.stat("named%d" % number)
"#;
    for (calls, waits) in waits_in("linkat", &["python3", "-c", PROGRAM], |_| has("python3")) {
        // Where the machine is busy, a thread may not come past its call in time.
        assert!(calls >= 5 && 2 * waits < calls, "{waits} of {calls} wait");
    }
}

/// Runs a command plainly, then with every call guessed right that can be, and then with some guessed wrong. Each guess
/// is decided after 30 ms, and something has to wait for that.
pub(super) fn late(command: &[&str], prepare: impl Fn(&Setting) -> bool) {
    assert!(decided_late(command, prepare) > 0, "nothing has waited");
}

/// How often a command makes a call, and how often that waits, where all guesses are right and are decided after 30 ms: as each user.
pub(super) fn waits_in(
    name: &str,
    command: &[&str],
    prepare: impl Fn(&Setting) -> bool,
) -> Vec<(u64, u64)> {
    let found = RefCell::new(Vec::new());
    as_each_user(|setting| {
        if !prepare(setting) {
            return;
        }
        let mut arguments = vec!["run", "--dry-run", "--predict-right", "1:30ms"];
        arguments.extend(["--stats", "--json", "--"]);
        arguments.extend(command);
        let got = setting.surmise(&arguments).outcome();
        got.assert_code(0);
        let calls = &told(&got.stderr)["speculation"]["calls"];
        let calls = calls.as_array().expect("calls");
        let call = calls.iter().find(|call| call["name"] == name);
        let call = call.expect("the command makes the call");
        let count = |value: &serde_json::Value| value.as_u64().expect("a number");
        let counted = (count(&call["events"]), count(&call["waits"]["count"]));
        found.borrow_mut().push(counted);
    });
    found.into_inner()
}

/// As [`late`], of a command that need not wait. Returns how many calls have waited in the run in which the most have.
pub(super) fn decided_late(command: &[&str], prepare: impl Fn(&Setting) -> bool) -> u64 {
    let most_waits = Cell::new(0);
    as_each_user(|setting| {
        let plain = setting.twin();
        if !prepare(&plain) || !prepare(setting) {
            return;
        }
        let wanted = plain.plain(command).outcome();
        for guesses in ["1:30ms", "0.3:30ms:0.2"] {
            let mut arguments = vec!["run", "--predict-right", guesses];
            arguments.extend(["--stats", "--json", "--"]);
            arguments.extend(command);
            let got = setting.surmise(&arguments).outcome();
            got.assert_code(wanted.code).assert_stdout(&wanted.stdout);
            let object = told(&got.stderr);
            let speculation = &object["speculation"];
            let calls = speculation["calls"].as_array().expect("calls");
            let waits = calls.iter().map(|call| call["waits"]["count"].as_u64());
            let waits: u64 = waits.map(|count| count.expect("a number")).sum();
            let rollbacks = speculation["rollbacks"]["count"].as_u64();
            tell(format_args!(
                "{}: {waits} waits, {rollbacks:?} rollbacks",
                command[0]
            ));
            let are_wrong = guesses.matches(':').count() > 1;
            assert_eq!(rollbacks > Some(0), are_wrong, "{object}");
            let predictions = speculation["predictions"].as_u64();
            assert!(predictions > Some(0), "{object}");
            most_waits.update(|most: u64| most.max(waits));
        }
    });
    most_waits.get()
}
