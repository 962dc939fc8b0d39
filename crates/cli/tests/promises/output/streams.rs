//! Standard streams and the terminal.

use super::{path, read, shell};
use crate::network::listing;
use crate::setting::as_each_user;

const BOTH: &str = "echo out; echo err >&2; echo more";

/// S21.
#[test]
fn held_streams_appear_at_the_commit_each_where_it_belongs() {
    as_each_user(|setting| {
        let run = [
            "run", "--name", "t", "--stdio", "hold", "--", "sh", "-c", BOTH,
        ];
        let outcome = setting.succeed(&run);
        outcome.assert_stdout("");
        outcome.assert_stderr_contains("2 held outputs kept");
        assert!(!outcome.stderr.contains("err\n"), "{}", outcome.stderr);
        let diff = setting.succeed(&["diff", "t"]);
        diff.assert_stdout_contains("H standard output (9 bytes): out");
        diff.assert_stdout_contains("H standard error (4 bytes): err");
        let rows = listing(setting);
        let held = rows[0]["held"].as_array().expect("a list");
        assert_eq!(held.len(), 2, "{held:?}");
        // Two descriptions have no order between them.
        let output = held.iter().find(|row| row["to"] == "standard output");
        assert_eq!(output.expect("a row")["first_line"], "out");
        let commit = setting.succeed(&["commit", "t"]);
        commit.assert_stdout("out\nmore\n");
        assert_eq!(commit.stderr, "err\n");
        assert_eq!(listing(setting), serde_json::json!([]));
    });
}

/// S17, S21.
#[test]
fn held_streams_of_one_description_keep_their_order() {
    as_each_user(|setting| {
        let lines = "for n in $(seq 300); do echo out $n; echo err $n >&2; done";
        let script = format!(
            "surmise run --name t --stdio hold -- sh -c '{lines}' >file 2>&1\n\
             ! grep -q 'err 1$' file\n\
             surmise commit t >whole 2>told\n\
             sh -c '{lines}' >plain 2>&1\n\
             cmp whole plain && ! test -s told"
        );
        shell(setting, &script).outcome().assert_success();
    });
}

/// S21.
#[test]
fn a_run_that_commits_shows_what_it_held_and_one_that_aborts_does_not() {
    as_each_user(|setting| {
        let run = |choice: &str, script: &str| {
            let run = ["run", choice, "--stdio", "hold", "--", "sh", "-c", script];
            setting.surmise(&run).outcome()
        };
        let outcome = run("--commit", BOTH);
        outcome.assert_success().assert_stdout("out\nmore\n");
        assert_eq!(outcome.stderr, "err\n");
        let outcome = run("--commit", "echo out; exit 3");
        outcome.assert_code(3).assert_stdout("");
        let outcome = run("--dry-run", BOTH);
        // Shown as what is held, not as what the command put out.
        outcome.assert_success().assert_stdout("");
        outcome.assert_stderr_contains("H standard output (9 bytes): out");
        assert!(!outcome.stderr.contains("more"), "{}", outcome.stderr);
        let run = ["run", "--name", "t", "--stdio", "hold", "--", "echo", "x"];
        setting.succeed(&run).assert_stdout("");
        setting.succeed(&["abort", "t"]).assert_stdout("");
        assert_eq!(listing(setting), serde_json::json!([]));
    });
}

/// S21.
#[test]
fn a_held_terminal_stays_dark_until_the_commit() {
    as_each_user(|setting| {
        let script = "stty size; read word; echo got-$word";
        let run = [
            "run", "--name", "t", "--tty", "hold", "--", "sh", "-c", script,
        ];
        // Keys go in at once; that they are echoed is output, too. The question is Surmise's.
        let outcome = setting.surmise(&run).at_terminal(&[
            ("", surmise_testkit::Act::Type("it\n")),
            ("[k]eep", surmise_testkit::Act::Type("k\n")),
        ]);
        outcome.assert_success();
        assert!(!outcome.stdout.contains("got-it\n"), "{}", outcome.stdout);
        outcome.assert_stdout_contains("H the terminal (");
        let diff = setting.succeed(&["diff", "t"]);
        diff.assert_stdout_contains("H the terminal (");
        let commit = setting.succeed(&["commit", "t"]);
        commit.assert_stdout_contains("24 80\n");
        commit.assert_stdout_contains("got-it\n");
        assert!(!commit.stdout.contains('\r'), "{:?}", commit.stdout);
    });
}

/// S21, S23: what was put out before the commit appears where the command writes, the rest later.
#[test]
fn a_commit_of_a_running_command_shows_what_is_held_so_far() {
    as_each_user(|setting| {
        let command = "echo one; echo err >&2; echo two; read word; echo $word; read word";
        let script = format!(
            "mkfifo keys\n\
             surmise run --name t --stdio hold -- sh -c '{command}' <keys >out 2>err &\n\
             exec 9>keys\n\
             until surmise diff t 2>/dev/null | grep -q 'output (8 bytes)'; do sleep 0.05; done\n\
             ! test -s out\n\
             surmise commit t >shown 2>told\n\
             ! test -s shown\n\
             until test -s out; do sleep 0.05; done\n\
             until grep -q committed err; do sleep 0.05; done\n\
             cp out first; cp err first-err\n\
             echo three >&9\n\
             until surmise diff t | grep -q 'output (6 bytes): three'; do sleep 0.05; done\n\
             cmp out first\n\
             surmise commit t 2>>told\n\
             until test $(wc -l <out) = 3; do sleep 0.05; done\n\
             echo four >&9; exec 9>&-; wait\n\
             surmise list >left"
        );
        shell(setting, &script).outcome().assert_success();
        assert_eq!(read(setting, "first"), "one\ntwo\n");
        let err = read(setting, "first-err");
        assert!(err.starts_with("err\nsurmise: "), "in order: {err:?}");
        assert_eq!(read(setting, "out"), "one\ntwo\nthree\n");
        // All of it was shown: nothing waits.
        assert_eq!(read(setting, "left"), "");
    });
}

/// S21, S22: nobody is there any more to see what comes.
#[test]
fn what_comes_after_the_caller_has_gone_is_for_whoever_commits() {
    as_each_user(|setting| {
        let server = crate::network::Server::start();
        let peer = server.peer();
        let client = format!(
            "import socket, sys\n\
             print('before', flush=True)\n\
             s = socket.create_connection(('127.0.0.1', {}))\n\
             s.sendall(b'question')\n\
             print(s.recv(100).decode(), flush=True); print('oops', file=sys.stderr)\n",
            server.port
        );
        for hold in [false, true] {
            let mut run = vec!["run", "--name", "t", "--hold-net", &peer];
            if hold {
                run.extend(["--stdio", "hold"]);
            }
            run.extend(["--", "python3", "-c", &client]);
            let outcome = setting.surmise(&run).outcome();
            outcome
                .assert_code(125)
                .assert_stdout(if hold { "" } else { "before\n" });
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut stream = server.accept();
                    let mut question = [0; 8];
                    std::io::Read::read_exact(&mut stream, &mut question).expect("read");
                    std::io::Write::write_all(&mut stream, b"answer").expect("reply");
                });
                // It has no caller to be shown to.
                setting.succeed(&["commit", "t"]).assert_stdout("");
            });
            crate::network::wait_until_ended(setting);
            let commit = setting.succeed(&["commit", "t"]);
            commit.assert_stdout(if hold { "before\nanswer\n" } else { "answer\n" });
            assert_eq!(commit.stderr, "oops\n");
        }
    });
}

/// S17.
#[test]
fn output_and_errors_of_one_description_stay_in_order() {
    as_each_user(|setting| {
        let lines = "import os\n\
             for number in range(10000): os.write(1 + number % 2, b'%d\\n' % number)\n";
        let script = format!("surmise run --dry-run -- python3 -c \"{lines}\" 2>&1");
        let outcome = shell(setting, &script).outcome();
        let wanted: String = (0..10_000).map(|number| format!("{number}\n")).collect();
        assert!(outcome.assert_success().stdout == wanted, "{outcome:?}");
    });
}

/// S17.
#[test]
fn a_reader_that_goes_ends_its_writer() {
    as_each_user(|setting| {
        let inside = ["run", "--dry-run", "--", "sh", "-c", "yes | head -1"];
        setting.succeed(&inside).assert_stdout("y\n");
        let outside = "(surmise run --dry-run -- yes || echo $? >status) | head -1";
        let outcome = shell(setting, outside).outcome();
        outcome.assert_success().assert_stdout("y\n");
        assert_eq!(read(setting, "status"), "141\n");
    });
}

/// S17.
#[test]
fn a_named_descriptor_comes_along_if_nothing_can_be_written_by_it() {
    as_each_user(|setting| {
        setting.scratch.file("data", "from a file\n");
        let script = "exec 5<data 6<. 7>new 8>/dev/null\n\
             surmise run --dry-run --keep-fd 5 -- cat /proc/self/fd/5\n\
             echo piped | { exec 9<&0; surmise run --dry-run --keep-fd 9 -- sh -c 'cat <&9' </dev/null; }\n\
             surmise run --dry-run -- sh -c 'cat <&5' 2>/dev/null || echo closed\n\
             for n in 6 7; do\n\
             surmise run --dry-run --keep-fd $n -- true 2>told || echo $?\n\
             grep -q 'Error:' told\n\
             done";
        let outcome = shell(setting, script).outcome();
        outcome
            .assert_success()
            .assert_lines(&["from a file", "piped", "closed", "125", "125"]);
    });
}

/// S17, S22: nobody believes that a full disk has it all.
#[test]
fn output_that_found_no_room_is_told() {
    as_each_user(|setting| {
        let script = "surmise run --dry-run -- echo lost >/dev/full";
        shell(setting, script)
            .outcome()
            .assert_stderr_contains("not all was written to standard output: No space left");
        let script = "surmise run --name t --stdio hold -- echo lost\n\
             surmise commit t >/dev/full";
        let outcome = shell(setting, script).outcome();
        outcome
            .assert_code(1)
            .assert_stderr_contains("standard output: No space left")
            .assert_stderr_contains("could not be sent whole");
        assert!(!path(setting, "lost").exists());
    });
}
