//! S31: a process lends its memory to a child before all is decided, and has it back as it was where a guess was wrong.

use surmise_testkit::tell;

use super::right::late;
use super::{compile, has, told, torture};
use crate::setting::{Setting, as_each_user};

/// Each command of its own a process, the last of which fails.
const MAKEFILE: &str = "all: one two three\n\t-./no-such-program\n\t-false\n\t@cat one two three\n\n\
    one two three:\n\t@test -d .\n\t@touch $@.new\n\t@cp $@.new $@\n\techo $@ >> $@\n";

/// A program that checks its memory, its children and what becomes of them, with one thread and with several.
#[test]
fn processes_that_lend_their_memory_find_nothing_wrong() {
    for arguments in [&["8"][..], &["5", "2"]] {
        let command = [&["./lends"], arguments].concat();
        torture("lends", &command, checking);
        late(&command, checking);
    }
}

/// The parent has its memory back before anything is decided, and both go on; or what the child did was never done.
#[test]
fn memory_is_lent_before_all_is_decided_and_given_back() {
    as_each_user(|setting| {
        assert!(checking(setting));
        for (guesses, is_undone) in [("1:30ms", false), ("0.7:10ms:0.3", true)] {
            let mut arguments = vec!["run", "--dry-run", "--predict-right", guesses];
            arguments.extend(["--stats", "--json", "--", "./lends", "24"]);
            let outcome = setting.surmise(&arguments).outcome();
            outcome.assert_success().assert_stdout("lends ok\n");
            let object = told(&outcome.stderr);
            let count = |what: &str, kind: &str| {
                let kinds = &object["speculation"][what];
                kinds[kind].as_u64().unwrap_or(0)
            };
            let (loans, unborn) = (count("objects", "loan"), count("undone", "birth"));
            let programs = count("objects", "program");
            tell(format_args!(
                "{guesses}: {loans} loans, {unborn} never born, {programs} executed"
            ));
            assert!(loans > 0 && programs > 0, "{object}");
            assert_eq!(unborn > 0, is_undone, "{object}");
        }
    });
}

#[test]
fn python_starts_programs() {
    let command = ["python3", "starts.py"];
    torture("python starts", &command, python);
    late(&command, python);
}

#[test]
fn make_runs_commands() {
    let command = ["sh", "-c", "make 2>&1; make -s -j2"];
    let prepare = |setting: &Setting| {
        setting.scratch.file("Makefile", MAKEFILE);
        has("make")
    };
    torture("make commands", &command, prepare);
    late(&command, prepare);
}

fn checking(setting: &Setting) -> bool {
    compile(setting, "lends.c", &["gcc", "-O1", "-pthread"]);
    true
}

fn python(setting: &Setting) -> bool {
    let program = include_str!("starts.py");
    setting.scratch.file("starts.py", program);
    has("python3")
}
