//! What `surmise doctor` says of the kernel that it runs on.

use surmise_sys::behaviours::BEHAVIOURS;
use surmise_testkit::{Run, Scratch};

#[test]
fn the_json_has_every_behaviour_of_the_kernel_and_each_holds() {
    let scratch = Scratch::new();
    let outcome = Run::surmise(&scratch, ["doctor", "--json"]).outcome();
    outcome.assert_no_stderr();
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(report["speculates"], true, "{report:#}");
    let printed = report["behaviours"].as_array().unwrap();
    assert_eq!(printed.len(), BEHAVIOURS.len());
    for (printed, behaviour) in printed.iter().zip(BEHAVIOURS) {
        assert_eq!(printed["number"], behaviour.number);
        assert_eq!(printed["name"], behaviour.name);
        assert_eq!(printed["purpose"], behaviour.purpose);
        assert_eq!(printed["holds"], true);
        assert_eq!(printed["seen"], "");
    }
}

#[test]
fn the_text_has_a_line_for_every_behaviour() {
    let scratch = Scratch::new();
    let outcome = Run::surmise(&scratch, ["doctor"]).outcome();
    outcome.assert_no_stderr();
    let lines = outcome.lines();
    for behaviour in BEHAVIOURS {
        let found = lines.iter().find(|line| line.contains(behaviour.name));
        let line = found.unwrap_or_else(|| panic!("no line for {}", behaviour.number));
        assert!(line.contains("  yes  "), "{line}");
    }
}
