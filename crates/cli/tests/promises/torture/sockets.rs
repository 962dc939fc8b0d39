//! S31: what processes say by a connection inside the domain is heard before it is certain, and who has heard it depends on it.

use serde_json::Value;
use surmise_testkit::tell;

use super::asks::{count, few_wait};
use super::undone::prints;
use super::{compile, seeds, told};
use crate::setting::{Setting, as_each_user};

#[test]
fn what_is_said_by_connections_is_heard_once_and_in_order() {
    prints(
        "sockets",
        "./sockets",
        "own ok\ntalk ok\nlong ok\nnamed ok\nends ok\ndescriptors ok\nexits ok\nsenders ok\n",
    );
}

/// Neither a process that writes nor one that reads what is there waits for a decision. If a guess was wrong, all are rolled
/// back together that have heard of it.
#[test]
fn who_talks_by_a_connection_does_so_before_it_is_certain() {
    const WRITES: [&str; 4] = ["write", "writev", "sendto", "sendmsg"];
    const ALL: [&str; 8] = [
        "write", "writev", "sendto", "sendmsg", "read", "readv", "recvfrom", "recvmsg",
    ];
    as_each_user(|setting| {
        compile(setting, "sockets.c", &["gcc", "-O1"]);
        for (part, guesses, calls) in [
            ("own", "1:1000ms", &ALL[..]),
            ("talk", "1:300ms", &WRITES),
            ("named", "1:300ms", &[]),
        ] {
            let speculation = run(setting, part, guesses);
            let acts = count(&speculation["objects"]["pipe"]);
            assert!(acts > 0, "{part}: nobody talks: {speculation}");
            few_wait(part, &speculation, calls);
        }
    });
}

#[test]
fn through_a_connection_all_are_rolled_back_that_have_heard_what_was_wrong() {
    as_each_user(|setting| {
        compile(setting, "sockets.c", &["gcc", "-O1"]);
        let mut cascades = 0;
        for _ in 0..seeds().max(3) {
            let speculation = run(setting, "talk", "1:30ms:0.3");
            cascades += count(&speculation["cascades_through"]["pipe"]);
        }
        tell(format_args!("connection: {cascades} cascades"));
        assert!(cascades > 0, "nothing was rolled back together");
    });
}

/// Runs a part of the program with right guesses. Returns what was told of speculation.
fn run(setting: &Setting, part: &str, guesses: &str) -> Value {
    let mut arguments = vec!["run", "--dry-run", "--predict-right", guesses];
    arguments.extend(["--stats", "--json", "--", "./sockets", part]);
    let got = setting.surmise(&arguments).outcome();
    got.assert_code(0).assert_stdout(&format!("{part} ok\n"));
    told(&got.stderr)["speculation"].clone()
}
