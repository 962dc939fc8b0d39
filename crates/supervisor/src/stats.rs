//! What a supervisor did, and what waited for it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a supervisor did, from the start of a domain to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Predictions that tasks went on past.
    pub predictions: u64,
    /// Checkpoints taken.
    pub checkpoints: Effort,
    /// Tasks that were rolled back.
    pub rollbacks: Effort,
    /// Aborts that rolled back, or ended, more tasks than the one whose result was mispredicted.
    pub cascades: u64,
    /// Pages of memory that rollbacks copied.
    pub pages_copied: u64,
    /// What came, by the name of the call.
    pub calls: BTreeMap<String, Call>,
    /// How often an object of a kind was observed or modified by a task that depended on something
    /// undecided, by the kind's name.
    pub objects: BTreeMap<String, u64>,
    /// How often what had been done to an object of a kind was taken back, by the kind's name.
    pub undone: BTreeMap<String, u64>,
    /// In how many cascades what had been done to objects of a kind was taken back, by the kind's name.
    pub cascades_through: BTreeMap<String, u64>,
    /// How often calls and signals waited for a decision, for durability or for a reader, and how long altogether, by
    /// the kind of object that they waited for. A parent that sleeps while all its children run waits for none of these.
    pub waits: BTreeMap<String, Effort>,
}

/// How often something was done, and how long it took altogether.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effort {
    /// How often.
    pub count: u64,
    /// How long.
    pub time: Duration,
}

/// What became of one call, by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// How often it came.
    pub events: u64,
    /// How often its result was predicted.
    pub predictions: u64,
    /// How often it waited, and how long altogether.
    pub waits: Effort,
}

impl Effort {
    /// Adds one more, which took `time`.
    pub fn add(&mut self, time: Duration) {
        self.count += 1;
        self.time += time;
    }
}

impl Stats {
    /// How often anything waited, and how long altogether.
    pub fn waited_altogether(&self) -> Effort {
        let none = Effort::default();
        self.waits.values().fold(none, |sum, waits| Effort {
            count: sum.count + waits.count,
            time: sum.time + waits.time,
        })
    }

    /// Takes out what is told by call, in parts of at most so many calls, for those who send it in pieces.
    pub fn take_calls(&mut self, calls_max: usize) -> Vec<BTreeMap<String, Call>> {
        let mut parts = Vec::new();
        let mut calls = std::mem::take(&mut self.calls).into_iter().peekable();
        while calls.peek().is_some() {
            parts.push(calls.by_ref().take(calls_max).collect());
        }
        parts
    }

    /// How many calls came.
    pub fn events(&self) -> u64 {
        self.calls.values().map(|call| call.events).sum()
    }

    /// The calls that came, most frequent first.
    pub fn calls_by_frequency(&self) -> Vec<(&str, Call)> {
        let calls = self.calls.iter();
        let mut calls: Vec<_> = calls.map(|(name, call)| (name.as_str(), *call)).collect();
        // Stable: equally frequent ones stay in order of name.
        calls.sort_by_key(|(_, call)| std::cmp::Reverse(call.events));
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_call_comes_first() {
        let mut stats = Stats::default();
        for (name, events) in [("read", 3), ("close", 3), ("openat", 7)] {
            let call = stats.calls.entry(name.into()).or_default();
            call.events += events;
        }
        let names: Vec<_> = stats
            .calls_by_frequency()
            .iter()
            .map(|call| call.0)
            .collect();
        assert_eq!(names, ["openat", "close", "read"]);
        assert_eq!(stats.events(), 13);
    }
}
