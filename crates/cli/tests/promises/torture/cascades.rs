//! S31: one wrong prediction rolls back every process that depends on it, by whatever object it came to depend on it.
//!
//! Each test has a script whose processes meet by one kind of object, and wants cascades in which such an object was put back.

use surmise_testkit::tell;

use super::{has, seeds, told};
use crate::setting::as_each_user;

#[test]
fn through_files_that_another_process_makes_and_renames() {
    let script = "
        (n=0; while test $n -lt 6; do echo $n > new && mv new file$n; n=$((n + 1)); done) &
        n=0
        while test $n -lt 6; do
            until test -e file$n; do :; done
            read line < file$n; echo \"got $line\"; n=$((n + 1))
        done
        wait; ls";
    cascades("changed file", script, "");
}

#[test]
fn through_a_directory_that_another_process_lists() {
    let script = "
        mkdir names
        (n=0; while test $n -lt 6; do : > names/$n; n=$((n + 1)); done) &
        until test $(ls names | wc -l) -eq 6; do :; done
        wait; ls names";
    cascades("changed file", script, "");
}

#[test]
fn through_a_file_that_two_processes_append_to() {
    let script = "
        add() { n=0; while test $n -lt 60; do echo $1 >> both; n=$((n + 1)); done; }
        add one & add two & wait; sort both | uniq -c";
    cascades("changed file", script, "");
}

#[test]
fn through_the_input_that_two_processes_share() {
    if !has("perl") {
        return;
    }
    // Each read takes a record, in one call.
    let reader = "perl -e 'while (sysread(STDIN, $x, 4)) { stat \".\"; syswrite(STDOUT, $x) }'";
    let script = format!("exec 3<&0; {reader} <&3 > one & {reader} <&3 > two; wait; sort one two");
    let lines: Vec<_> = (0..400).map(|line| format!("{line:03}\n")).collect();
    cascades("input", &script, &lines.concat());
}

#[test]
fn through_a_pipe_between_two_processes() {
    let script = "
        (n=0; while test $n -lt 30; do test -e .; echo line $n; n=$((n + 1)); done) |
        (while read line; do test -e .; echo \"got $line\"; done > got; cat got)";
    cascades("pipe", script, "");
}

/// The only pipe of the script.
#[test]
fn through_a_fifo() {
    let script = "
        mkfifo fifo; exec 3<> fifo
        (n=0; while test $n -lt 30; do test -e . || :; echo line $n >&3; n=$((n + 1)); done) &
        (n=0; while test $n -lt 30; do
            read line; test -e . || :; echo \"got $line\"; n=$((n + 1))
        done <&3 > got)
        wait; cat got; rm fifo";
    cascades("pipe", script, "");
}

#[test]
fn through_the_position_that_two_writers_share() {
    let script = "
        exec 5> log
        add() { n=0; while test $n -lt 100; do test -e . || :; echo $1 >&5; n=$((n + 1)); done; }
        add one & add two & wait; sort log | uniq -c";
    cascades("position", script, "");
}

#[test]
fn through_the_position_that_two_readers_share() {
    let script = "
        n=0; while test $n -lt 40; do echo $n; n=$((n + 1)); done > numbers
        (while read line; do test -e . || :; echo $line; (read other; echo $other); done) < numbers";
    cascades("position", script, "");
}

#[test]
fn through_a_birth() {
    let script = "
        n=0
        while test $n -lt 20; do
            test -e .; (test -e .; echo child $n) & n=$((n + 1))
        done
        wait";
    cascades("birth", &format!("({script}) | sort"), "");
}

#[test]
fn through_an_exit_that_the_parent_has_seen() {
    let script = "
        n=0
        while test $n -lt 20; do
            (test -e .; exit $n) || echo exited with $?; n=$((n + 1))
        done";
    // The exit, and that the parent was told of it.
    cascades("exit", script, "");
}

#[test]
fn through_a_signal_that_another_process_sends() {
    let script = "
        got=0; trap 'got=$((got + 1))' USR1
        (n=0; while test $n -lt 12; do
            test -e .; kill -USR1 $$
            until test -e taken$n; do :; done
            n=$((n + 1))
        done) &
        n=0; while test $n -lt 12; do
            until test $got -gt $n; do test -e .; done
            echo $n: $got; : > taken$n; n=$((n + 1))
        done; wait";
    cascades("sent signal", script, "");
}

/// Runs a script plainly, and then with many wrong predictions: it puts out the same, and some of the rollbacks were of
/// several processes and put back what had been done to objects of this kind.
fn cascades(through: &str, script: &str, input: &str) {
    as_each_user(|setting| {
        let command = ["sh", "-ec", script];
        let plain = setting.twin();
        let wanted = plain.plain(&command).stdin(input).outcome();
        wanted.assert_success();
        let mut cascades = 0;
        for seed in 1..=seeds().max(3) {
            let torture = format!("{seed}:0.3");
            let mut arguments = vec!["run", "--dry-run", "--torture", &torture];
            arguments.extend(["--stats", "--json", "--"]);
            arguments.extend(command);
            let got = setting.surmise(&arguments).stdin(input).outcome();
            got.assert_code(wanted.code).assert_stdout(&wanted.stdout);
            let speculation = &told(&got.stderr)["speculation"];
            let of_kind = &speculation["cascades_through"][through];
            cascades += of_kind.as_u64().unwrap_or(0);
        }
        tell(format_args!("{through}: {cascades} cascades"));
        assert!(
            cascades > 0,
            "nothing was rolled back together by a {through}"
        );
    });
}
