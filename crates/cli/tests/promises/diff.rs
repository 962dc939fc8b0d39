//! S4: the list of changes, and the patch.

use std::fs;

use surmise_testkit::{Facets, Scratch, TreeSnapshot, assert_same_tree};

use crate::setting::as_each_user;

/// S4.
#[test]
fn the_example_is_listed_in_the_order_in_which_it_happened() {
    as_each_user(|setting| {
        setting
            .scratch
            .file("b", "b")
            .file("c", "c")
            .file("big", "y");
        setting.run_script("echo new > a; rm b; mkdir -p d/e; mv c d/c; printf x >> big");
        setting.succeed(&["diff", "t"]).assert_lines(&[
            "A a",
            "D b",
            "A d/",
            "A d/e/",
            "R c -> d/c",
            "M big",
        ]);
        setting
            .succeed(&["diff", "t", "d"])
            .assert_lines(&["A d/", "A d/e/", "R c -> d/c"]);
        setting.succeed(&["abort", "t"]);
    });
}

/// S4.
#[test]
fn what_is_as_before_is_not_listed() {
    as_each_user(|setting| {
        setting
            .scratch
            .file("kept", "k")
            .file("moved", "m")
            .directory("sub");
        setting.run_script(
            "echo > tmp; rm tmp; mv moved elsewhere; mv elsewhere moved; cat kept; \
             echo x > sub/t; rm sub/t; exec 3<>kept; mkdir gone; rmdir gone; echo > added",
        );
        setting.succeed(&["diff", "t"]).assert_lines(&["A added"]);
    });
}

/// S4.
#[test]
fn kinds_of_change_are_told_apart() {
    as_each_user(|setting| {
        setting
            .scratch
            .file("mode", "")
            .file("type", "")
            .file("replaced", "old");
        setting
            .scratch
            .file("dir/leaf", "")
            .file("both", "text")
            .file("linked", "l");
        setting.run_script(
            "chmod 700 mode; rm type; ln -s x type; echo new > n; mv n replaced; mv dir folder; \
             mv both renamed; echo more >> renamed; ln linked second; rm folder/leaf",
        );
        setting.succeed(&["diff", "t"]).assert_lines(&[
            "M mode",
            "T type",
            "M replaced",
            "R dir/ -> folder/",
            "R both -> renamed",
            "M renamed",
            "A second",
            "D folder/leaf",
        ]);
    });
}

/// S4: paths outside the current directory are absolute.
#[test]
fn paths_are_relative_below_the_current_directory_only() {
    as_each_user(|setting| {
        setting.scratch.directory("here").file("above", "");
        setting.run_script("echo > here/file; echo > beside; rm above");
        let work = setting.scratch.work();
        setting
            .surmise(&["diff", "t"])
            .directory("here")
            .outcome()
            .assert_lines(&[
                "A file",
                &format!("A {}/beside", work.display()),
                &format!("D {}/above", work.display()),
            ]);
    });
}

/// S4.
#[test]
fn a_patch_applied_by_git_gives_the_same_files() {
    as_each_user(|setting| {
        let plant = |scratch: &Scratch| {
            scratch
                .file("text", "one\ntwo\nthree\n")
                .file("gone", "bye\n")
                .file("moved", "m\n");
            scratch
                .file("binary", [0, 1, 2, 255])
                .file("tail", "no newline")
                .file("sub/x", "x\n");
        };
        plant(&setting.scratch);
        let twin = setting.twin();
        plant(&twin.scratch);
        setting.run_script(
            "sed -i s/two/2/ text; rm gone; mv moved sub/moved; echo >> sub/moved; \
             printf '\\000\\001\\377' > binary; printf 'still none' > tail; echo new > added; \
             chmod 755 sub/x; ln -s text link; head -c 100000 /dev/zero > zeros; : > empty",
        );
        let patch = setting.succeed(&["diff", "t", "-p"]).stdout;
        setting.succeed(&["commit", "t"]);
        fs::write(twin.scratch.root().join("patch"), patch).expect("write the patch");
        twin.plain(&["git", "apply", "../patch"])
            .outcome()
            .assert_success();
        assert_same_tree(
            &TreeSnapshot::of(setting.scratch.work()),
            &TreeSnapshot::of(twin.scratch.work()),
            Facets::SAME_RESULT,
        );
    });
}
