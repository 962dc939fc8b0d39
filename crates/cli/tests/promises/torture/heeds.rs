//! S31: a parent that sleeps until a signal comes is told of the exit of a child before that is certain; and one that has the
//! signal ignored for a while is not.

use surmise_testkit::tell;

use super::right::{decided_late, waits_in};
use super::{compile, told, torture};
use crate::setting::{Setting, as_each_user};

#[test]
fn parents_that_sleep_until_a_signal_comes_hear_of_each_end() {
    torture("heeds", &["./heeds"], |setting| {
        prepare(setting);
        true
    });
}

/// Else each end would come with a decision.
#[test]
fn a_signal_that_tells_of_an_exit_does_not_wait_for_a_decision() {
    as_each_user(|setting| {
        let plain = setting.twin();
        prepare(&plain);
        prepare(setting);
        let wanted = plain.plain(&["./heeds"]).outcome();
        wanted.assert_code(0);
        for guesses in ["1:1s", "0.7:10ms:0.3"] {
            let arguments = ["run", "--dry-run", "--predict-right", guesses];
            let command = ["--stats", "--json", "--", "./heeds"];
            let got = setting.surmise(&[&arguments[..], &command].concat());
            let got = got.outcome();
            got.assert_code(0).assert_stdout(&wanted.stdout);
            let speculation = &told(&got.stderr)["speculation"];
            let count = |what: &str, kind: &str| speculation[what][kind].as_u64().unwrap_or(0);
            let (held, heard) = (count("objects", "exit"), count("objects", "signal"));
            let undone = count("undone", "exit");
            tell(format_args!(
                "heeds {guesses}: {held} exits held, {heard} heard of, {undone} undone"
            ));
            match guesses {
                // A second is long, also on a busy machine.
                "1:1s" => assert!(2 * heard > held && undone == 0, "{speculation}"),
                _ => assert!(heard > 0 && undone > 0, "{speculation}"),
            }
        }
    });
}

#[test]
fn what_is_ignored_while_a_parent_waits_is_not_told_later() {
    let command = ["./resets", "4"];
    let prepare = |setting: &Setting| {
        compile(setting, "resets.c", &["gcc", "-O1"]);
        true
    };
    torture("resets", &command, prepare);
    decided_late(&command, prepare);
    for (_, waits) in waits_in("rt_sigaction", &command, prepare) {
        // In each round one takes away a signal that waits.
        assert!(waits <= 4, "{waits} wait");
    }
}

fn prepare(setting: &Setting) {
    compile(setting, "heeds.c", &["gcc", "-O1"]);
}
