//! The suite of a far directory: what programs take on `surmise mount`, on sshfs and on the directory itself, over a
//! delay line between two network namespaces.

mod compare;
pub mod figure;
mod files;
mod held;
mod host;
mod line;
pub mod loops;
mod namespace;
pub mod own;
mod packet;
mod report;
pub mod row;
mod server;
mod timed;
pub mod trial;
pub mod work;

use std::time::Duration;

use surmise_testkit::is_installed;

use crate::place::Place;
use files::{ALL, Kind, Mounter};
use host::{Host, PORT};
use line::Line;
use report::Outcome;
use row::{At, Row};
use trial::Trial;

/// What the line, the server and their clients are made with.
const PROGRAMS: [&str; 4] = ["ip", "ssh", "ssh-keygen", "unshare"];

/// How many bytes a link's limit is measured by: two seconds at 20 Mbit/s.
const RATE_BYTES: usize = 5_000_000;

/// How samples are taken.
#[derive(Clone, Copy)]
pub struct Options {
    /// How many rounds count.
    pub rounds: u32,
    /// After what time sshfs is stopped.
    pub cap: Duration,
    /// Whether other programs of the kind are measured.
    pub has_rivals: bool,
}

/// The far host and the way to it.
struct Far<'a> {
    place: &'a Place,
    line: &'a Line,
    host: &'a Host,
    options: Options,
    /// Why a file system is not measured.
    missing: [Option<String>; 3],
}

/// Measures `rows`, prints and saves what comes, and returns whether no target was missed. A row that cannot be
/// measured does not keep the others from it.
pub fn measure(
    place: &Place,
    suite: &str,
    rows: &[&Row],
    options: Options,
) -> Result<bool, String> {
    let Some(first) = rows.first() else {
        return Ok(true);
    };
    if let Some(program) = PROGRAMS.iter().find(|program| !is_installed(program)) {
        println!("{suite}: not measured: there is no {program} here");
        return Ok(true);
    }
    let line = Line::open(first.at.link())?;
    let host = match Host::start(place, &line) {
        Ok(host) => host,
        Err(reason) => {
            println!("{suite}: not measured: {reason}");
            return Ok(true);
        }
    };
    let far = Far {
        place,
        line: &line,
        host: &host,
        options,
        missing: ALL.map(|kind| match kind {
            Kind::Sshfs if !options.has_rivals => Some("--no-rivals was given".to_owned()),
            kind => kind.missing(place),
        }),
    };
    far.introduce();
    far.rows(suite, rows)
}

impl Far<'_> {
    fn introduce(&self) {
        for (kind, reason) in ALL.iter().zip(&self.missing) {
            if let Some(reason) = reason {
                println!("{} is not measured: {reason}", kind.name());
            }
        }
        let local = files::name_of_local(self.place.bench());
        println!("local is the directory that is exported, on {local}");
    }

    fn rows(&self, suite: &str, rows: &[&Row]) -> Result<bool, String> {
        let mut outcomes = Vec::new();
        let mut all_met = true;
        let mut link: Option<(At, Duration)> = None;
        for row in rows {
            if let Some(program) = row.work.missing_program() {
                println!(
                    "{:<24} not measured: there is no {program} here",
                    row.name("")
                );
                continue;
            }
            let round_trip = match link {
                Some((at, round_trip)) if at == row.at => round_trip,
                _ => self.set(row.at)?,
            };
            link = Some((row.at, round_trip));
            match self.row(row, round_trip) {
                Ok(found) => {
                    all_met &= found.iter().all(|outcome| outcome.pass);
                    outcomes.extend(found);
                    report::save(self.place, suite, &outcomes)?;
                }
                Err(error) => {
                    eprintln!("\r\x1b[KError: {}: {error}", row.name(""));
                    all_met = false;
                }
            }
        }
        report::print_notes(&outcomes);
        let path = report::save(self.place, suite, &outcomes)?;
        println!("samples: {}, and a picture beside them", path.display());
        Ok(all_met)
    }

    /// Has the line be such a link, tells what it measures as, and returns the round trip.
    fn set(&self, at: At) -> Result<Duration, String> {
        let link = at.link();
        self.line.set(link);
        let measured = self.line.round_trip(PORT)?;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        print!(
            "link {}: a round trip of {:.1} ms is wanted; to connect takes {:.2} ms, at least {:.2} ms",
            at.name(),
            ms(link.round_trip),
            ms(measured.median),
            ms(measured.least)
        );
        if link.bits_per_s.is_some() {
            print!(
                "; a program sends {:.1} Mbit/s",
                self.line.rate(RATE_BYTES)? / 1e6
            );
        }
        println!();
        report::print_head();
        Ok(measured.median)
    }

    fn row(&self, row: &Row, round_trip: Duration) -> Result<Vec<Outcome>, String> {
        let mounter = Mounter::new(self.place, self.line, self.host);
        let trial = Trial {
            place: self.place,
            line: self.line,
            host: self.host,
            mounter: &mounter,
            work: row.work,
            inputs: row.work.inputs(self.place)?,
            round_trip,
            cap: self.options.cap,
        };
        let rounds = self.options.rounds;
        let missing = |kind| {
            let index = ALL.iter().position(|one| *one == kind)?;
            self.missing[index].clone()
        };
        let compared = compare::compare(rounds, missing, |round, kind| {
            let name = kind.name();
            eprint!(
                "\r\x1b[K{}: {name}, round {round} of {rounds} ",
                row.name("")
            );
            trial.sample(kind)
        });
        eprint!("\r\x1b[K");
        let compared = compared?;
        let outcome =
            |told: &row::Told| Outcome::new(row.name(told.suffix), told, round_trip, &compared);
        let outcomes: Vec<_> = row.told.iter().map(outcome).collect();
        outcomes.iter().for_each(Outcome::print);
        for (one, missing) in compared.iter().zip(&self.missing) {
            if let (Some(reason), None) = (&one.reason, missing) {
                println!("  {} fails: {reason}", one.kind.name());
            }
        }
        Ok(outcomes)
    }
}
