//! Results, as a table and as JSON.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// One line of the table.
#[derive(Serialize)]
struct Outcome<'a> {
    test: String,
    unit: &'static str,
    /// The median.
    ours: f64,
    target: Option<f64>,
    target_is: Option<&'static str>,
    pass: bool,
    samples: &'a [f64],
}

/// All lines so far.
pub struct Report {
    lines: Vec<serde_json::Value>,
    is_met: bool,
}

impl Report {
    /// Prints the head of the table, and how busy the machine is: two processes take turns here, so who
    /// else runs shows more than elsewhere.
    pub fn new() -> Self {
        let load = fs::read_to_string("/proc/loadavg").expect("read the load");
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        println!(
            "load before: {} on {processors} processors",
            load.trim_end()
        );
        println!(
            "{:<12} {:<28} {:>10} {:>8} {:>8} {:>10} {:>7}",
            "process", "item", "median us", "10 %", "90 %", "target us", ""
        );
        Self {
            lines: Vec::new(),
            is_met: true,
        }
    }

    /// Adds a line, of samples in microseconds.
    pub fn add(&mut self, process: &str, item: &str, samples: &[f64], us_max: Option<f64>) {
        if samples.is_empty() {
            return println!("{process:<12} {item:<28} not measured");
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let part = |tenths: usize| sorted[(sorted.len() - 1) * tenths / 10];
        let median = part(5);
        let pass = us_max.is_none_or(|us_max| median <= us_max);
        self.is_met &= pass;
        let verdict = match us_max {
            None => "",
            Some(_) if pass => "met",
            Some(_) => "MISSED",
        };
        let target = us_max.map_or_else(String::new, |us_max| us_max.to_string());
        println!(
            "{process:<12} {item:<28} {median:>10.1} {:>8.1} {:>8.1} {target:>10} {verdict:>7}",
            part(1),
            part(9)
        );
        let outcome = Outcome {
            test: format!("{process}: {}", item.trim()),
            unit: "us",
            ours: median,
            target: us_max,
            target_is: us_max.map(|_| "ours_max"),
            pass,
            samples,
        };
        let line = serde_json::to_value(outcome).expect("plain numbers");
        self.lines.push(line);
    }

    /// Writes the samples. Whether all targets are met.
    pub fn finish(self) -> bool {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
        let path = directory.join("rollback.json");
        let text = serde_json::to_string_pretty(&self.lines).expect("plain values");
        let written = fs::create_dir_all(&directory).and_then(|()| fs::write(&path, text + "\n"));
        written.unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
        println!("samples: target/bench/rollback.json");
        self.is_met
    }
}
