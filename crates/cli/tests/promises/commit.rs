//! S5: conflicts are found before anything changes.

use std::fs;

use surmise_testkit::{Facets, TreeSnapshot, assert_same_tree, watchdog};

use crate::setting::{Setting, as_each_user};

/// Runs `script` inside, then `outside` outside, and expects that the commit is refused with a word
/// on `path` and leaves everything as it is; the domain must still be there.
fn conflicts(script: &str, outside: &str, path: &str) {
    as_each_user(|setting| {
        setting
            .scratch
            .file("file", "old")
            .file("other", "o")
            .directory("dir");
        setting.run_script(script);
        setting
            .plain(&["sh", "-ec", outside])
            .outcome()
            .assert_success();
        let before = TreeSnapshot::of(setting.scratch.work());
        setting
            .surmise(&["commit", "t"])
            .outcome()
            .assert_code(1)
            .assert_stderr_contains("Error:")
            .assert_stderr_contains(path)
            .assert_stderr_contains("Hint:");
        let after = TreeSnapshot::of(setting.scratch.work());
        assert_same_tree(&before, &after, Facets::EXACT);
        setting.succeed(&["diff", "t"]);
        setting.succeed(&["abort", "t"]);
    });
}

/// S5.
#[test]
fn a_file_changed_on_both_sides_is_a_conflict() {
    conflicts(
        "echo inside > file; echo new > added",
        "echo outside > file",
        "file",
    );
}

/// S5: whatever somebody outside did to a file, and however the domain changed it.
#[test]
fn every_kind_of_change_meets_every_other() {
    for (inside, outside) in [
        ("chmod 600 file", "echo more >> file"),
        ("echo inside > file", "chmod 640 file"),
        ("mv file moved", "touch -d 2001-01-01 file"),
        ("mv other file", "mv file elsewhere; echo old > file"),
        ("touch -d 2001-01-01 file", "mv file elsewhere"),
        ("ln -s other link; rm file", "rm file; mkdir file"),
    ] {
        conflicts(inside, outside, "file");
    }
}

/// S5: a directory that the domain renamed is as it first was, or it is a conflict.
#[test]
fn a_renamed_directory_that_was_replaced_outside_is_a_conflict() {
    conflicts("mv dir moved", "mv dir elsewhere; mkdir dir", "dir");
}

/// S5: the state at the first use counts, also when that was a read.
#[test]
fn a_file_changed_outside_between_read_and_write_is_a_conflict() {
    as_each_user(|setting| {
        setting.scratch.file("file", "old").file("signal", "");
        // Pipes can't cross the boundary, so the command waits for a file to change outside.
        let script = "cat file > copy; echo > has-read; until grep -q go signal; do sleep 0.1; done; \
                      echo inside >> file";
        std::thread::scope(|scope| {
            let run = scope.spawn(|| setting.run_script(script));
            watchdog::until("the command reads", watchdog::LIMIT, || {
                let diff = setting.surmise(&["diff", "t"]).outcome();
                diff.stdout.contains("A has-read")
            });
            fs::write(setting.scratch.path("file"), "outside").expect("write outside");
            fs::write(setting.scratch.path("signal"), "go").expect("write outside");
            run.join().expect("the command ends");
        });
        setting
            .surmise(&["commit", "t"])
            .outcome()
            .assert_code(1)
            .assert_stderr_contains("file");
    });
}

/// S5.
#[test]
fn a_name_made_on_both_sides_is_a_conflict() {
    conflicts("echo inside > added", "echo outside > added", "added");
}

/// S5.
#[test]
fn a_file_removed_inside_and_changed_outside_is_a_conflict() {
    conflicts("rm file; echo > new", "echo more >> file", "file");
}

/// S5.
#[test]
fn a_file_changed_inside_and_removed_outside_is_a_conflict() {
    conflicts("echo more >> file", "rm file", "file");
}

/// S5.
#[test]
fn a_file_replaced_by_a_link_outside_is_a_conflict() {
    conflicts("echo more >> file", "rm file; ln -s other file", "file");
}

/// S5.
#[test]
fn a_directory_removed_inside_and_filled_outside_is_a_conflict() {
    conflicts("rmdir dir", "echo > dir/newcomer", "dir");
}

/// S5.
#[test]
fn a_directory_moved_away_outside_is_a_conflict() {
    conflicts("echo > dir/inside", "mv dir elsewhere", "dir");
}

/// S5: every conflict is told, not only the first.
#[test]
fn all_conflicts_are_listed() {
    as_each_user(|setting| {
        setting.scratch.file("one", "1").file("two", "2");
        setting.run_script("echo a > one; echo b > two; echo c > three");
        setting
            .plain(&["sh", "-c", "echo x > one; echo y > two; echo z > three"])
            .outcome()
            .assert_success();
        let refused = setting.surmise(&["commit", "t"]).outcome();
        refused.assert_code(1);
        for path in ["one", "two", "three"] {
            refused.assert_stderr_contains(path);
        }
    });
}

/// S5: without a right to write, nothing is half done.
#[test]
fn a_target_that_may_not_be_written_is_refused_whole() {
    as_each_user(|setting| {
        let Some(user) = setting.ordinary_user() else {
            return;
        };
        // Root's file in the user's directory may be renamed away, but root's directory is closed.
        setting.scratch.file("mine", "m").directory("closed");
        let closed = setting.scratch.path("closed");
        setting.run_script("echo new > mine; echo new > closed/file");
        std::os::unix::fs::chown(&closed, Some(0), Some(0)).expect("chown");
        let before = TreeSnapshot::of(setting.scratch.work());
        setting
            .surmise(&["commit", "t"])
            .outcome()
            .assert_code(1)
            .assert_stderr_contains("closed");
        assert_same_tree(
            &before,
            &TreeSnapshot::of(setting.scratch.work()),
            Facets::EXACT,
        );
        std::os::unix::fs::chown(&closed, Some(user.uid), Some(user.gid)).expect("chown");
    });
}

/// S20: what was committed is what the command wrote, whole.
#[test]
fn a_domain_entered_again_is_committed_with_all_its_runs() {
    as_each_user(|setting| {
        setting.run_script("echo one > file");
        let shell = |setting: &Setting, script: &str| {
            let arguments = ["shell", "t", "--", "sh", "-c", script];
            setting.succeed(&arguments);
        };
        shell(setting, "grep -q one file && echo two >> file && sync");
        setting.succeed(&["commit", "t"]);
        let file = fs::read_to_string(setting.scratch.path("file")).expect("the file");
        assert_eq!(file, "one\ntwo\n");
    });
}
