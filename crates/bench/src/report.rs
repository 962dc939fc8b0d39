//! Results, as a table and as JSON.

use std::fs;

use serde::Serialize;

use crate::measure::Sample;
use crate::place::{Place, about};

/// What came of one row. Times are in seconds.
#[derive(Serialize)]
pub struct Outcome {
    /// The row's name.
    pub test: &'static str,
    /// The median of our wall times.
    pub ours: f64,
    /// The median of the peer's wall times.
    pub peer: f64,
    /// Who the peer is.
    pub peer_name: String,
    /// `ours / peer`.
    pub ratio: f64,
    /// The most that the ratio may be.
    pub target: f64,
    /// Whether it is.
    pub pass: bool,
    /// The median of our user time, plus that of our system time.
    pub ours_processor: f64,
    /// The same of the peer.
    pub peer_processor: f64,
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

/// Prints a table.
pub fn print(results: &[Outcome]) {
    println!(
        "{:<16} {:>10} {:>10} {:>7} {:>7} {:>6} {:>12} {:>12}  peer",
        "test", "ours ms", "peer ms", "ratio", "target", "", "ours cpu ms", "peer cpu ms"
    );
    for result in results {
        println!(
            "{:<16} {:>10.1} {:>10.1} {:>7.3} {:>7.2} {:>6} {:>12.1} {:>12.1}  {}",
            result.test,
            result.ours * 1e3,
            result.peer * 1e3,
            result.ratio,
            result.target,
            if result.pass { "ok" } else { "MISSED" },
            result.ours_processor * 1e3,
            result.peer_processor * 1e3,
            result.peer_name
        );
    }
}

/// Writes `target/bench/SUITE.json`, an array with one object a row.
pub fn save(place: &Place, suite: &str, results: &[Outcome]) -> Result<(), String> {
    let path = place.results(suite);
    let text =
        serde_json::to_string_pretty(results).map_err(|error| about("write", &path, &error))?;
    fs::write(&path, text + "\n").map_err(|error| about("write", &path, &error))?;
    println!("samples: {}", path.display());
    Ok(())
}
