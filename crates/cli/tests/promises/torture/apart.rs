//! S31: processes that touch different files are rolled back apart, and what one puts out does not wait for what another was
//! guessed.

use std::cell::Cell;

use serde_json::Value;
use surmise_testkit::{Facets, TreeSnapshot, assert_same_tree, tell};

use super::{compile, told};
use crate::setting::{Setting, as_each_user};

/// Each makes and removes names in the directory in which the others do, the bearer of the others, too. A change of a
/// directory commutes with others.
#[test]
fn two_that_make_files_in_one_directory_are_rolled_back_one_by_one() {
    let undone = Cell::new(0);
    apart("makers", |speculation| {
        undone.set(undone.get() + of_kind(speculation, "undone", "changed file"));
        assert!(count(speculation, "rollbacks") > 0, "{speculation}");
        assert_eq!(speculation["cascades"], 0, "{speculation}");
    });
    assert!(undone.get() > 0, "no change was undone");
}

/// As the third figure of the paper on Speculator has it: one process makes an inode, another one sees the inode, and goes back
/// with the first. A third process writes to a file beside, and its output is held for nobody.
#[test]
fn one_that_sees_what_another_has_made_is_rolled_back_with_it_and_a_third_is_not() {
    let cascades = Cell::new(0);
    apart("seen", |speculation| {
        cascades.set(cascades.get() + speculation["cascades"].as_u64().expect("a number"));
        assert_eq!(of_kind(speculation, "objects", "stream"), 0);
    });
    assert!(cascades.get() > 0, "nothing was rolled back together");
}

#[test]
fn output_leaves_at_once_while_what_another_has_changed_is_undecided() {
    apart("one", |speculation| {
        assert!(of_kind(speculation, "objects", "changed file") > 0);
        assert_eq!(of_kind(speculation, "objects", "stream"), 0);
        assert_eq!(speculation["cascades"], 0, "{speculation}");
    });
}

fn count(speculation: &Value, what: &str) -> u64 {
    speculation[what]["count"].as_u64().expect("a number")
}

/// How many acts on objects of a kind there were, or how many were undone: writes to streams are those that were held.
fn of_kind(speculation: &Value, what: &str, kind: &str) -> u64 {
    speculation[what][kind].as_u64().unwrap_or(0)
}

/// Runs the program plainly, and then with calls about files guessed, some of them wrong: it leaves the same files.
fn apart(mode: &str, check: impl Fn(&Value)) {
    as_each_user(|setting| {
        let prepare = |setting: &Setting| compile(setting, "apart.c", &["gcc", "-O1"]);
        let plain = setting.twin();
        prepare(&plain);
        let command = ["./apart", mode];
        let wanted = plain.plain(&command).outcome();
        wanted.assert_success();
        let tree = TreeSnapshot::of(plain.scratch.work());
        for guesses in ["1:5ms:0.1", "0.5:30ms:0.3", "0.3:30ms:0.5"] {
            let place = setting.twin();
            prepare(&place);
            let mut arguments = vec!["run", "--name", "t", "--predict-right", guesses];
            arguments.extend(["--stats", "--json", "--"]);
            arguments.extend(command);
            let got = place.surmise(&arguments).outcome();
            got.assert_code(wanted.code).assert_stdout(&wanted.stdout);
            let speculation = &told(&got.stderr)["speculation"];
            tell(format_args!(
                "{mode}: {} rollbacks, {} cascades",
                count(speculation, "rollbacks"),
                speculation["cascades"]
            ));
            check(speculation);
            let _ = place.surmise(&["commit", "t"]).outcome();
            let left = TreeSnapshot::of(place.scratch.work());
            assert_same_tree(&tree, &left, Facets::SAME_RESULT);
        }
    });
}
