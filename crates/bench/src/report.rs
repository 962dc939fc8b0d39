//! Results, as a table and as JSON.

use std::fs;
use std::path::PathBuf;

use serde::Serialize;

use crate::limit::Limit;
use crate::measure::Sample;
use crate::place::{Place, about};

/// What came of one row.
#[derive(Serialize)]
pub struct Outcome {
    /// The row's name.
    pub test: &'static str,
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
}

/// The samples of both sides; those of one pair have the same index.
#[derive(Serialize)]
pub struct Samples {
    /// Ours.
    pub ours: Vec<Sample>,
    /// The peer's.
    pub peer: Vec<Sample>,
}

/// Prints the head of the table.
pub fn print_head() {
    println!(
        "{:<18} {:>10} {:>10} {:<5} {:>7} {:>8} {:>6} {:>12} {:>12}  peer",
        "test", "ours", "peer", "unit", "ratio", "target", "", "ours cpu ms", "peer cpu ms"
    );
}

impl Outcome {
    /// Prints its line of the table.
    pub fn print(&self) {
        let verdict = match self.limit {
            Limit::None => "",
            _ if self.pass => "ok",
            _ => "MISSED",
        };
        println!(
            "{:<18} {:>10.1} {:>10.1} {:<5} {:>7.3} {:>8} {:>6} {:>12.1} {:>12.1}  {}",
            self.test,
            self.ours,
            self.peer,
            self.unit,
            self.ratio,
            self.limit,
            verdict,
            self.ours_processor_ms,
            self.peer_processor_ms,
            self.peer_name
        );
    }
}

/// Writes `target/bench/SUITE.json`, an array with one object a row, and tells where it is.
pub fn save(place: &Place, suite: &str, results: &[Outcome]) -> Result<PathBuf, String> {
    let path = place.results(suite);
    let text =
        serde_json::to_string_pretty(results).map_err(|error| about("write", &path, &error))?;
    fs::write(&path, text + "\n").map_err(|error| about("write", &path, &error))?;
    Ok(path)
}
