//! S31: processes that touch different files are rolled back apart, and what one puts out does not wait for what another was
//! guessed.

use serde_json::Value;
use surmise_testkit::tell;

use super::{has, told};
use crate::setting::as_each_user;

/// Each makes and removes names in the directory in which the others do, the bearer of the others, too. A change of a
/// directory commutes with others.
#[test]
fn two_that_make_files_in_one_directory_are_rolled_back_one_by_one() {
    apart("makers", |speculation| {
        let rollbacks = speculation["rollbacks"]["count"].as_u64();
        assert!(rollbacks > Some(0), "{speculation}");
        assert!(speculation["undone"]["changed file"].as_u64() > Some(0));
        assert_eq!(speculation["cascades"].as_u64(), Some(0), "{speculation}");
    });
}

/// The first process of the third figure of the paper on Speculator makes an inode, and the second sees it. The third sees nothing
/// of that: its output is held for nobody.
#[test]
fn one_that_sees_what_another_has_made_is_rolled_back_with_it_and_a_third_is_not() {
    apart("seen", |speculation| {
        assert!(speculation["cascades"].as_u64() > Some(0), "{speculation}");
        assert_eq!(held(speculation), 0, "{speculation}");
    });
}

#[test]
fn output_leaves_at_once_while_what_another_has_changed_is_undecided() {
    apart("one", |speculation| {
        assert!(speculation["objects"]["changed file"].as_u64() > Some(0));
        assert_eq!(held(speculation), 0, "{speculation}");
        assert_eq!(speculation["cascades"].as_u64(), Some(0), "{speculation}");
    });
}

/// How many writes to the domain's streams were held.
fn held(speculation: &Value) -> u64 {
    speculation["objects"]["stream"].as_u64().unwrap_or(0)
}

/// Runs the program plainly, and then with calls about files guessed, some of them wrong.
fn apart(mode: &str, check: impl Fn(&Value)) {
    as_each_user(|setting| {
        if !has("python3") {
            return;
        }
        let plain = setting.twin();
        let command = ["python3", "apart.py", mode];
        for setting in [&plain, setting] {
            let program = include_str!("apart.py");
            setting.scratch.file("apart.py", program);
        }
        let wanted = plain.plain(&command).outcome();
        wanted.assert_success();
        for guesses in ["1:5ms:0.1", "0.5:30ms:0.3"] {
            let mut arguments = vec!["run", "--dry-run", "--predict-right", guesses];
            arguments.extend(["--stats", "--json", "--"]);
            arguments.extend(command);
            let got = setting.surmise(&arguments).outcome();
            got.assert_code(wanted.code).assert_stdout(&wanted.stdout);
            let speculation = &told(&got.stderr)["speculation"];
            let count = |what: &str| speculation[what]["count"].as_u64();
            tell(format_args!(
                "{mode}: {:?} rollbacks, {} cascades",
                count("rollbacks"),
                speculation["cascades"]
            ));
            check(speculation);
        }
    });
}
