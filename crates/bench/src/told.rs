//! What `surmise run --json --stats` tells of a domain's speculation: where its time went, and counts that
//! hardly depend on the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::measure::middle;

/// The words that have it told.
pub const OPTIONS: [&str; 2] = ["--json", "--stats"];

/// What one run told, or the median of several.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Told {
    /// Calls that the supervisor heard of.
    pub events: f64,
    /// Results that tasks were given before they were known.
    pub predictions: f64,
    /// Images of processes.
    pub checkpoints: f64,
    /// All waits for a decision.
    pub waits: Waits,
    /// The same, by the kind of object that was waited for.
    pub waits_by_kind: BTreeMap<String, Waits>,
    /// The same, by the call that waited.
    pub waits_by_call: BTreeMap<String, Waits>,
}

/// How often anything waited, and how long altogether: tasks wait side by side, so the sum may be longer than
/// the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Waits {
    /// How often.
    pub count: f64,
    /// How long.
    pub time_ms: f64,
}

/// The object that the command prints, as far as it is of use here.
#[derive(Deserialize)]
struct Line {
    speculation: Speculation,
}

#[derive(Deserialize)]
struct Speculation {
    predictions: u32,
    checkpoints: Work,
    calls: Vec<Call>,
    waits: BTreeMap<String, Work>,
}

#[derive(Clone, Copy, Deserialize)]
struct Work {
    count: u32,
    time_us: u64,
}

#[derive(Deserialize)]
struct Call {
    name: String,
    events: u32,
    waits: Work,
}

impl From<Work> for Waits {
    #[expect(clippy::cast_precision_loss, reason = "exact below 285 years")]
    fn from(work: Work) -> Self {
        Self {
            count: work.count.into(),
            time_ms: work.time_us as f64 / 1e3,
        }
    }
}

impl Told {
    /// From what a run printed on standard error; the object is its last line.
    pub fn parse(printed: &str) -> Result<Self, String> {
        let line = printed.lines().last().unwrap_or_default();
        let Line { speculation } = serde_json::from_str(line)
            .map_err(|error| format!("no statistics were told, but {line:?}: {error}"))?;
        let waits_by_kind: BTreeMap<_, Waits> = speculation
            .waits
            .into_iter()
            .map(|(kind, work)| (kind, work.into()))
            .collect();
        let waiting = speculation.calls.iter().filter(|call| call.waits.count > 0);
        Ok(Self {
            events: speculation
                .calls
                .iter()
                .map(|call| f64::from(call.events))
                .sum(),
            predictions: speculation.predictions.into(),
            checkpoints: speculation.checkpoints.count.into(),
            waits: waits_by_kind
                .values()
                .fold(Waits::default(), |sum, waits| Waits {
                    count: sum.count + waits.count,
                    time_ms: sum.time_ms + waits.time_ms,
                }),
            waits_by_call: waiting
                .map(|call| (call.name.clone(), call.waits.into()))
                .collect(),
            waits_by_kind,
        })
    }

    /// The median of each part; `None` if there is nothing.
    pub fn median(all: &[Self]) -> Option<Self> {
        let of = |part: fn(&Self) -> f64| middle(all.iter().map(part).collect());
        (!all.is_empty()).then(|| Self {
            events: of(|told| told.events),
            predictions: of(|told| told.predictions),
            checkpoints: of(|told| told.checkpoints),
            waits: Waits::median(all.iter().map(|told| told.waits)),
            waits_by_kind: medians(all, |told| &told.waits_by_kind),
            waits_by_call: medians(all, |told| &told.waits_by_call),
        })
    }

    /// The two kinds of object that were waited for longest.
    fn longest(&self) -> Vec<(&str, Waits)> {
        let kinds = self.waits_by_kind.iter();
        let mut kinds: Vec<_> = kinds.map(|(kind, waits)| (kind.as_str(), *waits)).collect();
        kinds.sort_by(|(_, one), (_, other)| other.time_ms.total_cmp(&one.time_ms));
        kinds.truncate(2);
        kinds
    }
}

impl Waits {
    fn median(all: impl Iterator<Item = Self> + Clone) -> Self {
        Self {
            count: middle(all.clone().map(|waits| waits.count).collect()),
            time_ms: middle(all.map(|waits| waits.time_ms).collect()),
        }
    }
}

/// Of each name; where one is not told, nothing waited.
fn medians(all: &[Told], part: fn(&Told) -> &BTreeMap<String, Waits>) -> BTreeMap<String, Waits> {
    let names: BTreeSet<_> = all.iter().flat_map(|told| part(told).keys()).collect();
    let median = |name: &String| {
        let of_name = all
            .iter()
            .map(|told| part(told).get(name).copied().unwrap_or_default());
        (name.clone(), Waits::median(of_name))
    };
    names.into_iter().map(median).collect()
}

impl fmt::Display for Told {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:.0} waits of {:.0} ms",
            self.waits.count, self.waits.time_ms
        )?;
        for (number, (kind, waits)) in self.longest().into_iter().enumerate() {
            let before = if number == 0 { " (" } else { ", " };
            write!(
                formatter,
                "{before}{kind}: {:.0} of {:.0} ms",
                waits.count, waits.time_ms
            )?;
        }
        let end = if self.waits_by_kind.is_empty() {
            ""
        } else {
            ")"
        };
        write!(
            formatter,
            "{end}; {:.0} events, {:.0} predictions, {:.0} checkpoints",
            self.events, self.predictions, self.checkpoints
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = r#"a line of the command's
{"status":0,"speculation":{"predictions":5,"checkpoints":{"count":4,"time_us":900},"rollbacks":{"count":0,"time_us":0},
"calls":[{"name":"close","events":30,"predictions":0,"waits":{"count":0,"time_us":0}},
{"name":"openat","events":12,"predictions":5,"waits":{"count":2,"time_us":31500}},
{"name":"wait4","events":3,"predictions":0,"waits":{"count":2,"time_us":10000}}],
"objects":{},"waits":{"process":{"count":2,"time_us":10000},"changed file":{"count":1,"time_us":30000},
"signal":{"count":1,"time_us":1500}}}}
"#;

    fn told() -> Told {
        let (first, object) = PRINTED.split_once('\n').expect("two lines");
        Told::parse(&format!("{first}\n{}\n", object.replace('\n', ""))).expect("statistics")
    }

    #[test]
    fn waits_are_told_with_the_two_longest_kinds() {
        assert_eq!(
            told().to_string(),
            "4 waits of 42 ms (changed file: 1 of 30 ms, process: 2 of 10 ms); \
             45 events, 5 predictions, 4 checkpoints"
        );
        let calls: Vec<_> = told().waits_by_call.into_keys().collect();
        assert_eq!(calls, ["openat", "wait4"], "close did not wait");
        let nothing = Told::default().to_string();
        assert_eq!(
            nothing,
            "0 waits of 0 ms; 0 events, 0 predictions, 0 checkpoints"
        );
    }

    #[test]
    fn what_tells_no_statistics_is_an_error() {
        for printed in ["", "{}", "Error: no\n", r#"{"speculation":null}"#] {
            assert!(Told::parse(printed).is_err(), "{printed}");
        }
    }

    #[test]
    fn a_kind_that_is_not_told_was_not_waited_for() {
        let none = Told::default();
        let median = Told::median(&[told(), none.clone(), none]).expect("three");
        assert_eq!((median.events, median.waits.count), (0.0, 0.0));
        assert_eq!(median.waits_by_kind["process"], Waits::default());
        let two = Told::median(&[told(), told()]).expect("two");
        assert_eq!(two, told());
        assert_eq!(Told::median(&[]), None);
    }
}
