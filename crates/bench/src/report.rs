//! Results, as a table, as JSON and as a picture.

use std::fs;
use std::path::PathBuf;

use serde::Serialize;

use crate::limit::Limit;
use crate::measure::{Sample, median};
use crate::messages::Messages;
use crate::place::{Place, about};
use crate::plot::{self, Drawn, Other};
use crate::rival::{self, Rival, Rivals};
use crate::told::Told;

/// What came of one row.
#[derive(Serialize)]
pub struct Outcome {
    /// The row's name.
    pub test: String,
    /// Of `ours`, `peer` and the samples' values.
    pub unit: &'static str,
    /// The median of ours.
    pub ours: f64,
    /// The median of the peer's.
    pub peer: f64,
    /// Who the peer is.
    pub peer_name: String,
    /// `ours / peer`.
    pub ratio: f64,
    /// The number of the limit; null if there is none.
    pub target: Option<f64>,
    /// What the number limits: `ratio_max`, `ratio_min`, `added_max` (to `ours - peer`) or `ours_max`.
    pub target_is: Option<&'static str>,
    /// The same, for the table.
    #[serde(skip)]
    pub limit: Limit,
    /// Whether the limit is kept.
    pub pass: bool,
    /// The median of our user time, plus that of our system time.
    pub ours_processor_ms: f64,
    /// The same of the peer.
    pub peer_processor_ms: f64,
    /// Every sample that counts, in the order they were taken.
    pub samples: Samples,
    /// What those of ours told of their speculation, with the same indices; empty for a row that has none.
    pub told: Vec<Told>,
    /// How many messages the view was sent in one more run; null where that is not told.
    pub messages: Option<Messages>,
    /// Others that were measured besides.
    pub beside: Vec<Beside>,
}

/// What came of a rival in one row.
#[derive(Serialize)]
pub struct Beside {
    /// Who it is.
    #[serde(rename = "name")]
    pub rival: Rival,
    /// Its median divided by that of the row's peer; null if it fails at this.
    pub ratio: Option<f64>,
    /// Why it fails.
    pub reason: Option<String>,
    /// Taken between the first pairs.
    pub samples: Vec<Sample>,
}

/// The samples of both sides; those of one pair have the same index.
#[derive(Serialize)]
pub struct Samples {
    /// Ours.
    pub ours: Vec<Sample>,
    /// The peer's.
    pub peer: Vec<Sample>,
}

impl Beside {
    /// One that has not run yet.
    pub fn new(rival: Rival) -> Self {
        Self {
            rival,
            ratio: None,
            reason: None,
            samples: Vec::new(),
        }
    }

    /// Notes what came of a sample.
    pub fn take(&mut self, sample: Result<Sample, String>) {
        match sample {
            Ok(sample) => self.samples.push(sample),
            // What the program said last, or else with which status it ended.
            Err(error) => {
                let said = error.lines().rfind(|line| !line.trim().is_empty());
                self.reason = said.map(str::to_owned);
            }
        }
    }

    /// With its ratio to the peer of the row. One that failed once has none.
    pub fn compared_with(mut self, peer: f64) -> Self {
        if self.reason.is_none() && !self.samples.is_empty() {
            self.ratio = Some(median(&self.samples).value / peer);
        }
        self
    }

    /// The same for the processor time.
    pub fn of_processor(&self) -> Self {
        Self {
            rival: self.rival,
            ratio: None,
            reason: self.reason.clone(),
            samples: self.samples.iter().map(of_processor).collect(),
        }
    }
}

impl Samples {
    /// The same for the processor time.
    pub fn of_processor(&self) -> Self {
        Self {
            ours: self.ours.iter().map(of_processor).collect(),
            peer: self.peer.iter().map(of_processor).collect(),
        }
    }
}

fn of_processor(sample: &Sample) -> Sample {
    Sample {
        value: sample.user_ms + sample.system_ms,
        ..*sample
    }
}

/// Prints the head of the table.
pub fn print_head(rivals: &Rivals) {
    print!(
        "{:<21} {:>9} {:>9} {:<4} {:>6} {:>8} {:>6}",
        "test", "ours", "peer", "unit", "ratio", "target", ""
    );
    for rival in rivals.runnable() {
        print!(" {:>9}", rival.name());
    }
    println!(" {:>11} {:>11}  peer", "ours cpu ms", "peer cpu ms");
}

impl Outcome {
    /// Prints its line of the table.
    pub fn print(&self, rivals: &Rivals) {
        let verdict = match self.limit {
            Limit::None => "",
            _ if self.pass => "ok",
            _ => "MISSED",
        };
        print!(
            "{:<21} {:>9.1} {:>9.1} {:<4} {:>6.2} {:>8} {verdict:>6}",
            self.test, self.ours, self.peer, self.unit, self.ratio, self.limit,
        );
        for rival in rivals.runnable() {
            let beside = self.beside.iter().find(|one| one.rival == rival);
            let text = match beside.map(|one| (one.ratio, &one.reason)) {
                Some((Some(ratio), _)) => format!("{ratio:.2}"),
                Some((None, Some(_))) => "fails".to_owned(),
                _ => "-".to_owned(),
            };
            print!(" {text:>9}");
        }
        println!(
            " {:>11.1} {:>11.1}  {}",
            self.ours_processor_ms, self.peer_processor_ms, self.peer_name
        );
        if let Some(messages) = &self.messages {
            println!("  {messages}");
        }
        if let Some(told) = Told::median(&self.told) {
            println!("  {told}");
        }
    }
}

impl Outcome {
    fn drawn(&self) -> Drawn {
        let other = |one: &Beside| {
            Some(Other {
                name: one.rival.name(),
                ratio: one.ratio?,
                is_more: false,
            })
        };
        Drawn {
            name: self.test.clone(),
            ratio: Some(self.ratio),
            pass: self.pass,
            target: match self.limit {
                Limit::RatioMax(ratio) | Limit::RatioMin(ratio) => Some(ratio),
                Limit::AddedMax(_) | Limit::OursMax(_) | Limit::None => None,
            },
            beside: self.beside.iter().filter_map(other).collect(),
        }
    }
}

/// Tells who of the rivals could not be compared with, and why.
pub fn print_notes(rivals: &Rivals, results: &[Outcome]) {
    if rivals.runnable().next().is_some() {
        println!("the columns of others are their ratios to the peer, as `ratio` is ours");
    }
    for (rival, reason) in rivals.missing() {
        println!("{} is not compared: {reason}", rival.name());
    }
    for rival in rival::ALL {
        let failed = |outcome: &&Outcome| {
            let reason = |one: &Beside| one.rival == *rival && one.reason.is_some();
            outcome.beside.iter().any(reason)
        };
        for outcome in results.iter().filter(failed) {
            let one = outcome.beside.iter().find(|one| one.rival == *rival);
            let reason = one
                .and_then(|one| one.reason.as_deref())
                .unwrap_or_default();
            println!("{} fails at {}: {reason}", rival.name(), outcome.test);
        }
    }
}

/// Writes `target/bench/SUITE.json`, an array with one object a row, and `SUITE.svg`, and tells where
/// the former is.
pub fn save(place: &Place, suite: &str, results: &[Outcome]) -> Result<PathBuf, String> {
    let path = place.plot(suite);
    let drawn: Vec<_> = results.iter().map(Outcome::drawn).collect();
    let title = "ratios to each row's peer, medians";
    fs::write(&path, plot::plot(suite, title, &drawn))
        .map_err(|error| about("write", &path, &error))?;
    let path = place.results(suite);
    let text =
        serde_json::to_string_pretty(results).map_err(|error| about("write", &path, &error))?;
    fs::write(&path, text + "\n").map_err(|error| about("write", &path, &error))?;
    Ok(path)
}
