//! S31: what is read for a wrong guess is read again, by whoever reads next, and once.

use std::cell::RefCell;

use surmise_testkit::{Outcome, tell};

use super::{RATES, compile, has, seeds, told};
use crate::setting::{Setting, as_each_user};

/// How much comes at once, in bytes: some of the records below, and no whole number of lines.
const PIECE: usize = 704;
/// A record, in bytes: also a pipe's page holds a whole number of them, so that none is cut.
const RECORD: usize = 8;

#[test]
fn lines_are_read_one_byte_at_a_time() {
    let script = "n=0; while read x; do n=$((n + 1)); echo \"$n <$x>\"; done; echo $n";
    torture(&["sh", "-c", script], &lines(300), |_| true);
}

/// It reads much at once, so that little of it comes while something is undecided.
#[test]
fn numbers_are_sorted() {
    same_as_plain(&["sort", "-rn"], &lines(3000), |_| true);
}

#[test]
fn python_reads_what_there_is() {
    let script = "import os, sys\nwhile piece := os.read(0, 37):\n \
        os.stat('.'); sys.stdout.write(piece.decode()); sys.stdout.flush()";
    torture(&["python3", "-c", script], &lines(300), |_| has("python3"));
}

#[test]
fn what_one_process_leaves_is_the_next_ones() {
    let script = "read a; echo \"<$a>\"; (read b; read c; echo \"<$b $c>\"); dd bs=1 count=50 status=none; \
        (read d; echo \"<$d>\"; cat)";
    torture(&["sh", "-c", script], &lines(400), |_| true);
}

/// A pipe, a Unix stream and a TCP stream inside the domain, by different calls.
#[test]
fn pieces_are_read_from_streams_of_all_kinds() {
    torture(&["./feed"], "", |setting| {
        compile(setting, "feed.c", &["gcc", "-O1"]);
        true
    });
}

/// They wait for each other's bytes, and each gets some.
#[test]
fn two_readers_of_a_pipe_get_each_record_once() {
    let reader = reader();
    let script = format!("exec 3<&0; ({reader} <&3 & {reader} <&3; wait) | sort");
    torture(&["sh", "-c", &script], &records(400), |_| has("perl"));
}

/// Whatever the moment is, what a killed reader has not told of is left to the next, but for what it had in
/// its hands.
#[test]
fn what_a_killed_reader_was_given_is_not_lost() {
    let (input, reader) = (records(4000), reader());
    as_each_user(|setting| {
        if !has("perl") {
            return;
        }
        for seed in 1..=seeds().max(4) {
            let script = format!("exec 3<&0; {reader} <&3 & sleep 0.{seed}; kill -9 $!; wait; cat");
            let torture = format!("{seed}:0.2");
            let command = [
                "run",
                "--dry-run",
                "--torture",
                &torture,
                "--",
                "sh",
                "-c",
                &script,
            ];
            let run = setting.surmise(&command);
            let outcome = run.stdin_in_pieces(&*input, PIECE).outcome();
            outcome.assert_success();
            let mut got = outcome.stdout.lines().peekable();
            let lost = input.lines().filter(|line| got.next_if_eq(line).is_none());
            let lost: Vec<_> = lost.collect();
            assert!(
                lost.len() <= 1,
                "{torture}: {} lost, first {:?}, where there is {:?}",
                lost.len(),
                &lost[..2],
                got.next()
            );
            assert_eq!(got.next(), None, "{torture}: there is more than was read");
        }
    });
}

/// A program that passes on record by record.
fn reader() -> String {
    format!("perl -e 'while (sysread(STDIN, $x, {RECORD})) {{ stat \".\"; syswrite(STDOUT, $x) }}'")
}

fn records(count: usize) -> String {
    (0..count).map(|n| format!("{:07}\n", n)).collect()
}

fn lines(count: usize) -> String {
    (0..count)
        .map(|n| format!("line {}\n", n * 7919 % 1000))
        .collect()
}

/// As [`same_as_plain`]; some of the input must have been given for guesses, and taken back with wrong ones.
fn torture(command: &[&str], input: &str, prepare: impl Fn(&Setting) -> bool) {
    for (given, undone) in same_as_plain(command, input, prepare) {
        assert!(0 < undone && undone < given, "{undone} of {given} undone");
    }
}

/// Runs a command with this standard input plainly and tortured, as each user and with each seed; `prepare`
/// returns whether it can run here. Returns for each user how often input was given and taken back.
fn same_as_plain(
    command: &[&str],
    input: &str,
    prepare: impl Fn(&Setting) -> bool,
) -> Vec<(u64, u64)> {
    let counts = RefCell::new(Vec::new());
    as_each_user(|setting| {
        if !prepare(setting) {
            return;
        }
        let wanted = setting.plain(command).stdin(input).outcome();
        wanted.assert_success();
        let (mut given, mut undone) = (0, 0);
        for seed in 1..=seeds().max(4) {
            let torture = format!("{seed}:{}", RATES[seed % RATES.len()]);
            let mut arguments = vec!["run", "--dry-run", "--torture", &torture];
            arguments.extend(["--stats", "--json", "--"]);
            arguments.extend(command);
            let run = setting.surmise(&arguments).stdin_in_pieces(input, PIECE);
            let got = run.outcome();
            assert!(
                (got.code, &got.stdout) == (wanted.code, &wanted.stdout),
                "tortured with {torture}: {got:?}\nplainly: {wanted:?}"
            );
            given += inputs(&got, "objects");
            undone += inputs(&got, "undone");
        }
        tell(format_args!("{command:?}: {given} given, {undone} undone"));
        counts.borrow_mut().push((given, undone));
    });
    counts.into_inner()
}

fn inputs(outcome: &Outcome, which: &str) -> u64 {
    told(&outcome.stderr)["speculation"][which]["input"]
        .as_u64()
        .unwrap_or_default()
}
