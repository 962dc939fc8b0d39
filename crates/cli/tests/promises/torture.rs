//! S31: whatever is mispredicted, real programs print, leave and end with what they would have.
//!
//! `SURMISE_SEEDS=50` has each tried with so many seeds; without it, with a few.

mod apart;
mod asks;
mod births;
mod cascades;
mod cycles;
mod executions;
mod exits;
mod fifos;
mod handed;
mod heeds;
mod input;
mod interrupted;
mod kin;
mod lends;
mod partings;
mod positions;
mod programs;
mod queues;
mod removals;
mod right;
mod sent;
mod shut;
mod sockets;
mod spaces;
mod struck;
mod undone;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use surmise_testkit::{Facets, TreeSnapshot, assert_same_tree, skip, surmise_binary, tell};

use crate::setting::{Setting, as_each_user};

/// How probable it is for a call to be mispredicted, from one seed to the next.
const RATES: [&str; 4] = ["0.1", "0.02", "0.05", "0.005"];
/// Of how many kinds of call results must have been guessed, where a program was tried with many seeds.
const KINDS_MIN: usize = 15;

#[test]
fn a_program_that_checks_itself_finds_nothing_wrong() {
    torture("checks", &["sh", "-c", "./checks"], |setting| {
        compile(setting, "checks.c", &["gcc", "-O1"]);
        true
    });
}

#[test]
fn five_threads_that_work_together_finish_their_work() {
    torture("team", &["./team"], |setting| {
        compile(setting, "team.c", &["gcc", "-O1", "-pthread"]);
        true
    });
}

#[test]
fn a_pool_of_threads_reads_all_files() {
    torture("pool", &["./pool", "/usr/include/linux"], |setting| {
        compile(
            setting,
            "pool.cpp",
            &["g++", "-std=c++17", "-O1", "-pthread"],
        );
        true
    });
}

#[test]
fn python_imports_sixty_modules() {
    torture("python", &["python3", "imports.py"], |setting| {
        setting
            .scratch
            .file("imports.py", include_str!("torture/imports.py"));
        has("python3")
    });
}

#[test]
fn perl_finds_files_and_writes_one() {
    torture("perl", &["perl", "walk.pl"], |setting| {
        setting
            .scratch
            .file("walk.pl", include_str!("torture/walk.pl"));
        has("perl")
    });
}

#[test]
fn sqlite_changes_a_base() {
    let script = include_str!("torture/base.sql");
    torture("sqlite", &["sqlite3", "base.db", script], |_| {
        has("sqlite3")
    });
}

#[test]
fn git_sees_what_has_changed() {
    let command = [
        "sh",
        "-c",
        "git -C ~/tree --no-optional-locks status --short",
    ];
    torture("git", &command, |setting| {
        has("git") && {
            let steps = "mkdir ~/tree && cd ~/tree && git init -q . && cp /usr/include/linux/*.h . \
                && git add . && git -c user.name=n -c user.email=e commit -qm one \
                && echo >>fs.h && echo >new";
            let made = setting.plain(&["sh", "-c", steps]).outcome();
            made.assert_success();
            true
        }
    });
}

#[test]
fn make_builds_a_program() {
    torture("make", &["sh", "-c", "make -j1 && ./sum"], |setting| {
        for number in 1..=6 {
            let source = format!(
                "#include <stdio.h>\n#include <stdlib.h>\nint f{number}(int x) {{ return x * {number}; }}\n"
            );
            setting.scratch.file(format!("f{number}.c"), source);
        }
        setting.scratch.file("sum.c", include_str!("torture/sum.c"));
        setting
            .scratch
            .file("Makefile", include_str!("torture/Makefile"));
        has("make") && has("cc")
    });
}

#[test]
fn cp_copies_files_to_and_fro() {
    let script = "mkdir there && cp /usr/include/linux/[a-c]*.h there && cp -r there again && cat again/* | cksum";
    torture("cp", &["sh", "-c", script], |_| true);
}

#[test]
fn node_reads_and_compresses() {
    torture("node", &["node", "work.js"], |setting| {
        setting
            .scratch
            .file("work.js", include_str!("torture/work.js"));
        has("node")
    });
}

#[test]
fn perl_changes_files_in_every_way() {
    let command = ["perl", "change.pl"];
    let prepare = |setting: &Setting| {
        let program = include_str!("torture/change.pl");
        setting.scratch.file("change.pl", program);
        has("perl")
    };
    torture("change", &command, prepare);
    as_each_user(|setting| {
        if !prepare(setting) {
            return;
        }
        let mut arguments = vec!["run", "--name", "t", "--torture", "5:0.1"];
        arguments.extend(["--stats", "--json", "--"]);
        arguments.extend(command);
        let outcome = setting.surmise(&arguments).outcome();
        outcome.assert_success();
        let told = &outcome.stderr[outcome.stderr.find('{').expect("JSON")..];
        let object: serde_json::Value = serde_json::from_str(told).expect("JSON");
        let undone = &object["speculation"]["undone"]["changed file"];
        tell(format_args!("change: undone {undone} times"));
        assert!(undone.as_u64() > Some(0), "no change was undone");
    });
}

/// What is undecided is decided first: nothing of it is committed.
#[test]
fn a_tortured_domain_is_committed_while_it_runs() {
    const SCRIPT: &str =
        "for n in $(seq 80); do echo $n >file; test $(cat file) = $n || exit 1; done";
    as_each_user(|setting| {
        let arguments = [
            "run",
            "--name",
            "t",
            "--torture",
            "3:0.1",
            "--",
            "sh",
            "-c",
            SCRIPT,
        ];
        let committed = thread::scope(|scope| {
            let run = scope.spawn(|| setting.surmise(&arguments).outcome());
            let mut committed = 0;
            while !run.is_finished() && committed < 3 {
                let outcome = setting.surmise(&["commit", "t"]).outcome();
                committed += usize::from(
                    outcome.stdout.contains("goes on") || outcome.stderr.contains("goes on"),
                );
                // Truncated, or written.
                let line = std::fs::read_to_string(setting.scratch.path("file"));
                let line = line.unwrap_or_default();
                assert!(matches!(line.trim().parse::<u32>(), Ok(1..=80)) || line.is_empty());
            }
            let outcome = run.join().expect("run");
            outcome.assert_success();
            committed
        });
        assert!(committed > 0, "it was never committed while it ran");
        let _ = setting.surmise(&["commit", "t"]).outcome();
        let last = std::fs::read_to_string(setting.scratch.path("file")).expect("read");
        assert_eq!(last, "80\n");
    });
}

/// The supervisor waits for a reader of what was held, and the task that it traces for the supervisor.
#[test]
fn a_reader_that_takes_nothing_does_not_keep_an_aborted_domain() {
    as_each_user(|setting| {
        compile(setting, "flood.c", &["gcc", "-O1"]);
        let surmise = surmise_binary().display();
        for seed in 1..=6 {
            let run = format!("{surmise} run --name t --torture {seed}:0.2 -- ./flood");
            let script = format!(
                "rm -f pipe; mkfifo pipe; sleep 10 <pipe & reader=$!; {run} >pipe; kill $reader"
            );
            thread::scope(|scope| {
                scope.spawn(|| setting.plain(&["sh", "-c", &script]).outcome());
                // By then it has written more than a pipe holds.
                thread::sleep(Duration::from_millis(1500));
                let begun = Instant::now();
                setting.succeed(&["abort", "t"]);
                let taken = begun.elapsed();
                assert!(taken < Duration::from_secs(3), "seed {seed}: {taken:?}");
            });
        }
    });
}

/// Runs a command plainly and tortured, as each user and with each seed, in trees that `prepare` has made
/// alike; it returns whether the command can run here.
fn torture(name: &str, command: &[&str], prepare: impl Fn(&Setting) -> bool) {
    as_each_user(|setting| {
        let plain = setting.twin();
        if !prepare(&plain) {
            return;
        }
        let wanted = plain.plain(command).outcome();
        let tree = TreeSnapshot::of(plain.scratch.work());
        let mut guessed = BTreeSet::new();
        for seed in 1..=seeds() {
            let place = setting.twin();
            assert!(prepare(&place));
            let rate = RATES[seed % RATES.len()];
            let torture = format!("{seed}:{rate}");
            let mut arguments = vec!["run", "--name", "t", "--torture", &torture];
            arguments.extend(["--stats", "--json", "--"]);
            arguments.extend(command);
            let got = place.surmise(&arguments).outcome();
            let told = got.stderr.strip_prefix(&wanted.stderr);
            assert!(
                (got.code, &got.stdout) == (wanted.code, &wanted.stdout) && told.is_some(),
                "{name} tortured with {torture}: {got:?}\nplainly: {wanted:?}"
            );
            guessed.extend(kinds(&self::told(told.unwrap_or_default())));
            let _ = place.surmise(&["commit", "t"]).outcome();
            let left = TreeSnapshot::of(place.scratch.work());
            assert_same_tree(&tree, &left, Facets::SAME_RESULT);
        }
        tell(format_args!(
            "{name}: {} kinds of call guessed",
            guessed.len()
        ));
        let enough = guessed.len() >= KINDS_MIN || seeds() < 20;
        assert!(enough, "{name}: only {guessed:?} were guessed");
    });
}

fn seeds() -> usize {
    let seeds = std::env::var("SURMISE_SEEDS");
    seeds.map_or(1, |seeds| seeds.parse().expect("SURMISE_SEEDS is a number"))
}

/// What was told as JSON.
fn told(stderr: &str) -> serde_json::Value {
    // What the domain holds is said before.
    let last = stderr.lines().last().unwrap_or_default();
    serde_json::from_str(last).expect("JSON")
}

/// The calls of which results were guessed.
fn kinds(told: &serde_json::Value) -> Vec<String> {
    let calls = told["speculation"]["calls"].as_array().expect("calls");
    calls
        .iter()
        .filter(|call| call["predictions"].as_u64() > Some(0))
        .map(|call| call["name"].as_str().expect("a name").to_owned())
        .collect()
}

/// Whether a program is there.
fn has(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output()
        .expect("start sh");
    if !found.status.success() {
        skip(format_args!("there is no {program} here"));
    }
    found.status.success()
}

/// Compiles one of the programs in tests/tracees into the tree.
fn compile(setting: &Setting, source: &str, compiler: &[&str]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tracees");
    let name = source.split('.').next().expect("a name");
    // Where both users may read it, and built by whoever runs the tests.
    let status = Command::new(compiler[0])
        .args(&compiler[1..])
        .arg("-o")
        .arg(setting.scratch.work().join(name))
        .arg(path.join(source))
        .status()
        .expect("start the compiler");
    assert!(status.success(), "{source}: {status}");
}
