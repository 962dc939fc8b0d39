//! What was done for external synchrony.

use serde::{Deserialize, Serialize};
use surmise_launch::Refusals;
use surmise_sync::{Commits, Counted, Stats};

use super::RefusedRow;

/// What was done for external synchrony.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncResult {
    /// Syncs that returned before anything was durable.
    pub put_off: u64,
    /// Syncs that made durable by themselves what they were asked to.
    pub real: u64,
    /// Why, those of most syncs first: `{"reason", "count"}` and what belongs to the reason.
    pub reasons: Vec<Counted>,
    /// How often it was found that to put syncs off does not pay, or may again.
    pub switches: u64,
    /// Commits, by what triggered them.
    pub commits: Commits,
    /// Pieces of output that waited for a commit.
    pub held: u64,
    /// Half of them waited no longer, in microseconds.
    pub held_median_us: u64,
    /// 99 of 100 waited no longer, in microseconds.
    pub held_p99_us: u64,
    /// None waited longer, in microseconds.
    pub held_longest_us: u64,
}

/// What `surmise sync --json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncLine {
    /// What was done.
    #[serde(flatten)]
    pub stats: SyncResult,
    /// What the boundary refused.
    pub refused: Vec<RefusedRow>,
    /// How many more attempts there were.
    pub refused_more: u64,
}

impl SyncLine {
    /// Of what was done, and refused.
    pub fn of(stats: &Stats, refusals: &Refusals) -> Self {
        Self {
            stats: stats.into(),
            refused: RefusedRow::all(refusals),
            refused_more: refusals.more,
        }
    }
}

impl From<&Stats> for SyncResult {
    fn from(stats: &Stats) -> Self {
        let micros =
            |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Self {
            put_off: stats.put_off,
            real: stats.real,
            reasons: stats.reasons.clone(),
            switches: stats.switches,
            commits: stats.commits.clone(),
            held: stats.held,
            held_median_us: micros(stats.hold_times.median),
            held_p99_us: micros(stats.hold_times.p99),
            held_longest_us: micros(stats.hold_times.longest),
        }
    }
}
