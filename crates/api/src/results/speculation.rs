//! What was done for speculation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use surmise_supervisor::{Effort, Stats};

/// What was done for speculation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpeculationResult {
    /// Predictions that tasks went on past.
    pub predictions: u64,
    /// Checkpoints taken.
    pub checkpoints: Work,
    /// Tasks that were rolled back.
    pub rollbacks: Work,
    /// Aborts that rolled back, or ended, more than one task.
    pub cascades: u64,
    /// Pages of memory that rollbacks copied.
    pub pages_copied: u64,
    /// The calls that came, most frequent first.
    pub calls: Vec<CallRow>,
    /// How often an object of a kind was met by a task that depended on something undecided.
    pub objects: BTreeMap<String, u64>,
    /// How often what had been done to an object of a kind was taken back.
    pub undone: BTreeMap<String, u64>,
    /// In how many cascades what had been done to objects of a kind was taken back.
    pub cascades_through: BTreeMap<String, u64>,
    /// How long tasks waited, by what for.
    pub waits: BTreeMap<String, Work>,
}

/// How often something was done, and how long it took altogether.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// How often.
    pub count: u64,
    /// How long, in microseconds.
    pub time_us: u64,
}

/// What became of one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRow {
    /// Its name.
    pub name: String,
    /// How often it came.
    pub events: u64,
    /// How often its result was predicted.
    pub predictions: u64,
    /// How long tasks waited in it.
    pub waits: Work,
}

impl From<&Stats> for SpeculationResult {
    fn from(stats: &Stats) -> Self {
        let calls = stats.calls_by_frequency().into_iter();
        let waits = stats.waits.iter();
        Self {
            predictions: stats.predictions,
            checkpoints: stats.checkpoints.into(),
            rollbacks: stats.rollbacks.into(),
            cascades: stats.cascades,
            pages_copied: stats.pages_copied,
            calls: calls
                .map(|(name, call)| CallRow {
                    name: name.to_owned(),
                    events: call.events,
                    predictions: call.predictions,
                    waits: call.waits.into(),
                })
                .collect(),
            objects: stats.objects.clone(),
            undone: stats.undone.clone(),
            cascades_through: stats.cascades_through.clone(),
            waits: waits
                .map(|(kind, waits)| (kind.clone(), (*waits).into()))
                .collect(),
        }
    }
}

impl From<Effort> for Work {
    fn from(effort: Effort) -> Self {
        Self {
            count: effort.count,
            time_us: u64::try_from(effort.time.as_micros()).unwrap_or(u64::MAX),
        }
    }
}
