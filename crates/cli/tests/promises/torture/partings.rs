//! S31: a signal interrupts no call for its handler's sake that it would not interrupt outside: neither the end of a child nor
//! what else has a handler without `SA_RESTART`.

use super::right::{decided_late, late};
use super::{compile, has, torture};
use crate::setting::Setting;

/// The shell catches the signal, and makes the next process while an earlier one ends.
const PIPELINES: &str = "
for n in 1 2 3 4 5 6 7 8; do echo a b c | tr a-c A-C | cat; done
for n in 1 2 3 4; do (exit $n) & (exit 3); x=$(echo $n); echo $x $?; wait; done
";

#[test]
fn a_shell_makes_its_pipelines() {
    let command = ["dash", "-c", PIPELINES];
    torture("pipelines", &command, |_| has("dash"));
    late(&command, |_| has("dash"));
}

#[test]
fn calls_that_no_signal_interrupts_are_not_interrupted() {
    let command = ["./partings", "8"];
    torture("partings", &command, checking);
    decided_late(&command, checking);
}

#[test]
fn handlers_interrupt_no_call_that_nothing_interrupts() {
    let command = ["./interrupts", "5"];
    let prepare = |setting: &Setting| {
        compile(setting, "interrupts.c", &["gcc", "-O1", "-pthread"]);
        true
    };
    torture("interrupts", &command, prepare);
    decided_late(&command, prepare);
}

fn checking(setting: &Setting) -> bool {
    compile(setting, "partings.c", &["gcc", "-O1"]);
    true
}
