//! S17, S21, S22: what a command puts out, when it appears, and where it goes.

mod prompts;
mod sent;
mod streams;
mod unsent;

use std::path::PathBuf;

use surmise_testkit::{Run, copied_binary};

use crate::setting::Setting;

/// A shell script outside in which `surmise` is the built command.
fn shell<'a>(setting: &'a Setting, script: &str) -> Run<'a> {
    let binary = copied_binary(&setting.scratch);
    let binary = binary.to_str().expect("Unicode");
    let script = format!("surmise() {{ \"$BINARY\" \"$@\"; }}\n{script}");
    setting.plain(&["sh", "-ec", &script]).env("BINARY", binary)
}

fn read(setting: &Setting, name: &str) -> String {
    std::fs::read_to_string(path(setting, name)).expect("read a file of the test")
}

fn path(setting: &Setting, name: &str) -> PathBuf {
    setting.scratch.path(name)
}
