//! The programs beside each other, under each way to sync: what power losses cost.

use surmise_testkit::{BlockLog, is_installed, skip, surmise_binary, tell};

use super::{
    APPENDING, COMMITTING, DISK_BYTES, Look, REPLACING, TRANSACTING, TRANSACTING_AHEAD, commits,
    limit, lines, losses, replaced, rows,
};

const PROGRAMS: [(&str, &str, Look); 5] = [
    ("appended lines", APPENDING, lines),
    ("sqlite, rollback journal", TRANSACTING, rows),
    ("sqlite, write-ahead log", TRANSACTING_AHEAD, rows),
    ("renamed over", REPLACING, replaced),
    ("git commit", COMMITTING, commits),
];

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
    let test = "synchrony::crash::table::each_program_is_compared_in_each_way";
    let limit = (PROGRAMS.len() * WAYS) as u32 * limit();
    BlockLog::with(test, DISK_BYTES, limit, |disk| {
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
            for (name, program, look) in PROGRAMS {
                let command = [way.before, &["python3", "-c", program, "sync", "10"]].concat();
                let found = losses(disk, (way.options, &command), None, look);
                let (states, lost, damaged) = (found.states, found.lost, found.damaged);
                tell(format_args!(
                    "{name} | {} | {states} | {lost} | {damaged}",
                    way.name
                ));
                wrong += lost + damaged;
            }
            match way.bound {
                Bound::None => assert_eq!(wrong, 0, "{}", way.name),
                Bound::Some => assert!(wrong > 0, "{}", way.name),
                Bound::Any => {}
            }
        }
    });
}
