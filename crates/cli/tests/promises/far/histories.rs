//! Histories of programs on three mounts of one directory, and whether one copy of it explains them.
//!
//! On each mount, a program makes random calls at the same time as the others: it creates, opens, reads, writes, appends, cuts,
//! links, renames, removes, looks, lists, syncs and locks. Calls that begin before others have returned may come in either
//! order. The checker searches for one order of all calls in which each says what it would say on one copy of the directory
//! (linearizability), but for what docs/remote.md tells of `rename` under "What it does not do". A call of stat is two steps,
//! which finds its object and then looks at that one, as Linux does it on a disk. Locks are flock(2) and fcntl(2) ones. A sync
//! has to succeed. At the end, the directory at the server has to be what the last call left.
//!
//! `SURMISE_OPERATIONS=100000` makes so many calls in each history, `SURMISE_SEED=N` the calls of that seed. When which call is
//! made is not repeated.

use std::path::PathBuf;
use std::time::SystemTime;

use surmise_testkit::tell;

use super::{Far, number};
use crate::setting::as_own_user;

const RECORD: &str = include_str!("histories/record.py");
const CHECK: &str = include_str!("histories/check.py");
const CASES: &str = include_str!("histories/cases.py");

/// How many calls are made, unless `SURMISE_OPERATIONS` says so.
const CALLS: u64 = 600;
const MOUNTS: [&str; 3] = ["one", "two", "three"];
/// Three programs, eight calls of each.
const CALLS_A_ROUND: u64 = 24;
/// How long a history may take to be made or checked, and again for each thousand of its calls.
const SECONDS: u64 = 200;

fn new_seed() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
    u64::from(since.subsec_nanos())
}

fn program(far: &Far<'_>, name: &str) -> String {
    let path: PathBuf = far.setting.scratch.root().join("programs").join(name);
    path.display().to_string()
}

fn plant(far: &Far<'_>) {
    let programs = far.setting.scratch.root().join("programs");
    std::fs::create_dir(&programs).expect("make a directory");
    for (name, text) in [
        ("record.py", RECORD),
        ("check.py", CHECK),
        ("cases.py", CASES),
    ] {
        std::fs::write(programs.join(name), text).expect("write a program");
    }
}

/// Has programs work on three mounts, and searches for the order.
fn is_one_copy(breaks: bool) {
    let calls = number("SURMISE_OPERATIONS").unwrap_or(CALLS);
    let seed = number("SURMISE_SEED").unwrap_or_else(new_seed);
    tell(format_args!("SURMISE_SEED={seed}"));
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        plant(&far);
        let mounts = MOUNTS.map(|name| far.mount(name));
        let export = far.export().display().to_string();
        let record = program(&far, "record.py");
        let (rounds, seed) = (calls.div_ceil(CALLS_A_ROUND).to_string(), seed.to_string());
        let broken = if breaks { &export } else { "-" };
        let words = ["python3", "-B", &record, &rounds, &seed, broken];
        let run = setting.plain(&[&words[..], &MOUNTS].concat()).in_place();
        let recorded = run.seconds(SECONDS + SECONDS * calls / 1000).outcome();
        recorded.assert_success();
        for mount in mounts {
            mount.unmount();
        }
        let check = program(&far, "check.py");
        let words = ["python3", "-B", &check, "3", &export];
        let run = setting.plain(&words).in_place();
        let checked = run.seconds(SECONDS + SECONDS * calls / 1000).outcome();
        // It says the round that is wrong.
        assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
        tell(format_args!(
            "{}{}",
            recorded.stdout,
            checked.stdout.trim_end()
        ));
        if breaks {
            let told = &recorded.stdout;
            let nothing = [" 0 kills", " 0 connections"];
            assert!(!nothing.iter().any(|none| told.contains(none)), "{told}");
        }
    });
}

/// S55, and S59 of the locks.
#[test]
fn s55_s59_programs_on_three_mounts_see_one_copy() {
    is_one_copy(false);
}

/// The same while connections are cut, and the server is killed and another one follows: what was changed is there, and was
/// changed once.
#[test]
fn s55_s57_s59_programs_on_three_mounts_see_one_copy_whatever_breaks() {
    is_one_copy(true);
}

/// The checker itself, on histories that one copy explains and on some that it does not.
#[test]
fn a_history_that_one_copy_does_not_explain_is_found() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        plant(&far);
        let cases = program(&far, "cases.py");
        let outcome = setting.plain(&["python3", "-B", &cases]).outcome();
        outcome.assert_success();
        tell(outcome.stdout.trim_end());
    });
}
