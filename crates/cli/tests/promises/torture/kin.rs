//! S31: processes are born, exit and are collected in every order, and whatever of that is undone, each child is collected
//! once, with its status.
//!
//! `SURMISE_BIRTHS=10000` shares so many births among the kinds of guesses; without it, there are some hundred.

use surmise_testkit::tell;

use super::{compile, told};
use crate::setting::as_each_user;

const RIGHT: [&str; 2] = ["--predict-right", "1:30ms"];
/// Wrong ones of all kinds; some that are decided late, and wrong now and then or mostly; and right ones alone.
const GUESSES: [[&str; 2]; 4] = [
    ["--torture", "7:0.1"],
    ["--predict-right", "1:5ms:0.2"],
    ["--predict-right", "0.5:15ms:0.6"],
    RIGHT,
];
/// How long it may take for a hundred processes to be born and collected, on a busy machine.
const SECONDS_FOR_HUNDRED: u64 = 60;

#[test]
fn each_child_is_collected_once_in_whatever_order() {
    let wanted = births().div_ceil(GUESSES.len() as u64);
    as_each_user(|setting| {
        compile(setting, "kin.c", &["gcc", "-O1"]);
        let plain = setting.plain(&["./kin", &wanted.to_string()]).outcome();
        plain.assert_code(0).assert_stdout_contains("kin ok\n");
        // On a busy machine few parents ask before the decision.
        let mut told_at_all = 0;
        for guesses in GUESSES {
            let count = wanted.to_string();
            let mut arguments = [&["run", "--dry-run"], &guesses[..]].concat();
            arguments.extend(["--stats", "--json", "--", "./kin", &count]);
            let run = setting.surmise(&arguments);
            let got = run.seconds(SECONDS_FOR_HUNDRED * wanted.div_ceil(100));
            let got = got.outcome();
            got.assert_code(0).assert_stdout(&plain.stdout);
            let speculation = &told(&got.stderr)["speculation"];
            let count = |what: &str, kind: &str| speculation[what][kind].as_u64().unwrap_or(0);
            let made = ["birth", "exit"].map(|kind| count("objects", kind));
            let tidings = count("objects", "child");
            let undone = ["birth", "exit"].map(|kind| count("undone", kind));
            tell(format_args!(
                "{guesses:?}: {made:?} births and exits, {undone:?} undone, {tidings} told of"
            ));
            told_at_all += tidings;
            assert!(made.iter().all(|count| *count > 0), "{speculation}");
            let are_wrong = guesses != RIGHT;
            assert!(
                undone.iter().all(|count| (*count > 0) == are_wrong),
                "{speculation}"
            );
        }
        assert!(told_at_all > 0, "no parent was told");
    });
}

fn births() -> u64 {
    let wanted = std::env::var("SURMISE_BIRTHS");
    wanted.map_or(160, |count| {
        count.parse().expect("SURMISE_BIRTHS is a number")
    })
}
