//! The programs beside each other, under each way to sync: what power losses cost.

use surmise_testkit::{BlockLog, is_installed, skip, surmise_binary, tell};

use super::ahead::AHEAD;
use super::ledger::states;
use super::postgres::{self, POSTGRES};
use super::programs::{COMMITS, LINES, RENAMED, ROLLBACK};
use super::trial::Trial;
use super::{DISK_BYTES, limit, named};

/// How many ways there are to sync.
const WAYS: usize = 3;

/// How the program is run.
struct Way<'w> {
    name: &'w str,
    options: &'w str,
    before: &'w [&'w str],
    /// How many states may be wrong, of all programs.
    bound: Bound,
}

#[derive(Clone, Copy, PartialEq)]
enum Bound {
    None,
    Some,
    /// As many as the programs deserve: with a rollback journal, SQLite does not sync the directory after the
    /// journal's removal, which is the commit, unless it is told `synchronous=extra`.
    Any,
}

/// One line for each program and way: `program | way | states | lost | damaged`.
#[test]
fn each_program_is_compared_in_each_way() {
    if std::env::var_os("SURMISE_STATES").is_none() {
        return skip("it is long, and a part of make soak: SURMISE_STATES says how many states");
    }
    for program in ["eatmydata", "git"] {
        if !is_installed(program) {
            return skip(format_args!("{program} is not installed"));
        }
    }
    if postgres::programs().is_none() {
        return skip("PostgreSQL is not installed");
    }
    let test = named("table::each_program_is_compared_in_each_way");
    let programs = [LINES, ROLLBACK, AHEAD, RENAMED, COMMITS, POSTGRES];
    let limit = (programs.len() * WAYS) as u32 * limit();
    BlockLog::with(&test, DISK_BYTES, limit, |disk| {
        let binary = surmise_binary().display().to_string();
        let way = |name, options, before, bound| Way {
            name,
            options,
            before,
            bound,
        };
        let sync = [&binary, "sync", "--"];
        let ways: [_; WAYS] = [
            way("real syncs, ordered", "", &[][..], Bound::Any),
            way("eatmydata, ordered", "", &["eatmydata", "--"], Bound::Some),
            way(
                "surmise sync, data=journal",
                "data=journal",
                &sync,
                Bound::None,
            ),
        ];
        tell("program | way | states | lost | damaged");
        for way in &ways {
            let mut wrong = 0;
            for program in &programs {
                let found = Trial {
                    program,
                    command: &program.command(way.before, &["sync", "10"]),
                    options: way.options,
                    kill: None,
                    states: states(),
                }
                .run(disk);
                tell(format_args!(
                    "{} | {} | {} | {} | {}",
                    program.name, way.name, found.states, found.lost, found.damaged
                ));
                wrong += found.wrong();
            }
            match way.bound {
                Bound::None => assert_eq!(wrong, 0, "{}", way.name),
                Bound::Some => assert!(wrong > 0, "{}", way.name),
                Bound::Any => {}
            }
        }
    });
}
