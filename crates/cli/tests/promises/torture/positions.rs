//! S31: processes that share open files read and write where the others have stopped, and go back with them.

use serde_json::Value;

use super::right::{decided_late, waits_in};
use super::{has, told, torture};
use crate::setting::{Setting, as_each_user};

const COMMAND: [&str; 2] = ["sh", "positions.sh"];
const LOG: [&str; 2] = ["sh", "log.sh"];

fn prepare(setting: &Setting) -> bool {
    let script = include_str!("positions.sh");
    setting.scratch.file("positions.sh", script);
    true
}

fn prepare_log(setting: &Setting) -> bool {
    setting.scratch.file("log.sh", include_str!("log.sh"));
    true
}

#[test]
fn processes_go_on_where_others_have_stopped() {
    torture("positions", &COMMAND, prepare);
}

#[test]
fn nothing_waits_for_a_position_that_others_have_too() {
    decided_late(&COMMAND, prepare);
    for name in ["write", "read"] {
        for (calls, waits) in waits_in(name, &COMMAND, prepare) {
            // Where the machine is busy, a thread may not come past its call in time.
            assert!(4 * waits < calls, "{name}: {waits} of {calls} wait");
        }
    }
}

#[test]
fn processes_append_to_one_file_and_no_line_is_lost() {
    torture("log", &LOG, prepare_log);
    decided_late(&LOG, prepare_log);
}

/// To the kernel the log would be longer than it is, and the next append would leave a hole.
#[test]
fn who_appends_learns_where_a_file_ends_that_has_gone_back() {
    as_each_user(|setting| {
        setting.scratch.file("log.pl", include_str!("log.pl"));
        if !has("perl") {
            return;
        }
        let wanted: String = (1..=20).map(|line| format!("line {line}\n")).collect();
        let mut lines_undone = 0;
        for _ in 0..3 {
            let mut arguments = vec!["run", "--dry-run", "--predict-right", "0.9:30ms:0.4"];
            arguments.extend(["--stats", "--json", "--", "perl", "log.pl"]);
            let got = setting.surmise(&arguments).outcome();
            got.assert_code(0).assert_stdout(&wanted);
            let undone = &told(&got.stderr)["speculation"]["undone"]["changed file"];
            lines_undone += undone.as_u64().unwrap_or(0);
        }
        // In a single run each line may happen to be right.
        assert!(lines_undone > 0, "no line was undone");
    });
}

/// How long calls have waited because of changed files.
fn waits_for_changes(setting: &Setting, command: &[&str]) -> Value {
    let mut arguments = vec!["run", "--dry-run", "--predict-right", "1:30ms"];
    arguments.extend(["--stats", "--json", "--"]);
    arguments.extend(command);
    let got = setting.surmise(&arguments).outcome();
    got.assert_code(0);
    told(&got.stderr)["speculation"]["waits"]["changed file"].clone()
}

#[test]
fn nobody_waits_to_write_to_a_file_that_others_have_open() {
    as_each_user(|setting| {
        prepare_log(setting);
        let waits = waits_for_changes(setting, &LOG);
        assert!(waits["count"].as_u64().unwrap_or(0) < 3, "{waits}");
    });
}

/// The others might have the log mapped, so each cut waits in the view.
#[test]
fn what_waits_in_the_view_is_told() {
    as_each_user(|setting| {
        setting.scratch.file("cut.sh", include_str!("cut.sh"));
        let waits = waits_for_changes(setting, &["sh", "cut.sh"]);
        assert!(waits["count"].as_u64() > Some(0), "{waits}");
        assert!(waits["time_us"].as_u64() > Some(0), "{waits}");
    });
}

/// The last guesses are denied when pid 1 has ended already, which looked how long files are.
#[test]
fn a_domain_ends_well_whose_last_processes_had_to_be_killed() {
    const SCRIPT: &str = "exec 3>>log
        append() { trap '' TERM; while :; do test -e missing; echo $1 >&3; done; }
        append one & append two & append three &
        sleep 0.3";
    as_each_user(|setting| {
        for _ in 0..3 {
            let mut arguments = vec!["run", "--dry-run", "--predict-right", "0.7:5ms:0.5"];
            arguments.extend(["--", "sh", "-c", SCRIPT]);
            setting.surmise(&arguments).outcome().assert_code(0);
        }
    });
}
