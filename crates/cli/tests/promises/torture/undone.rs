//! S31: small programs that would notice by themselves if a change had been seen or half undone.

use surmise_testkit::tell;

use super::right::waits_in;
use super::{compile, seeds, told, torture};
use crate::setting::{Setting, as_each_user};

/// Runs a program of tests/tracees, with these words around it, so often that guesses go wrong at each of its
/// steps.
pub(super) fn prints(name: &str, script: &str, wanted: &str) {
    prints_at(&["0.1", "0.05", "0.3"], name, script, wanted);
}

/// As [`prints`], with guesses that go wrong at these rates.
pub(super) fn prints_at(rates: &[&str], name: &str, script: &str, wanted: &str) {
    as_each_user(|setting| {
        compile(setting, &format!("{name}.c"), &["gcc", "-O1", "-pthread"]);
        let mut rollbacks = 0;
        for seed in 1..=seeds().max(3) {
            let torture = format!("{seed}:{}", rates[seed % rates.len()]);
            rollbacks += run(setting, &torture, script, wanted);
        }
        tell(format_args!("{name}: {rollbacks} rollbacks"));
        assert!(rollbacks > 0, "{name}: nothing was undone");
    });
}

/// Returns how often it was rolled back.
fn run(setting: &Setting, torture: &str, script: &str, wanted: &str) -> u64 {
    let arguments = [
        "run",
        "--dry-run",
        "--torture",
        torture,
        "--stats",
        "--json",
        "--",
        "sh",
        "-c",
        script,
    ];
    let outcome = setting.surmise(&arguments).outcome();
    assert!(
        outcome.code == 0 && outcome.stdout == wanted,
        "tortured with {torture}: {outcome:?}"
    );
    let rollbacks = &told(&outcome.stderr)["speculation"]["rollbacks"]["count"];
    rollbacks.as_u64().expect("a number")
}

#[test]
fn what_is_undecided_is_not_seen_through_a_mapping_of_a_sent_file() {
    prints("sent", "./sent", "seen 0, A at the end\n");
}

/// To learn where a file ends that has gone back, nobody waits for a process that appends to the file: that waits, too.
#[test]
fn a_file_goes_back_while_others_append_to_it() {
    torture("appends", &["sh", "appends.sh"], |setting| {
        let script = include_str!("appends.sh");
        setting.scratch.file("appends.sh", script);
        true
    });
}

#[test]
fn a_file_is_as_long_as_it_was_for_every_call() {
    prints("sizes", "./sizes", "sizes ok\n");
}

/// Each that is due is taken once, and none that was set by a call that is undone.
#[test]
fn a_timer_goes_on_as_if_nobody_had_set_it_anew() {
    prints("alarms", "./alarms", "alarms ok\n");
    let prepare = |setting: &Setting| {
        compile(setting, "alarms.c", &["gcc", "-O1"]);
        true
    };
    for (calls, waits) in waits_in("setitimer", &["./alarms"], prepare) {
        // Where the machine is busy, a thread may not come past its call in time.
        assert!(4 * waits < calls, "{waits} of {calls} wait");
    }
}

/// By a handler that is taken away with that.
#[test]
fn a_signal_that_was_taken_is_taken_again() {
    prints("nudges", "./nudges", "nudges ok\n");
}

/// By a handler that reaps the child.
#[test]
fn the_signal_of_a_child_is_taken_once_and_the_child_reaped_once() {
    prints("reaps", "./reaps", "reaps ok\n");
}

#[test]
fn the_signal_of_a_child_waits_for_no_decision() {
    as_each_user(|setting| {
        compile(setting, "reaps.c", &["gcc", "-O1"]);
        let arguments = ["run", "--dry-run", "--predict-right", "1:30ms"];
        let command = ["--stats", "--json", "--", "./reaps"];
        let got = setting.surmise(&[&arguments[..], &command].concat());
        let got = got.outcome();
        got.assert_code(0).assert_stdout("reaps ok\n");
        let speculation = &told(&got.stderr)["speculation"];
        let count = |kind: &str| speculation["objects"][kind].as_u64().unwrap_or(0);
        let (taken, zombies) = (count("taken signal"), count("zombie"));
        let waits = speculation["waits"]["signal"]["count"].as_u64();
        tell(format_args!(
            "reaps: {taken} signals taken, {zombies} zombies, {waits:?} waits"
        ));
        assert!(taken > 0 && zombies > 0, "{speculation}");
        assert!(waits.unwrap_or(0) <= 2, "{speculation}");
    });
}

#[test]
fn a_directory_is_read_on_from_where_it_was() {
    prints("lists", "./lists", "lists ok\n");
}

/// Also when what was undone before was undone to a moment at which it was not open.
#[test]
fn what_is_appended_comes_at_the_end() {
    as_each_user(|setting| {
        compile(setting, "appends.c", &["gcc", "-O1"]);
        for seed in 1..=seeds().max(3) {
            // Several guesses have to be undecided at once.
            run(
                setting,
                &format!("{seed}:0.6"),
                "./appends",
                "appended ok\n",
            );
        }
    });
}

#[test]
fn a_process_with_threads_is_killed_as_any_other() {
    let script =
        "for n in 1 2 3 4; do ./endless & p=$!; sleep 0.2; kill -9 $p; wait $p; echo $?; done";
    prints("endless", script, &"137\n".repeat(4));
}

/// Such a write can't be held: it does not happen before its guesses are decided.
#[test]
fn what_is_written_to_the_end_of_memory_and_beyond_comes_out_once() {
    let mut wanted: String = (0..60)
        .map(|round| format!("{:.<4095}\n", format!("round {round} here")))
        .collect();
    wanted.push_str("0 missing\n");
    prints("brink", "./brink", &wanted);
}

/// What the kernel says to lengths that it does not take is said after the guesses are decided.
#[test]
fn more_room_than_there_can_be_is_refused_as_ever() {
    prints("rooms", "./rooms", &"-14 -22 8\n".repeat(60));
}
