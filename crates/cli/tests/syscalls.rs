//! `surmise syscalls` is the table of surmise-syscalls, row for row.

use surmise_testkit::{Run, Scratch};

#[test]
fn the_json_has_every_row_of_the_table() {
    let scratch = Scratch::new();
    let outcome = Run::surmise(&scratch, ["syscalls", "--json"]).outcome();
    outcome.assert_success().assert_no_stderr();
    let printed: Vec<serde_json::Value> = serde_json::from_str(&outcome.stdout).unwrap();
    let rows: Vec<_> = surmise_syscalls::rows().collect();
    assert_eq!(printed.len(), rows.len());
    for (printed, row) in printed.iter().zip(rows) {
        assert_eq!(printed["number"], row.number());
        assert_eq!(printed["name"], row.name().as_str());
        assert_eq!(printed["reason"], row.reason());
        assert_eq!(
            printed["exceptions"].as_array().unwrap().len(),
            row.exceptions().len()
        );
    }
}

#[test]
fn the_text_has_the_same_cells() {
    let scratch = Scratch::new();
    let outcome = Run::surmise(&scratch, ["syscalls"]).outcome();
    outcome.assert_success();
    let lines = outcome.lines();
    assert!(lines[0].starts_with("NR"));
    let mount = lines.iter().find(|line| line.contains(" mount ")).unwrap();
    for cell in ["165", "Refuse(EPERM)", "Wait"] {
        assert!(mount.contains(cell), "{cell} in {mount}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let scratch = Scratch::new();
    let surmise = surmise_testkit::surmise_binary().display();
    let script = format!("{surmise} syscalls | head -n 1; exit ${{PIPESTATUS[0]}}");
    Run::plain(&scratch, ["bash", "-c", &script])
        .outcome()
        .assert_success()
        .assert_no_stderr();
}
