//! S31: a process is told whether a pipe inside the domain is ready before that is certain, and depends on what has made the
//! pipe so.

use serde_json::Value;

use super::undone::prints;
use super::{compile, told};
use crate::setting::as_each_user;

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
            let mut arguments = vec!["run", "--dry-run", "--predict-right", guesses];
            arguments.extend(["--stats", "--json", "--", "./asks", part]);
            let got = setting.surmise(&arguments).outcome();
            got.assert_code(0).assert_stdout(&format!("{part} ok\n"));
            let speculation = &told(&got.stderr)["speculation"];
            let count = |value: &Value| value.as_u64().unwrap_or(0);
            assert!(
                count(&speculation["objects"]["events"]) > 0,
                "{speculation}"
            );
            for call in speculation["calls"].as_array().expect("a list") {
                if waiting.iter().any(|name| call["name"] == **name) {
                    // Where the machine is busy, a thread may not come past its call in time.
                    let (waits, calls) = (count(&call["waits"]["count"]), count(&call["events"]));
                    assert!(2 * waits < calls, "{part}: {call}");
                }
            }
            if part == "hung up" {
                // A parent that waits for the hangup until that is certain finds no exit that is undecided.
                assert!(count(&speculation["objects"]["child"]) > 0, "{speculation}");
            }
            if part == "others" && waiting.is_empty() {
                assert!(count(&speculation["undone"]["pipe"]) > 0, "{speculation}");
            }
        }
    });
}
