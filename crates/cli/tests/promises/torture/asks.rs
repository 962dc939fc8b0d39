//! S31: a process is told whether a pipe inside the domain is ready before that is certain, and depends on what has made the
//! pipe so.

use serde_json::Value;

use super::undone::prints;
use super::{compile, told};
use crate::setting::{Setting, as_each_user};

/// How many runs may show nothing of a part until one has to.
const RUNS_MAX: usize = 5;

#[test]
fn what_is_told_to_be_ready_is_found_so() {
    prints(
        "asks",
        "./asks",
        "own ok\nothers ok\ntokens ok\nhung up ok\n",
    );
}

/// A process that asks waits for no decision. Nor does one that makes a pipe ready for which another sleeps. If a guess was
/// wrong, all are rolled back together.
#[test]
fn who_asks_whether_a_pipe_is_ready_is_told_before_it_is_certain() {
    const ASKS: [&str; 4] = ["poll", "ppoll", "select", "pselect6"];
    const EVENTS: (&str, &str) = ("objects", "events");
    // A parent that waits for the hangup until that is certain finds no exit that is undecided.
    const CHILD: (&str, &str) = ("objects", "child");
    const UNDONE: (&str, &str) = ("undone", "pipe");
    as_each_user(|setting| {
        compile(setting, "asks.c", &["gcc", "-O1", "-pthread"]);
        for (part, guesses, asks, shows) in [
            ("own", "1:1000ms", &ASKS[..], &[EVENTS][..]),
            ("others", "1:1000ms", &["write"], &[EVENTS]),
            ("others", "1:300ms:0.3", &[], &[EVENTS, UNDONE]),
            ("hung up", "1:300ms", &[], &[EVENTS, CHILD]),
            ("hung up", "1:300ms:0.3", &[], &[EVENTS, CHILD]),
        ] {
            let speculation = run(setting, part, guesses);
            for (what, kind) in shows {
                let count = count(&speculation[what][kind]);
                assert!(count > 0, "{part}: no {what} of {kind}: {speculation}");
            }
            few_wait(part, &speculation, asks);
        }
        // A worker that was just born is given no guess for a while. So a run may be over before any guess.
        let mut runs = (0..RUNS_MAX).map(|_| run(setting, "tokens", "0.7:10ms:0.3"));
        assert!(
            runs.any(|speculation| count(&speculation["objects"]["events"]) > 0),
            "tokens: nobody is told in {RUNS_MAX} runs"
        );
    });
}

/// Few of these calls wait for a decision.
pub(super) fn few_wait(part: &str, speculation: &Value, names: &[&str]) {
    let calls = speculation["calls"].as_array().expect("a list");
    let is_named = |call: &&Value| names.iter().any(|name| call["name"] == **name);
    for call in calls.iter().filter(is_named) {
        // Where the machine is busy, a thread may not come past its call in time.
        let (waits, calls) = (count(&call["waits"]["count"]), count(&call["events"]));
        assert!(2 * waits < calls, "{part}: {call}");
    }
}

/// Runs a part of the program with right guesses. Returns what was told of speculation.
fn run(setting: &Setting, part: &str, guesses: &str) -> Value {
    let mut arguments = vec!["run", "--dry-run", "--predict-right", guesses];
    arguments.extend(["--stats", "--json", "--", "./asks", part]);
    let got = setting.surmise(&arguments).outcome();
    got.assert_code(0).assert_stdout(&format!("{part} ok\n"));
    told(&got.stderr)["speculation"].clone()
}

pub(super) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}
