//! S18: every known way out of a domain, tried with real targets outside.

use std::fs;

use surmise_testkit::{Outcome, copied_binary};

use crate::setting::{Setting, as_each_user};

/// The targets, and what became of them.
const OUTSIDE: &str = include_str!("boundary_table/outside.py");

/// The attempts, as `NAME: VERDICT` each.
const PROBE: &str = include_str!("boundary_table/probe.py");

/// The attempts on processes and the machine.
const MACHINE: &str = include_str!("boundary_table/machine.py");

/// Fewer rows would mean that the table was cut short.
const ROWS_MIN: usize = 230;

/// S18.
#[test]
fn nothing_outside_is_reached_by_any_way_of_the_table() {
    as_each_user(|setting| {
        let copy = copied_binary(&setting.scratch);
        let copy = copy.to_str().expect("Unicode");
        // With a gate in the network, which nobody but this host passes: on a terminal a person would be
        // asked, and nobody is there.
        let run = [
            copy,
            "run",
            "--dry-run",
            "--net",
            "deny",
            "--allow-net",
            "192.0.2.9",
        ];
        let run = [&run[..], &["--", "/usr/bin/python3"]].concat();
        for streams in ["files", "terminal"] {
            let outcome = outside(setting, streams, &run);
            let lines = outcome.lines();
            let reached: Vec<&&str> = lines
                .iter()
                .filter(|line| line.contains(": reaches") || line.ends_with(": touched"))
                .collect();
            assert!(reached.is_empty(), "{reached:#?}\n{}", outcome.stdout);
            outcome.assert_stdout_contains("\nstatus 0\n");
            let kept = |line: &&&str| line.contains(": refused ") || line.ends_with(": contained");
            let rows = lines.iter().filter(kept).count();
            assert!(rows >= ROWS_MIN, "{rows} rows:\n{}", outcome.stdout);
        }
    });
}

/// The attempts of the table that harm nobody do reach their targets where there is no domain, and
/// that is noticed: else the test above would show nothing.
#[test]
fn without_a_domain_the_targets_are_reached() {
    as_each_user(|setting| {
        let plain = ["env", "PLAIN=1", "/usr/bin/python3"];
        let outcome = outside(setting, "files", &plain);
        let (tried, after): (Vec<&str>, Vec<&str>) = outcome
            .lines()
            .into_iter()
            .filter(|line| line.contains(": "))
            .partition(|line| !line.starts_with("outside "));
        assert!(tried.len() >= 20, "{tried:#?}");
        assert!(
            tried.iter().all(|line| line.ends_with(": reaches")),
            "{tried:#?}"
        );
        let touched = after.iter().filter(|line| line.ends_with(": touched"));
        assert!(touched.count() >= 14, "{after:#?}");
    });
}

/// Runs the probe by `command`, with standard streams that are files or a terminal.
fn outside(setting: &Setting, streams: &str, command: &[&str]) -> Outcome {
    let place = setting.scratch.root();
    for (name, text) in [
        ("outside.py", OUTSIDE),
        ("probe.py", PROBE),
        ("machine.py", MACHINE),
    ] {
        fs::write(place.join(name), text).expect("write the program");
    }
    setting.scratch.directory(streams);
    let at = |name: &str| place.join(name).to_str().expect("Unicode").to_owned();
    let (outside, probe) = (at("outside.py"), at("probe.py"));
    let mut words = vec!["/usr/bin/python3", &outside, streams, &probe];
    words.extend(command);
    let outcome = setting
        .plain(&words)
        .directory(streams)
        .seconds(120)
        .outcome();
    outcome.assert_success();
    outcome
}
