//! S31: processes that are born while something is undecided depend on the same, and are gone where they would not have
//! been born.

use surmise_testkit::tell;

use super::right::late;
use super::{compile, has, told, torture};
use crate::setting::as_each_user;

/// Subshells, pipelines and what commands print, of a shell that forks for each.
const SHELL: &str = r#"
for n in 1 2 3 4; do (echo sub $n; echo $n >>list); done
x=$(echo one; echo two); echo "$x"
echo a b c | tr a-c A-C | cat
(exit 7); echo $?
f() { (cd /usr; echo $1 from $(pwd)); }; f x; f y
(echo back; exit 3) & wait $!; echo $?
cat list
"#;

#[test]
fn a_shell_has_subshells_and_pipelines() {
    torture("sh births", &["sh", "-c", SHELL], |_| true);
    late(&["sh", "-c", SHELL], |_| true);
}

#[test]
fn bash_takes_what_commands_print() {
    let command = ["bash", "--norc", "-c", SHELL];
    torture("bash births", &command, |_| has("bash"));
    late(&command, |_| has("bash"));
}

#[test]
fn python_forks_and_executes() {
    let prepare = |setting: &crate::setting::Setting| {
        let program = include_str!("births.py");
        setting.scratch.file("births.py", program);
        has("python3")
    };
    torture("python births", &["python3", "births.py"], prepare);
    late(&["python3", "births.py"], prepare);
}

#[test]
fn perl_forks() {
    let prepare = |setting: &crate::setting::Setting| {
        let program = include_str!("births.pl");
        setting.scratch.file("births.pl", program);
        has("perl")
    };
    torture("perl births", &["perl", "births.pl"], prepare);
    late(&["perl", "births.pl"], prepare);
}

/// What they depended on is denied, and all that depend on the same are rolled back.
#[test]
fn children_that_are_killed_at_any_moment_have_ended_so() {
    torture("kills", &["python3", "kills.py"], |setting| {
        let program = include_str!("kills.py");
        setting.scratch.file("kills.py", program);
        has("python3")
    });
}

/// Each subshell executes a program, the last one that its user may not read, and one that is not there.
#[test]
fn subshells_execute_programs() {
    const SCRIPT: &str = r#"
cp /bin/echo said; cp /bin/echo secret; chmod 111 secret
for n in 1 2 3 4 5; do (test -d /usr; exec /bin/echo $n); (exec ./said again $n >>said.log); done
for n in 1 2 3; do (test -d /usr; exec ./secret $n); (exec /no/such/program); echo $?; done
(trap '' USR1; cd /usr; exec sh -c 'kill -USR1 $$; echo $PWD lives')
cat said.log
"#;
    torture("programs", &["sh", "-c", SCRIPT], |_| true);
    late(&["sh", "-c", SCRIPT], |_| true);
    as_each_user(|setting| {
        let arguments = [
            "run",
            "--torture",
            "5:0.1",
            "--stats",
            "--json",
            "--",
            "sh",
            "-c",
        ];
        let script = "for n in $(seq 60); do (exec /bin/true); done";
        let outcome = setting
            .surmise(&[&arguments[..], &[script]].concat())
            .outcome();
        outcome.assert_success();
        let object = told(&outcome.stderr);
        let programs = object["speculation"]["objects"]["program"].as_u64();
        tell(format_args!("{programs:?} executed"));
        assert!(programs > Some(0), "{object}");
    });
}

/// It checks its memory, its children and what it is told of their ends.
#[test]
fn a_parent_finds_the_children_that_it_has_borne_and_no_others() {
    torture("family", &["./family", "40"], |setting| {
        compile(setting, "family.c", &["gcc", "-O1"]);
        true
    });
    as_each_user(|setting| {
        compile(setting, "family.c", &["gcc", "-O1"]);
        let mut arguments = vec!["run", "--torture", "7:0.1"];
        arguments.extend(["--stats", "--json", "--", "./family", "60"]);
        let outcome = setting.surmise(&arguments).outcome();
        outcome.assert_success().assert_stdout("family ok\n");
        let object = told(&outcome.stderr);
        let [born, unborn] = ["objects", "undone"].map(|what| {
            let kinds = &object["speculation"][what];
            kinds["birth"].as_u64().unwrap_or(0)
        });
        tell(format_args!("{born} born, {unborn} never"));
        assert!(born > 0 && unborn > 0, "{object}");
    });
}
