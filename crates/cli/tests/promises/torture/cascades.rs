//! S31: one wrong prediction rolls back every process that depends on it, by whatever object it came to depend on it.
//!
//! Each test has a script whose processes meet by one kind of object, and wants cascades in which such an object was put back.

use serde_json::Value;
use surmise_testkit::tell;

use super::asks::count;
use super::{has, seeds, told};
use crate::setting::as_each_user;

/// With how many seeds a command is tried that shows no cascade.
const SEEDS_MAX: usize = 4;

#[test]
fn through_files_that_another_process_makes_and_renames() {
    let script = "
        (n=0; while test $n -lt 4; do echo $n > new && mv new file$n; n=$((n + 1)); done) &
        n=0
        while test $n -lt 4; do
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
    let lines: Vec<_> = (0..160).map(|line| format!("{line:03}\n")).collect();
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

/// A Unix stream, and the script has no pipe.
#[test]
fn through_a_connection() {
    const PERL: &str = r#"
use Socket;
socketpair my $own, my $other, AF_UNIX, SOCK_STREAM, 0 or die;
if (!(fork // die)) {
    for (1 .. 12) { sysread $own, my $said, 4; stat "."; syswrite $own, "re$said" }
    exit;
}
for my $n (1 .. 12) {
    stat "."; syswrite $other, sprintf("%03d\n", $n); sysread $other, my $answer, 6; syswrite STDOUT, $answer;
}
wait;"#;
    if has("perl") {
        cascades_of(&["perl", "-e", PERL], "", "connection", through("pipe"));
    }
}

/// The reader is told of the end by one that lives on: it could open its side again only by a rollback.
#[test]
fn through_a_pipe_that_another_process_has_shut() {
    const PERL: &str = r#"
for my $n (1 .. 8) {
    pipe my $in, my $out or die;
    my $reader = fork // die;
    if (!$reader) {
        close $out; stat "/"; my $got = sysread $in, my $none, 1; syswrite STDOUT, "end $n $got\n"; exit;
    }
    close $in; stat "."; close $out; stat "/"; stat ".";
    waitpid $reader, 0;
}"#;
    if has("perl") {
        let counted = through("shut pipe");
        cascades_of(&["perl", "-e", PERL], "", "shut pipe", counted);
    }
}

/// One child has ended for certain when the parent is given a guess, bears another one and collects the first.
#[test]
fn through_a_child_that_has_ended() {
    const PERL: &str = r#"
for my $n (1 .. 8) {
    my $first = fork // die; exit $n if !$first;
    select undef, undef, undef, 0.02;
    stat "."; my $second = fork // die; if (!$second) { stat "/"; exit }
    waitpid $first, 0; syswrite STDOUT, "ended with " . ($? >> 8) . "\n"; waitpid $second, 0;
}"#;
    if has("perl") {
        cascades_of(&["perl", "-e", PERL], "", "zombie", through("zombie"));
    }
}

/// The parent reads what its child has put out between two executions. An execution is undone by a rollback of its process alone,
/// so no cascade goes through it.
#[test]
fn through_a_pipe_from_a_child_that_has_executed_programs() {
    const SCRIPT: &str = "
        n=0
        while test $n -lt 8; do
            text=$(test -e /; test -e /usr; test -e .
                exec sh -c \"test -e .; echo line $n; test -e /; exec sh -c 'test -e .; echo end'\")
            echo $text; n=$((n + 1))
        done";
    let counted = |speculation: &Value| {
        let executed = count(&speculation["undone"]["program"]);
        executed.min(through("pipe")(speculation))
    };
    cascades_of(&["sh", "-ec", SCRIPT], "", "executed program", counted);
}

/// To have lent memory is a birth: such children were never born. More of them than were born otherwise.
#[test]
fn through_a_birth_for_which_memory_was_lent() {
    const PYTHON: &str = "
import os, subprocess
for number in range(4):
    os.path.exists('.')
    print(subprocess.call(['/bin/sh', '-c', f'test -e .; exit {number}']), flush=True)
";
    let counted = |speculation: &Value| {
        let others = count(&speculation["objects"]["birth"]);
        let lent = count(&speculation["undone"]["birth"]).saturating_sub(others);
        lent.min(through("birth")(speculation))
    };
    if has("python3") {
        let command = ["python3", "-S", "-E", "-c", PYTHON];
        cascades_of(&command, "", "birth by a loan", counted);
    }
}

/// The signal comes to the process that has set the timer, alone; another one has read what the process says when it has set it.
#[test]
fn through_a_pipe_from_a_process_that_has_set_a_timer() {
    const PYTHON: &str = r#"
import os, signal
fired = 0
def fire(number, frame):
    global fired
    fired += 1
signal.signal(signal.SIGALRM, fire)
(asked, ask), (answered, answer) = os.pipe(), os.pipe()
if os.fork() == 0:
    for number in range(6):
        line = os.read(asked, 4); os.path.exists("."); os.write(answer, line)
    os._exit(0)
for number in range(6):
    os.path.exists(".")
    signal.setitimer(signal.ITIMER_REAL, 0.01 if number % 2 else 100)
    while number % 2 and fired <= number // 2: pass
    os.write(ask, b"%03d\n" % number); os.read(answered, 4)
    print(number, fired, flush=True)
os.wait()
"#;
    let counted = |speculation: &Value| {
        let timers = count(&speculation["undone"]["timer"]);
        timers.min(through("pipe")(speculation))
    };
    if has("python3") {
        let command = ["python3", "-S", "-E", "-c", PYTHON];
        cascades_of(&command, "", "timer", counted);
    }
}

/// How many rollbacks of several processes have put back what had been done to objects of a kind.
fn through(kind: &str) -> impl Fn(&Value) -> u64 {
    move |speculation| count(&speculation["cascades_through"][kind])
}

/// As [`cascades_of`] a script, through objects of this kind.
fn cascades(kind: &str, script: &str, input: &str) {
    cascades_of(&["sh", "-ec", script], input, kind, through(kind));
}

/// Runs a command plainly, and then with many wrong predictions: it puts out the same, and some of the rollbacks were of
/// several processes and are counted.
fn cascades_of(command: &[&str], input: &str, what: &str, counted: impl Fn(&Value) -> u64) {
    as_each_user(|setting| {
        let plain = setting.twin();
        let wanted = plain.plain(command).stdin(input).outcome();
        wanted.assert_success();
        let mut cascades = 0;
        for seed in 1..=seeds().max(SEEDS_MAX) {
            // The others are for what comes about by chance.
            if seed > seeds() && cascades > 0 {
                break;
            }
            let torture = format!("{seed}:0.3");
            let mut arguments = vec!["run", "--dry-run", "--torture", &torture];
            arguments.extend(["--stats", "--json", "--"]);
            arguments.extend(command);
            let got = setting.surmise(&arguments).stdin(input).outcome();
            got.assert_code(wanted.code).assert_stdout(&wanted.stdout);
            cascades += counted(&told(&got.stderr)["speculation"]);
        }
        tell(format_args!("{what}: {cascades} cascades"));
        assert!(cascades > 0, "{what}: nothing was rolled back together");
    });
}
