//! S31: a reader is told of the end of a pipe before it is certain that the last writer has closed its end or has ended, and
//! all is taken back where that is wrong.

use surmise_testkit::tell;

use super::undone::prints;
use super::{compile, has, told, torture};
use crate::setting::{Setting, as_each_user};

const SUBSTITUTIONS: &str = include_str!("substitutions.sh");
const PIPELINES: &str = include_str!("pipelines.sh");
/// Right ones that are decided after 30 ms, and some that are wrong.
const GUESSES: [&str; 2] = ["1:30ms", "0.7:10ms:0.3"];
const WAYS: &str =
    "read first ok\nwaited first ok\nbroken ok\nclosed ok\nhanded on ok\nkilled ok\n";

#[test]
fn what_is_known_to_be_shut_is_found_shut() {
    prints("shut", "./shut", WAYS);
}

#[test]
fn shells_read_pipes_to_their_ends() {
    for shell in ["sh", "bash"] {
        torture(shell, &[shell, "-c", SUBSTITUTIONS], |_| has(shell));
    }
    // dash is the tests' of `partings`: its handler of SIGCHLD interrupts calls for good.
    torture("bash", &["bash", "-c", PIPELINES], |_| has("bash"));
}

#[test]
fn python_reads_what_its_children_put_out() {
    torture("shut", &["python3", "shut.py"], python);
}

/// The reader waits neither for the decision nor for the writer, and is rolled back together with the writer.
#[test]
fn a_reader_goes_on_before_it_is_certain_that_a_pipe_is_shut() {
    // The shell is given a guess before it reads, and its child before it ends.
    let script = "test -e /usr; text=$(test -e /bin && echo some; exit 3); echo $text $?";
    as_each_user(|setting| {
        for (guesses, is_wrong) in [("1:1000ms", false), ("1:300ms:1", true)] {
            let mut arguments = vec!["run", "--dry-run", "--predict-right", guesses];
            arguments.extend(["--stats", "--json", "--", "sh", "-c", script]);
            let got = setting.surmise(&arguments).outcome();
            got.assert_code(0).assert_stdout("some 3\n");
            let speculation = &told(&got.stderr)["speculation"];
            let count = |what: &str, kind: &str| speculation[what][kind].as_u64().unwrap_or(0);
            assert!(count("objects", "shut pipe") > 0, "{speculation}");
            assert_eq!(count("undone", "exit") > 0, is_wrong, "{speculation}");
        }
    });
}

#[test]
fn whenever_it_is_decided_what_is_read_is_right() {
    late(&GUESSES, "ways", &["./shut", "1"], |setting| {
        compile(setting, "shut.c", &["gcc", "-O1"]);
        true
    });
    late(&GUESSES, "sh", &["sh", "-c", SUBSTITUTIONS], |_| true);
    let command = ["bash", "-c", PIPELINES];
    late(&GUESSES, "bash", &command, |_| has("bash"));
    // It has most to do, and is tortured besides.
    late(&GUESSES[..1], "python", &["python3", "shut.py"], python);
}

fn python(setting: &Setting) -> bool {
    setting.scratch.file("shut.py", include_str!("shut.py"));
    has("python3")
}

/// Runs a command plainly, and then with these guesses.
fn late(guesses: &[&str], name: &str, command: &[&str], prepare: impl Fn(&Setting) -> bool) {
    as_each_user(|setting| {
        let plain = setting.twin();
        if !prepare(&plain) || !prepare(setting) {
            return;
        }
        let wanted = plain.plain(command).outcome();
        for guesses in guesses {
            let mut arguments = vec!["run", "--dry-run", "--predict-right", guesses];
            arguments.extend(["--stats", "--json", "--"]);
            arguments.extend(command);
            let got = setting.surmise(&arguments).outcome();
            got.assert_code(wanted.code).assert_stdout(&wanted.stdout);
            let speculation = &told(&got.stderr)["speculation"];
            let count = |what: &str, kind: &str| speculation[what][kind].as_u64().unwrap_or(0);
            let (shut, undone) = (count("objects", "shut pipe"), count("undone", "exit"));
            tell(format_args!(
                "{name} {guesses}: {shut} reads told of an end, {undone} exits undone"
            ));
        }
    });
}
