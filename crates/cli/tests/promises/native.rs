//! S54: directories of the system that a domain has as they are.

use serde_json::Value;
use surmise_testkit::{Facets, TreeSnapshot, assert_same_tree};

use crate::setting::{Setting, as_each_user};

/// Tries every call that changes names, contents or attributes, in whatever way a path can be told, and says what each
/// came to.
const CHANGES: &str = include_str!("native.py");

const MOUNTS: &str = "grep -c ' /usr/bin ro' /proc/self/mountinfo || :";

fn lines(outcome: &surmise_testkit::Outcome) -> Vec<String> {
    outcome.stdout.lines().map(str::to_owned).collect()
}

/// How many messages a command sends to the view, by what they ask for.
fn messages(
    setting: &Setting,
    options: &[&str],
    command: &[&str],
) -> serde_json::Map<String, Value> {
    let arguments = [&["run", "--json"], options, &["--"], command].concat();
    let told = setting.succeed(&arguments);
    let line = told.stderr.lines().last().expect("a result");
    let mut result: Value = serde_json::from_str(line).expect("a line of JSON");
    let name = result["name"].as_str().expect("a name").to_owned();
    if result["state"] == "kept" {
        setting.succeed(&["abort", &name]);
    }
    match result["messages"].take() {
        Value::Object(messages) => messages,
        other => panic!("{other}"),
    }
}

fn sum(messages: &serde_json::Map<String, Value>) -> u64 {
    messages
        .values()
        .map(|count| count.as_u64().expect("a count"))
        .sum()
}

/// S54.
#[test]
fn who_can_change_a_directory_has_it_served_and_nobody_else() {
    as_each_user(|setting| {
        let mounted = |options: &[&str]| {
            let arguments = [&["run", "--dry-run"], options, &["--", "sh", "-c", MOUNTS]].concat();
            lines(&setting.succeed(&arguments))
        };
        let expected = if setting.is_root() { "0" } else { "1" };
        assert_eq!(mounted(&[]), [expected]);
        assert_eq!(mounted(&["--no-native"]), ["0"]);
        assert_eq!(mounted(&["--torture", "7:0.001"]), ["0"]);
    });
}

/// S54: a domain is entered as it was made.
#[test]
fn a_kept_domain_has_the_trees_that_it_was_made_with() {
    as_each_user(|setting| {
        for (options, native) in [(&[][..], !setting.is_root()), (&["--no-native"], false)] {
            let script = "echo > made";
            let arguments = [
                &["run", "--name", "t"],
                options,
                &["--", "sh", "-c", script],
            ]
            .concat();
            setting.succeed(&arguments);
            let inside = setting.succeed(&["shell", "t", "--", "sh", "-c", MOUNTS]);
            assert_eq!(
                lines(&inside),
                [if native { "1" } else { "0" }],
                "{options:?}"
            );
            setting.succeed(&["abort", "t"]);
        }
    });
}

/// S54: by path, by directory, through links and /proc, from threads.
#[test]
fn nothing_below_a_native_tree_is_changed() {
    as_each_user(|setting| {
        if setting.is_root() {
            // Root has none.
            return;
        }
        let program = setting.scratch.root().join("native.py");
        std::fs::write(&program, CHANGES).expect("write the program");
        let program = program.to_str().expect("Unicode");
        let tree = std::path::Path::new("/usr/include");
        let before = TreeSnapshot::of(tree);
        let tried = setting.succeed(&["run", "--dry-run", "--", "python3", program]);
        assert_same_tree(&before, &TreeSnapshot::of(tree), Facets::EXACT);
        let told = lines(&tried);
        assert!(
            told.len() > 100,
            "few changes were tried:\n{}",
            tried.stdout
        );
        for line in told {
            let is_refused = ["EROFS", "EACCES", "EPERM"]
                .iter()
                .any(|errno| line.ends_with(errno));
            assert!(is_refused, "{line}");
        }
    });
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

/// S54: what is executed there is read from the machine's own pages.
#[test]
fn programs_of_the_system_are_read_without_a_message() {
    as_each_user(|setting| {
        let native = messages(setting, &[], &["/usr/bin/env", "true"]);
        let served = messages(setting, &["--no-native"], &["/usr/bin/env", "true"]);
        let opens = |messages: &serde_json::Map<String, Value>| {
            messages
                .get("OPEN")
                .map_or(0, |count| count.as_u64().expect("a count"))
        };
        match setting.is_root() {
            true => assert_eq!(opens(&native), opens(&served)),
            false => {
                assert!(!native.contains_key("READ"), "{native:?}");
                assert!(opens(&native) < opens(&served), "{native:?}, {served:?}");
            }
        }
    });
}
