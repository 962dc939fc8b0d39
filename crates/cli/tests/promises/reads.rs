//! S29: what the command merely read, and somebody outside has changed since.

use std::fs;
use std::thread::{self, ScopedJoinHandle};

use surmise_testkit::{Facets, Outcome, TreeSnapshot, assert_same_tree, watchdog};

use crate::setting::{Setting, as_each_user};

/// Refused, with this said, and nothing has changed.
#[track_caller]
fn refused(setting: &Setting, arguments: &[&str], words: &[&str]) -> Outcome {
    let before = TreeSnapshot::of(setting.scratch.work());
    let refused = setting.surmise(arguments).outcome();
    refused.assert_code(1).assert_stderr_contains("Error:");
    for word in words {
        refused.assert_stderr_contains(word);
    }
    let after = TreeSnapshot::of(setting.scratch.work());
    assert_same_tree(&before, &after, Facets::EXACT);
    refused
}

fn last_line(outcome: &Outcome) -> serde_json::Value {
    let line = outcome.stdout.lines().last().expect("a result");
    serde_json::from_str(line).expect("a line of JSON")
}

/// S29.
#[test]
fn what_was_read_and_has_changed_is_told_after_a_commit() {
    as_each_user(|setting| {
        for json in [false, true] {
            setting
                .scratch
                .file("read", "r")
                .file("other", "o")
                .file("dir/used", "u");
            setting.run_script("cat read dir/used > made; echo new > other; ls -l dir > /dev/null");
            fs::write(setting.scratch.path("read"), "outside").expect("write");
            fs::remove_file(setting.scratch.path("dir/used")).expect("remove");
            let (read, used) = (
                setting.scratch.path("read"),
                setting.scratch.path("dir/used"),
            );
            let lines = [
                format!("{}: read by the domain, removed outside", used.display()),
                format!("{}: read by the domain, changed outside", read.display()),
            ];
            if json {
                let told = last_line(&setting.succeed(&["commit", "--json", "t"]));
                let wanted = serde_json::json!({"count": 2, "first": lines});
                assert_eq!(told["committed"]["read_changed"], wanted);
            } else {
                let told = setting.succeed(&["commit", "t"]);
                told.assert_stderr_contains("2 paths that the command read have changed outside");
                for line in &lines {
                    told.assert_stderr_contains(line);
                }
                assert_eq!(told.stderr.lines().count(), 3, "{}", told.stderr);
            }
            let made = fs::read_to_string(setting.scratch.path("made")).expect("read");
            assert_eq!(made, "ru");
        }
    });
}

/// S29: a long list is cut, and counted.
#[test]
fn of_many_files_that_were_read_the_first_are_named() {
    as_each_user(|setting| {
        for number in 0..50 {
            setting.scratch.file(format!("read{number:02}"), "r");
        }
        setting.run_script("cat read* > made");
        for number in 0..50 {
            let path = setting.scratch.path(format!("read{number:02}"));
            fs::write(path, "outside").expect("write");
        }
        let told = setting.succeed(&["commit", "t"]);
        told.assert_stderr_contains("50 paths that the command read have changed outside");
        told.assert_stderr_contains("read19: read by the domain");
        told.assert_stderr_contains("  … and 30 more");
        assert_eq!(told.stderr.lines().count(), 22, "{}", told.stderr);
    });
}

/// S29.
#[test]
fn a_strict_commit_refuses_what_was_read_and_has_changed() {
    as_each_user(|setting| {
        setting
            .scratch
            .file("read", "r")
            .file("changed", "c")
            .file("dir/read", "d")
            .file("other", "o")
            .symlink("read", "link");
        // The link by its own name, and what it leads to by that name.
        setting.run_script("cat link dir/read changed > made; echo new >> changed; cat other");
        let strict = ["commit", "--strict", "t"];
        let write = |path| fs::write(setting.scratch.path(path), "outside").expect("write");
        write("read");
        write("changed");
        write("dir/read");
        let said = [
            "Error: 3 paths changed outside",
            "/read: read by the domain, changed outside",
            "/dir/read: read by the domain, changed outside",
            "/changed: changed outside",
            "Hint:",
        ];
        let told = refused(setting, &strict, &said);
        assert_eq!(told.stderr.lines().count(), 5, "{}", told.stderr);
        let told = refused(setting, &["commit", "--strict", "--json", "t"], &[]);
        assert_eq!(
            last_line(&told)["failed"]["details"]
                .as_array()
                .map(Vec::len),
            Some(3)
        );
        let some = ["commit", "--strict", "t", "--force-ours", "changed"];
        let said = [
            "Error: 2 paths changed outside",
            "Hint:",
            "without --strict",
        ];
        refused(setting, &some, &said);
        let all = [
            &some[..],
            &["--force-ours", "dir", "--force-theirs", "read"],
        ]
        .concat();
        let told = setting.succeed(&all);
        assert_eq!(told.stderr, "");
        let changed = fs::read_to_string(setting.scratch.path("changed")).expect("read");
        assert_eq!(changed, "cnew\n");
    });
}

/// S29: nothing that the command itself does, and nothing else on the machine, stands in the way.
#[test]
fn a_strict_commit_is_made_where_nothing_has_changed() {
    as_each_user(|setting| {
        setting
            .scratch
            .file("one", "1")
            .file("two", "2")
            .file("dir/three", "3")
            .symlink("one", "link");
        let script = "cat one two dir/three link > made; cat made; echo more >> one; mv dir moved; \
                      ln two linked; rm link; touch two; ls -lR; cat moved/three";
        setting.run_script(script);
        let told = setting.succeed(&["commit", "--strict", "t"]);
        assert_eq!(told.stderr, "");
        assert!(setting.scratch.path("moved/three").exists());

        // In two runs, of which the first reads.
        setting.run_script("cat made; echo > marker");
        let script = ["sh", "-c", "cat two; echo again > made2"];
        setting.succeed(&[&["shell", "t", "--"][..], &script].concat());
        setting.succeed(&["commit", "--strict", "t"]);

        // The first run counts.
        setting.run_script("cat made; echo > marker2");
        fs::write(setting.scratch.path("made"), "outside").expect("write");
        setting.succeed(&[&["shell", "t", "--"][..], &script].concat());
        refused(setting, &["commit", "--strict", "t"], &["made: read by"]);
        setting.succeed(&["abort", "t"]);
    });
}

/// A command that reads, says so, and waits to be told to go on.
struct Waiting<'scope> {
    run: ScopedJoinHandle<'scope, Outcome>,
}

impl<'scope> Waiting<'scope> {
    fn start<'env: 'scope>(
        scope: &'scope thread::Scope<'scope, 'env>,
        setting: &'env Setting,
        script: &'env str,
    ) -> Self {
        let run = ["run", "--name", "t", "--", "sh", "-ec", script];
        let run = scope.spawn(move || setting.surmise(&run).outcome());
        Self { run }
    }

    fn until_made(&self, setting: &Setting, name: &str) {
        watchdog::until("the command is so far", watchdog::LIMIT, || {
            let diff = setting.surmise(&["diff", "t"]).outcome();
            diff.stdout.contains(&format!("A {name}"))
        });
    }
}

/// S29, S23: a running domain is judged by what it has read so far, and then anew.
#[test]
fn a_running_domain_is_committed_strictly() {
    as_each_user(|setting| {
        setting
            .scratch
            .file("read", "r")
            .file("later", "l")
            .file("open", "o")
            .file("signal", "");
        let wait = |word| format!("until grep -q {word} signal; do sleep 0.1; done;");
        let script = format!(
            "exec 7< open; cat read > copy; echo > one; {} cat later > copy2; echo > two; {}",
            wait("go"),
            wait("end")
        );
        let write = |path, text| fs::write(setting.scratch.path(path), text).expect("write");
        thread::scope(|scope| {
            let waiting = Waiting::start(scope, setting, &script);
            waiting.until_made(setting, "one");
            write("read", "outside");
            let strict = ["commit", "--strict", "t", "--force-ours", "read"];
            // Choices are for domains that have ended.
            refused(setting, &strict, &[]);
            let strict = &strict[..3];
            refused(setting, strict, &["/read: read by the domain", "Hint:"]);
            let told = setting.succeed(&["commit", "--json", "t"]);
            let committed = &last_line(&told)["committed"];
            assert_eq!(committed["goes_on"], true);
            assert_eq!(committed["read_changed"]["count"], 1, "{committed}");
            let line = committed["read_changed"]["first"][0].as_str();
            assert!(line.is_some_and(|line| line.contains("/read: read by the domain")));
            assert!(setting.scratch.path("one").exists());
            // What was read before counts no more; what is read afterwards, or open all the time, does.
            write("read", "outside again");
            write("signal", "go");
            waiting.until_made(setting, "two");
            write("later", "outside");
            write("open", "outside");
            let told = refused(setting, strict, &["/later: read", "/open: read"]);
            assert!(!told.stderr.contains("/read: "), "{}", told.stderr);
            let told = setting.succeed(&["commit", "t"]);
            told.assert_stderr_contains("paths that the command read have changed outside");
            write("signal", "end");
            waiting.run.join().expect("it ends").assert_success();
        });
    });
}

/// S29: nothing is guessed where the view was killed. S50: nor where the record is gone.
#[test]
fn a_strict_commit_refuses_where_nobody_knows_what_was_read() {
    as_each_user(|setting| {
        setting.scratch.file("read", "r");
        let unknown = ["Error: what the domain read is not known", "Hint:"];
        let strict = ["commit", "--strict", "t"];
        thread::scope(|scope| {
            let script = "cat read; echo > made; sleep 600";
            let waiting = Waiting::start(scope, setting, script);
            waiting.until_made(setting, "made");
            let view = view_process(setting).expect("a view process");
            let kill = ["sh", "-c", &format!("kill -9 {view}")];
            setting.plain(&kill).outcome().assert_success();
            waiting.run.join().expect("it ends");
        });
        fs::write(setting.scratch.path("read"), "outside").expect("write");
        refused(setting, &strict, &unknown);
        // Nor after another run.
        setting.succeed(&["shell", "t", "--", "true"]);
        refused(setting, &strict, &unknown);
        let told = setting.succeed(&["commit", "t"]);
        assert_eq!(told.stderr, "");
        assert!(setting.scratch.path("made").exists());

        setting.run_script("cat read; echo > made2");
        let record = setting.scratch.state().join("surmise/t/reads");
        fs::remove_file(record).expect("there is a record");
        let lost = ["/reads: damaged at byte 0", "--forget-reads t"];
        refused(setting, &strict, &lost);
        refused(setting, &["commit", "t"], &lost);
        setting.succeed(&["commit", "--forget-reads", "t"]);
        assert!(setting.scratch.path("made2").exists());
    });
}

/// The view process of the running domain `t`: a child of whoever holds its lock.
fn view_process(setting: &Setting) -> Option<String> {
    let lock = setting.scratch.state().join("surmise/t/lock");
    let control = fs::read_to_string(lock).ok()?;
    let control = control.trim();
    let children = fs::read_to_string(format!("/proc/{control}/task/{control}/children")).ok()?;
    let mut children = children.split_whitespace();
    let is_view = |pid: &&str| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim() == "surmise-view")
    };
    children.find(is_view).map(str::to_owned)
}
