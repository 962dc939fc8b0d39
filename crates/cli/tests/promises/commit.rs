//! S5: conflicts are found before anything changes.

use std::fs;
use std::thread;

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
        thread::scope(|scope| {
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

/// S6: killed while it changes files, a commit is taken back with `--undo`, and can be made again.
#[test]
fn a_commit_that_was_cut_short_is_taken_back() {
    as_each_user(|setting| {
        setting.scratch.file("file", "old\n").file("other", "o");
        setting.run_script("echo new > made; mv other moved; seq 500000 >> file");
        let before = TreeSnapshot::of(setting.scratch.work());
        let changes = setting.succeed(&["diff", "t"]).stdout;
        setting
            .surmise(&["commit", "--undo", "t"])
            .outcome()
            .assert_code(1)
            .assert_stderr_contains("Error: no commit of this domain was cut short")
            .assert_stderr_contains("Hint:");
        // The kernel kills who writes more of a file than this.
        let surmise = surmise_testkit::surmise_binary().display().to_string();
        let killed = format!("ulimit -c 0; ulimit -f 1000; {surmise} commit t");
        let killed = setting.plain(&["bash", "-c", &killed]).outcome();
        killed.assert_code(128 + 25);
        setting
            .succeed(&["list"])
            .assert_stdout_contains("committing");
        assert!(setting.scratch.path("made").exists(), "nothing was applied");
        // What somebody else has changed meanwhile is named, and nothing is done.
        let ours = fs::read(setting.scratch.path("made")).expect("read");
        let outside = |text: &[u8]| fs::write(setting.scratch.path("made"), text).expect("write");
        let times = fs::metadata(setting.scratch.path("made"))
            .expect("look")
            .modified();
        outside(b"theirs");
        setting
            .surmise(&["commit", "--undo", "t"])
            .outcome()
            .assert_code(1)
            .assert_stderr_contains("made: changed outside")
            .assert_stderr_contains("Hint: put the paths back");
        outside(&ours);
        let made = fs::File::options()
            .write(true)
            .open(setting.scratch.path("made"));
        let made = made.expect("open");
        made.set_modified(times.expect("a time"))
            .expect("set the time");
        setting
            .succeed(&["commit", "--undo", "t"])
            .assert_stderr_contains("taken back");
        let facets = Facets {
            ctime: false,
            ..Facets::EXACT
        };
        let after = TreeSnapshot::of(setting.scratch.work());
        assert_same_tree(&before, &after, facets);
        assert_eq!(setting.succeed(&["diff", "t"]).stdout, changes);
        setting.succeed(&["commit", "t"]);
        let lines = fs::read_to_string(setting.scratch.path("file")).expect("read");
        assert_eq!(lines.lines().count(), 500_001);
        assert!(!setting.scratch.path("other").exists());
    });
}

/// What `--json` prints: whole lines, progress first and one result last.
#[test]
fn a_commit_tells_programs_in_lines_of_json_what_it_does() {
    as_each_user(|setting| {
        let lines = |outcome: &surmise_testkit::Outcome| -> Vec<serde_json::Value> {
            let lines = outcome.stdout.lines();
            lines
                .map(|line| serde_json::from_str(line).expect("a line of JSON"))
                .collect()
        };
        setting.scratch.file("file", "old");
        setting.run_script("echo new > file; echo new > added");
        fs::write(setting.scratch.path("file"), "outside").expect("write");
        let refused = setting.surmise(&["commit", "--json", "t"]).outcome();
        refused.assert_code(1);
        let told = lines(&refused);
        let failed = &told.last().expect("a result")["failed"];
        assert!(
            failed["error"]
                .as_str()
                .is_some_and(|text| text.contains("changed outside"))
        );
        let detail = failed["details"][0].as_str().expect("a detail");
        assert!(detail.ends_with("file: changed outside"), "{detail}");
        assert!(failed["hint"].is_string());
        setting.succeed(&["abort", "t"]);

        setting.run_script("echo new > file; echo new > added");
        let told = lines(&setting.succeed(&["commit", "--json", "t"]));
        let (result, progress) = told.split_last().expect("a result");
        let wanted = serde_json::json!({"committed": {
            "name": "t", "changes": 2, "goes_on": false, "left": [],
            "read_changed": {"count": 0, "first": []}, "sent": [], "unsent": [],
            "sending": false,
        }});
        assert_eq!(*result, wanted);
        assert!(!progress.is_empty(), "no progress");
        for line in progress {
            let told = &line["progress"];
            let done = told["done"].as_u64().expect("a number");
            assert!(done <= told["total"].as_u64().expect("a number"), "{line}");
            let activities = ["stage", "keep", "apply", "undo", "send"];
            let activity = told["activity"].as_str().expect("an activity");
            assert!(activities.contains(&activity), "{line}");
        }
    });
}

/// S5: a person decides conflicts by their paths.
#[test]
fn conflicts_are_decided_by_path() {
    as_each_user(|setting| {
        setting
            .scratch
            .file("ours", "old")
            .file("dir/theirs", "old")
            .file("other", "o");
        setting.run_script("echo inside > ours; echo inside > dir/theirs; rm other");
        let outside = "echo outside > ours; echo outside > dir/theirs";
        setting
            .plain(&["sh", "-ec", outside])
            .outcome()
            .assert_success();
        let before = TreeSnapshot::of(setting.scratch.work());
        for (arguments, word) in [
            (&["--force-theirs", "dir"][..], "/ours: changed outside"),
            (&["--force-ours", "other"][..], "no conflict at"),
            (
                &["--force-ours", ".", "--force-theirs", "../work"][..],
                "given to both sides",
            ),
        ] {
            let arguments = [&["commit", "t"], arguments].concat();
            setting
                .surmise(&arguments)
                .outcome()
                .assert_code(1)
                .assert_stderr_contains(word)
                .assert_stderr_contains("Hint:");
        }
        let after = TreeSnapshot::of(setting.scratch.work());
        assert_same_tree(&before, &after, Facets::EXACT);
        setting.succeed(&["commit", "t", "--force-ours", ".", "--force-theirs", "dir"]);
        let text = |path| fs::read_to_string(setting.scratch.path(path)).expect("read");
        assert_eq!(
            (text("ours"), text("dir/theirs")),
            ("inside\n".into(), "outside\n".into())
        );
        assert!(!setting.scratch.path("other").exists());
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

/// S30: what the command has open when its domain is committed is committed as it is, and what it writes
/// to it afterwards is the next change.
#[test]
fn files_open_while_a_running_domain_is_committed_go_on() {
    const SCRIPT: &str = "
        exec 3>log 4>>still 5<>old
        echo one >&3; echo still >&4; echo new >&5
        while [ ! -e first ]; do sleep 0.05; done
        echo two >&3
        while [ ! -e second ]; do sleep 0.05; done
        echo three >>log";
    as_each_user(|setting| {
        setting.scratch.file("old", "old");
        let read = |name: &str| fs::read_to_string(setting.scratch.path(name)).expect(name);
        let until_listed = |line: &str| {
            watchdog::until(line, watchdog::LIMIT, || {
                let outcome = setting.surmise(&["diff", "t"]).outcome();
                outcome.stdout.lines().any(|listed| listed == line)
            });
        };
        thread::scope(|scope| {
            let run = ["run", "--name", "t", "--", "sh", "-ec", SCRIPT];
            let running = scope.spawn(move || setting.succeed(&run));
            until_listed("M old");
            setting.succeed(&["commit", "t"]);
            assert_eq!((&*read("log"), &*read("still")), ("one\n", "still\n"));
            assert_eq!(read("old"), "new\n");
            setting.scratch.file("first", "");
            setting.scratch.file("second", "");
            running.join().expect("the run");
        });
        let listed = setting.succeed(&["diff", "t"]).stdout;
        // What was open may be listed although nothing was written to it.
        assert!(
            ["M log\n", "M log\nM still\n"].contains(&&*listed),
            "{listed}"
        );
        assert_eq!(read("log"), "one\n");
        setting.succeed(&["commit", "t"]);
        assert_eq!(read("log"), "one\ntwo\nthree\n");
        assert_eq!((&*read("still"), &*read("old")), ("still\n", "new\n"));
    });
}
