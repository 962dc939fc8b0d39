//! S31: processes that share open files read and write where the others have stopped, and go back with them.

use super::right::{decided_late, waits_in};
use super::torture;
use crate::setting::Setting;

const COMMAND: [&str; 2] = ["sh", "positions.sh"];

fn prepare(setting: &Setting) -> bool {
    let script = include_str!("positions.sh");
    setting.scratch.file("positions.sh", script);
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
