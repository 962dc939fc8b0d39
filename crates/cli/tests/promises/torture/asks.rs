//! S31: a process is told whether a pipe inside the domain is ready before that is certain, and depends on what has made the
//! pipe so.

use std::collections::BTreeMap;

use serde_json::Value;

use super::undone::prints;
use super::{compile, told};
use crate::setting::{Setting, as_each_user};

/// How often a run is tried that may show nothing.
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
    as_each_user(|setting| {
        compile(setting, "asks.c", &["gcc", "-O1", "-pthread"]);
        for (part, guesses, waiting) in [
            ("own", "1:1000ms", &ASKS[..]),
            ("others", "1:1000ms", &["write"]),
            ("others", "1:300ms:0.3", &[]),
            ("tokens", "0.7:10ms:0.3", &[]),
            ("hung up", "1:300ms", &[]),
            ("hung up", "1:300ms:0.3", &[]),
        ] {
            // Where the machine is busy, a guess may have been decided before it mattered: one of several runs shows it.
            let mut seen = BTreeMap::<&str, u64>::new();
            let wanted = match (part, waiting) {
                // A parent that waits for the hangup until that is certain finds no exit that is undecided.
                ("hung up", _) => &["events", "child"][..],
                ("others", []) => &["events", "undone pipe"],
                _ => &["events"],
            };
            for _ in 0..RUNS_MAX {
                let speculation = run(setting, part, guesses);
                let objects = &speculation["objects"];
                *seen.entry("events").or_default() += count(&objects["events"]);
                *seen.entry("child").or_default() += count(&objects["child"]);
                *seen.entry("undone pipe").or_default() += count(&speculation["undone"]["pipe"]);
                for call in speculation["calls"].as_array().expect("a list") {
                    if waiting.iter().any(|name| call["name"] == **name) {
                        // Where the machine is busy, a thread may not come past its call in time.
                        let (waits, calls) =
                            (count(&call["waits"]["count"]), count(&call["events"]));
                        assert!(2 * waits < calls, "{part}: {call}");
                    }
                }
                if wanted.iter().all(|kind| seen[kind] > 0) {
                    break;
                }
            }
            assert!(wanted.iter().all(|kind| seen[kind] > 0), "{part}: {seen:?}");
        }
    });
}

/// Runs a part of the program with right guesses. Returns what was told of speculation.
fn run(setting: &Setting, part: &str, guesses: &str) -> Value {
    let mut arguments = vec!["run", "--dry-run", "--predict-right", guesses];
    arguments.extend(["--stats", "--json", "--", "./asks", part]);
    let got = setting.surmise(&arguments).outcome();
    got.assert_code(0).assert_stdout(&format!("{part} ok\n"));
    told(&got.stderr)["speculation"].clone()
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}
