//! The results of a remote suite, as a table, as JSON and as a picture.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::compare::Compared;
use super::figure::{Figure, Target, Verdict};
use super::files::Kind;
use super::row::Told;
use crate::place::{Place, about};
use crate::plot::{self, Drawn, Other};

/// What came of one value of a row.
#[derive(Serialize)]
pub struct Outcome {
    /// Its name.
    pub test: String,
    /// Of all its numbers.
    unit: &'static str,
    /// As it was measured before the row.
    round_trip_ms: f64,
    /// `surmise mount`.
    ours: Side,
    sshfs: Side,
    /// The directory without a network.
    local: Side,
    /// sshfs divided by ours.
    times_sshfs: Option<Number>,
    /// Ours divided by the local directory.
    of_local: Option<Number>,
    targets: Vec<Judged>,
    /// Whether no target was missed.
    pub pass: bool,
}

/// What came of one file system.
#[derive(Serialize)]
struct Side {
    median: Option<Number>,
    samples: Vec<Number>,
    /// Why there are no samples, or no more.
    reason: Option<String>,
}

#[derive(Serialize)]
struct Judged {
    #[serde(serialize_with = "as_text")]
    target: Target,
    verdict: &'static str,
}

/// As JSON, a number or the text `>60000`.
#[derive(Clone, Copy)]
struct Number(Figure);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_more() {
            serializer.serialize_str(&format!(">{}", self.0.number()))
        } else {
            serializer.serialize_f64(self.0.number())
        }
    }
}

fn as_text<S: Serializer>(target: &Target, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(target)
}

impl Outcome {
    /// One value of what was compared, ours first, then sshfs and the local directory.
    pub fn new(test: String, told: &Told, round_trip: Duration, compared: &[Compared; 3]) -> Self {
        let [ours, sshfs, local] = compared.each_ref().map(|one| Side::of(one, told));
        let medians = [&ours, &sshfs, &local].map(|side| side.median.map(|number| number.0));
        let [of_ours, of_sshfs, of_local] = medians;
        let judge = |target: &Target| (*target, target.verdict(of_ours, of_sshfs, of_local));
        let judged: Vec<_> = told.targets.iter().map(judge).collect();
        let over = |above: Option<Figure>, below: Option<Figure>| {
            let below = below.filter(|below| !below.is_more() && below.number() > 0.0)?;
            Some(Number(above?.over(below.number())))
        };
        Self {
            test,
            unit: told.value.unit(),
            round_trip_ms: round_trip.as_secs_f64() * 1e3,
            times_sshfs: over(of_sshfs, of_ours),
            of_local: over(of_ours, of_local),
            ours,
            sshfs,
            local,
            pass: judged
                .iter()
                .all(|(_, verdict)| *verdict != Verdict::Missed),
            targets: judged
                .into_iter()
                .map(|(target, verdict)| Judged {
                    target,
                    verdict: verdict.name(),
                })
                .collect(),
        }
    }

    /// Prints its line of the table.
    pub fn print(&self) {
        let text = |number: Option<Number>, digits: usize| {
            number.map_or_else(|| "-".to_owned(), |number| format!("{:.digits$}", number.0))
        };
        let median = |side: &Side| text(side.median, 1);
        let targets: Vec<_> = self.targets.iter().map(Judged::text).collect();
        println!(
            "{:<24} {:>10} {:>10} {:>10} {:<4} {:>11} {:>10}  {}",
            self.test,
            median(&self.ours),
            median(&self.sshfs),
            median(&self.local),
            self.unit,
            text(self.times_sshfs, 1),
            text(self.of_local, 2),
            targets.join(", ")
        );
    }

    /// Bars for ours and sshfs, by the local directory.
    fn drawn(&self) -> Option<Drawn> {
        let local = self.local.median?.0.number();
        let ratio = |side: &Side| side.median.map(|median| median.0.number() / local);
        let sshfs = self.sshfs.median.map(|median| Other {
            name: Kind::Sshfs.name(),
            ratio: median.0.number() / local,
            is_more: median.0.is_more(),
        });
        let target = |judged: &Judged| match judged.target {
            Target::OfLocal(most) => Some(most),
            Target::Max(most) => Some(most / local),
            Target::TimesSshfs(_) => None,
        };
        Some(Drawn {
            name: self.test.clone(),
            ratio: ratio(&self.ours),
            pass: self.pass,
            target: self.targets.iter().find_map(target),
            beside: sshfs.into_iter().collect(),
        })
    }
}

impl Side {
    fn of(compared: &Compared, told: &Told) -> Self {
        let figures = compared.figures(told.value);
        Self {
            median: Figure::median(&figures).map(Number),
            samples: figures.into_iter().map(Number).collect(),
            reason: compared.reason.clone(),
        }
    }
}

impl Judged {
    fn text(&self) -> String {
        format!("{} {}", self.target, self.verdict)
    }
}

/// Prints the head of the table.
pub fn print_head() {
    println!(
        "{:<24} {:>10} {:>10} {:>10} {:<4} {:>11} {:>10}  targets of ours",
        "test", "ours", "sshfs", "local", "unit", "sshfs/ours", "ours/local"
    );
}

/// Tells what a `>` in the table is.
pub fn print_notes(outcomes: &[Outcome]) {
    let stopped = |outcome: &Outcome| {
        outcome
            .sshfs
            .median
            .is_some_and(|median| median.0.is_more())
    };
    if outcomes.iter().any(stopped) {
        println!(
            "`>`: sshfs was stopped there and would have taken more; later steps were not begun; \
             --cap SECONDS has it go on"
        );
    }
}

/// Writes `target/bench/SUITE.json`, an array with one object a value of a row, and `SUITE.svg`, and tells where the
/// former is.
pub fn save(place: &Place, suite: &str, outcomes: &[Outcome]) -> Result<PathBuf, String> {
    let drawn: Vec<_> = outcomes.iter().filter_map(Outcome::drawn).collect();
    let path = place.plot(suite);
    let title = "multiples of the local directory's time, medians";
    fs::write(&path, plot::plot(suite, title, &drawn))
        .map_err(|error| about("write", &path, &error))?;
    let path = place.results(suite);
    let text =
        serde_json::to_string_pretty(outcomes).map_err(|error| about("write", &path, &error))?;
    fs::write(&path, text + "\n").map_err(|error| about("write", &path, &error))?;
    Ok(path)
}
