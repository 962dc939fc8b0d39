//! S31: signals that speculating processes send.

use super::right::waits_in;
use super::undone::prints;
use super::{compile, has, torture};
use crate::setting::Setting;

/// Each is taken once, from the one who has sent it, whatever the receiver is doing.
#[test]
fn a_signal_that_was_sent_is_taken_once_or_was_never_sent() {
    prints("kicks", "./kicks", "kicks ok\n");
}

#[test]
fn a_script_and_its_subshells_send_each_other_signals() {
    torture("signals sent by sh", &["sh", "sent.sh"], |setting| {
        setting.scratch.file("sent.sh", include_str!("sent.sh"));
        true
    });
    torture("signals sent by bash", &["bash", "sent.sh"], |setting| {
        setting.scratch.file("sent.sh", include_str!("sent.sh"));
        has("bash")
    });
}

#[test]
fn a_python_program_and_its_children_send_each_other_signals() {
    torture(
        "signals sent by python",
        &["python3", "sent.py"],
        |setting| {
            setting.scratch.file("sent.py", include_str!("sent.py"));
            has("python3")
        },
    );
}

#[test]
fn a_signal_is_sent_before_all_is_decided() {
    let prepare = |setting: &Setting| {
        compile(setting, "kicks.c", &["gcc", "-O1"]);
        true
    };
    for name in ["kill", "tgkill"] {
        for (calls, waits) in waits_in(name, &["./kicks"], prepare) {
            // The receiver may be about to take another one, or wait for a decision itself.
            assert!(2 * waits < calls, "{waits} of {calls} calls of {name} wait");
        }
    }
}
