//! What was tried already, so that many hours of it can be cut short and gone on with.
//!
//! One line a batch: the name of the program, and how many states there were, lost and damaged; between tabs.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use super::trial::Found;

/// States from one recording of a program, where there is a ledger: the next batch runs it anew, for no two
/// runs flush alike.
const BATCH: usize = 100;

/// How many states are wanted, and where what is found of them is kept.
pub(super) struct Ledger {
    file: Option<PathBuf>,
    wanted: usize,
}

impl Ledger {
    /// As `SURMISE_STATES` and `SURMISE_LEDGER` say, the path of a file.
    pub(super) fn of_environment() -> Self {
        Self {
            file: std::env::var_os("SURMISE_LEDGER").map(PathBuf::from),
            wanted: states(),
        }
    }

    /// Tries a program, so many states at once, until there are as many as are wanted. Returns what was found
    /// of all.
    pub(super) fn fill(&self, program: &str, mut batch: impl FnMut(usize) -> Found) -> Found {
        let Some(path) = &self.file else {
            return batch(self.wanted);
        };
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut all = Found::default();
        let known = text.lines().filter_map(line);
        known
            .filter(|(of, _)| *of == program)
            .for_each(|(_, found)| all += found);
        let file = File::options().create(true).append(true).open(path);
        let mut file = file.expect("open the ledger");
        if !text.is_empty() && !text.ends_with('\n') {
            writeln!(file).expect("write the ledger");
        }
        while all.states < self.wanted {
            let found = batch(BATCH.min(self.wanted - all.states));
            let (states, lost, damaged) = (found.states, found.lost, found.damaged);
            writeln!(file, "{program}\t{states}\t{lost}\t{damaged}").expect("write the ledger");
            all += found;
        }
        all
    }
}

/// What a line tells. One that was cut off is left out: its batch is tried again.
fn line(line: &str) -> Option<(&str, Found)> {
    let mut words = line.split('\t');
    let program = words.next()?;
    let mut number = || words.next()?.parse().ok();
    let found = Found {
        states: number()?,
        lost: number()?,
        damaged: number()?,
        example: None,
    };
    Some((program, found))
}

/// How many states a test tries of a program.
pub(super) fn states() -> usize {
    let states = std::env::var("SURMISE_STATES");
    states.map_or(30, |states| {
        states.parse().expect("SURMISE_STATES is a number")
    })
}

#[test]
fn what_was_tried_is_not_tried_again() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let path = directory.path().join("ledger");
    fs::write(
        &path,
        "one\t100\t0\t1\nother\t900\t0\t0\none\t50\t2\t0\none\t9",
    )
    .expect("write");
    let ledger = Ledger {
        file: Some(path.clone()),
        wanted: 300,
    };
    let mut batches = Vec::new();
    let mut tried = || {
        ledger.fill("one", |states| {
            batches.push(states);
            Found {
                states,
                ..Found::default()
            }
        })
    };
    let all = Found {
        states: 300,
        lost: 2,
        damaged: 1,
        example: None,
    };
    assert_eq!(tried(), all);
    assert_eq!(tried(), all);
    assert_eq!(batches, [100, 50]);
}
