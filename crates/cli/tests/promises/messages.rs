//! What a command asks the view, and who answers.

use serde_json::Value;
use surmise_linux::abilities::kernel_version;
use surmise_testkit::skip;

use crate::setting::{Setting, as_each_user};

/// How many, by what they ask for.
pub type Messages = serde_json::Map<String, Value>;

/// Asks for so many names, one after the other, of which the kernel knows none.
const ASKS: &str = "
import os, sys
for number in range(int(sys.argv[1])):
    try:
        os.lstat(f'absent-{number}')
    except FileNotFoundError:
        pass
";

/// How many messages a command sends to the view.
pub fn messages(setting: &Setting, options: &[&str], command: &[&str]) -> Messages {
    match told(setting, options, command)["messages"].take() {
        Value::Object(messages) => messages,
        other => panic!("{other}"),
    }
}

/// What `surmise run --json` tells of a command, whose domain is aborted.
fn told(setting: &Setting, options: &[&str], command: &[&str]) -> Value {
    let arguments = [&["run", "--json"], options, &["--"], command].concat();
    let told = setting.succeed(&arguments);
    let line = told.stderr.lines().last().expect("a result");
    let result: Value = serde_json::from_str(line).expect("a line of JSON");
    let name = result["name"].as_str().expect("a name").to_owned();
    if result["state"] == "kept" {
        setting.succeed(&["abort", &name]);
    }
    result
}

fn sum(messages: &Messages) -> u64 {
    messages
        .values()
        .map(|count| count.as_u64().expect("a count"))
        .sum()
}

/// What `--stats` and `--json` tell. The bounds are a third above what was counted, since compilers and libraries differ.
#[test]
fn ordinary_work_sends_few_messages() {
    const SCRIPT: &str =
        "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i | sed s/1/2/ | sort > out; done; rm out";
    as_each_user(|setting| {
        let bounds = [(&["true"][..], 45, 32), (&["sh", "-c", SCRIPT], 1400, 280)];
        for (command, root, user) in bounds {
            let bound = if setting.is_root() { root } else { user };
            let messages = messages(setting, &[], command);
            assert!(sum(&messages) <= bound, "{command:?}: {messages:?}");
        }
        let told = setting.succeed(&["run", "--stats", "--", "true"]);
        told.assert_stderr_contains("messages to the view");
        told.assert_stderr_contains("LOOKUP");
    });
}

/// One answered on the caller's processor takes less. While others want the processors, the view may answer none so; each run
/// is another try.
#[test]
fn a_serial_command_is_answered_on_its_own_processor() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return skip("there is one processor");
    }
    as_each_user(|setting| {
        if !setting.is_root() && kernel_version() < (6, 2) {
            return skip("before Linux 6.2 the device is not cloned from another user namespace");
        }
        let beside = |command: &[&str]| {
            let told = told(setting, &[], command);
            told["messages_beside"].as_u64().expect("a count")
        };
        assert_eq!(beside(&["true"]), 0, "too few to make a thread for");
        assert!((0..20).any(|_| beside(&["python3", "-c", ASKS, "5000"]) > 0));
    });
}
