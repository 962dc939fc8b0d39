//! S31: nobody waits for somebody who waits for them. Cycles of waits that were foreseen are provoked, under the watchdog.

use surmise_testkit::tell;

use super::asks::count;
use super::{compile, told};
use crate::setting::{Setting, as_each_user};

/// Wrong ones of all kinds, and those that nobody can hurry: right ones, and some that are wrong.
const GUESSES: [[&str; 2]; 4] = [
    ["--torture", "3:0.1"],
    ["--torture", "4:0.3"],
    ["--predict-right", "1:30ms"],
    ["--predict-right", "1:30ms:0.3"],
];

/// Who reads such memory for the supervisor waits for the view, which waits for nobody.
#[test]
fn memory_that_the_view_has_to_be_asked_for_holds_nobody_up() {
    let output = "out ".repeat(40);
    get_on("faults", &format!("{output}\nfaults ok\n"), |setting| {
        let made = setting.plain(&["./faults", "make"]).outcome();
        made.assert_success();
    });
}

/// The exit is not certain before its decision, and gives back nothing before it has happened.
#[test]
fn a_parent_that_waits_for_what_an_exit_gives_back_gets_it() {
    let kinds = ["pipe", "connection", "terminal", "fifo", "flock", "record"];
    let wanted: String = kinds.iter().map(|kind| format!("{kind} ok\n")).collect();
    get_on("keeps", &wanted, |_| ());
}

/// Runs a program of tests/tracees with guesses of each kind, some of which go wrong.
fn get_on(name: &str, wanted: &str, prepare: impl Fn(&Setting)) {
    as_each_user(|setting| {
        compile(setting, &format!("{name}.c"), &["gcc", "-O1"]);
        prepare(setting);
        let program = format!("./{name}");
        let mut rollbacks = 0;
        for guesses in GUESSES {
            let mut arguments = [&["run", "--dry-run"], &guesses[..]].concat();
            arguments.extend(["--stats", "--json", "--", &program]);
            let got = setting.surmise(&arguments).outcome();
            got.assert_code(0).assert_stdout(wanted);
            let speculation = &told(&got.stderr)["speculation"];
            let predictions = count(&speculation["predictions"]);
            assert!(predictions > 0, "{guesses:?}: {speculation}");
            rollbacks += count(&speculation["rollbacks"]["count"]);
        }
        tell(format_args!("{name}: {rollbacks} rollbacks"));
        assert!(rollbacks > 0, "{name}: nothing was undone");
    });
}
