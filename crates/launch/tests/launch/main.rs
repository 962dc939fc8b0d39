//! Domains started for real: as root and as an ordinary user, with watchdogs.
//!
//! A launch wants a process of one thread, which a test harness is not. So this program is also
//! the caller: started with `caller` as its first argument it runs a domain, otherwise the tests.
#![allow(clippy::print_stderr, clippy::print_stdout)]

mod caller;
mod cascades;
mod client;
mod commits;
mod deadlocks;
mod inside;
mod kills;
mod liveness;
mod setting;
mod signals;
mod speculation;
mod status;
mod streams;
mod strike;
mod terminal;
mod writer;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use crate::setting::Setting;

type Test = (&'static str, fn(&Setting));

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == "caller") {
        return caller::main(arguments.collect());
    }
    let tests: Vec<Test> = [
        status::TESTS,
        inside::TESTS,
        signals::TESTS,
        liveness::TESTS,
        kills::TESTS,
        cascades::TESTS,
        commits::TESTS,
        deadlocks::TESTS,
        streams::TESTS,
        terminal::TESTS,
        speculation::TESTS,
    ]
    .concat();
    let trials = tests.into_iter().flat_map(|(name, test)| {
        Setting::all().map(move |(who, setting)| {
            Trial::test(format!("{name}::{who}"), move || {
                if let Some(setting) = setting() {
                    test(&setting);
                }
                Ok(())
            })
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
