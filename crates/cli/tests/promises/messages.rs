//! What a command asks the view, and who answers.

use std::fs;

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

/// In a task of its own for each argument: lists directories, and the directory in each (`names`); looks at the files of each,
/// too (`look`); or does the one and then the other (`names,look`). Nothing is known of a new task; the start of Python
/// is over by then.
const LISTS: &str = "
import os, sys
for turns in sys.argv[1:]:
    if os.fork() > 0:
        os.wait()
        continue
    for turn in turns.split(','):
        for number, directory in enumerate(sorted(os.listdir('.'))):
            for name in os.listdir(directory) + os.listdir(f'{directory}/below'):
                if turn == 'look' and (number > 0 or turns == 'look'):
                    os.lstat(f'{directory}/{name}')
    os._exit(0)
";

/// Makes a file that it can read and write, and looks at the closed file so many times.
const WRITES: &str = "
import os, sys
with open('made', 'w+b', buffering=0) as file:
    for part in range(500):
        file.write(b'some bytes')
for look in range(int(sys.argv[1])):
    os.stat('made')
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
        let bounds = [(&["true"][..], 45, 32), (&["sh", "-c", SCRIPT], 1400, 120)];
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

/// A listing that tells attributes costs several times what it costs with names alone; one that tells none costs a look-up
/// of each name that is looked at.
#[test]
fn a_listing_tells_attributes_where_they_are_used() {
    const DIRECTORIES: u64 = 20;
    const FILES: u64 = 20;
    as_each_user(|setting| {
        let make = format!(
            "for d in $(seq {DIRECTORIES}); do mkdir -p d$d/below; (cd d$d; touch $(seq {FILES})); done"
        );
        let made = setting.plain(&["sh", "-ec", &make]).outcome();
        made.assert_success();
        let lists = |turns: &[&str]| {
            let messages = messages(setting, &[], &[&["python3", "-c", LISTS], turns].concat());
            messages["LOOKUP"].as_u64().expect("a count")
        };
        let start = lists(&[]);
        let beyond = |turns: &[&str]| lists(turns).saturating_sub(start);
        // Python's start does not take the same number each time.
        let most = 4 * FILES;
        let looks = beyond(&["look"]);
        assert!(looks <= most, "{looks} look-ups of listed files");
        let names = beyond(&["names"]);
        assert!(
            names <= DIRECTORIES / 2,
            "{names} look-ups of listed directories"
        );
        // A quarter of one directory's files are looked up until the task is told of those of the next.
        let changed = beyond(&["names,look"]);
        assert!(
            changed >= FILES / 4,
            "{changed} look-ups: all files were told"
        );
        assert!(changed <= most, "{changed} look-ups");
        // The kernel remembers names without attributes; another task is told them.
        let of_another = beyond(&["names", "look"]);
        assert!(of_another <= most, "{of_another} look-ups");
    });
}

/// S30: root's writes send none, also through a descriptor that could be mapped. Once the file can be mapped no more, the kernel
/// remembers its attributes again.
#[test]
fn the_kernel_writes_for_root_by_itself() {
    const LOOKS: u64 = 200;
    as_each_user(|setting| {
        let is_whole =
            fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.contains("4294967295"));
        if !setting.is_root() || !is_whole || kernel_version() < (6, 9) {
            return skip("only the machine's root has files passed through, since Linux 6.9");
        }
        let counts = |looks: u64| {
            let looks = looks.to_string();
            let messages = messages(setting, &[], &["python3", "-c", WRITES, &looks]);
            ["WRITE", "GETATTR"].map(|kind| messages.get(kind).and_then(Value::as_u64).unwrap_or(0))
        };
        let [writes, attributes] = counts(0);
        assert!(writes < 50, "{writes} of 500");
        let more = counts(LOOKS)[1].saturating_sub(attributes);
        assert!(more < LOOKS / 4, "{more} questions for {LOOKS} looks");
    });
}
