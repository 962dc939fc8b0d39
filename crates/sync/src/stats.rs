//! What external synchrony did. Each process counts its own part, in memory that all share.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use surmise_sys::shared::SharedWords;

use crate::epochs::Trigger;
use crate::reasons::Counted;

/// What was done for a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Calls of the sync family that returned before anything was durable.
    pub put_off: u64,
    /// Calls that made durable by themselves what they were asked to.
    pub real: u64,
    /// Why, those of most calls first. It is the syncer that knows, and tells in the end.
    pub reasons: Vec<Counted>,
    /// How often it was found that to put syncs off does not pay, or may again.
    pub switches: u64,
    /// Commits, by what triggered them.
    pub commits: Commits,
    /// Pieces of output that waited for a commit.
    pub held: u64,
    /// How long they waited.
    pub hold_times: HoldTimes,
}

/// Commits, by what triggered them. Whatever else waits shares a commit and is not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commits {
    /// By output.
    pub output: u64,
    /// By a call that cannot be tracked.
    pub barrier: u64,
    /// By time.
    pub interval: u64,
    /// Because every promise was to be kept at once.
    pub eager: u64,
    /// By the command's end.
    pub end: u64,
}

impl Commits {
    /// Of all triggers.
    pub fn all(&self) -> u64 {
        self.output + self.barrier + self.interval + self.eager + self.end
    }
}

/// How long output waited. Quantiles are at most a quarter too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldTimes {
    /// Half of the pieces waited no longer.
    pub median: Duration,
    /// 99 of 100 waited no longer.
    pub p99: Duration,
    /// None waited longer.
    pub longest: Duration,
}

const PUT_OFF: usize = 0;
const REAL: usize = 1;
const HELD: usize = 2;
const LONGEST: usize = 3;
const SWITCHES: usize = 4;
/// What was put off before something that was shown. Not told.
const SHOWN: usize = 5;
/// One for each trigger.
const COMMITS: usize = 8;
/// How many pieces of output waited how long: four counters for each doubling of the microseconds.
const TIMES: std::ops::Range<usize> = 16..128;

pub(crate) fn put_off(words: &SharedWords) {
    words.counters[PUT_OFF].fetch_add(1, SeqCst);
}

pub(crate) fn count_put_off(words: &SharedWords) -> u64 {
    words.counters[PUT_OFF].load(SeqCst)
}

pub(crate) fn shown(words: &SharedWords) -> u64 {
    words.counters[SHOWN].load(SeqCst)
}

pub(crate) fn show(words: &SharedWords, put_off: u64) {
    words.counters[SHOWN].fetch_max(put_off, SeqCst);
}

pub(crate) fn did_really(words: &SharedWords) {
    words.counters[REAL].fetch_add(1, Relaxed);
}

pub(crate) fn switched(words: &SharedWords) {
    words.counters[SWITCHES].fetch_add(1, Relaxed);
}

pub(crate) fn commits(words: &SharedWords, trigger: Trigger) -> u64 {
    words.counters[COMMITS + trigger as usize].load(SeqCst)
}

pub(crate) fn committed(words: &SharedWords, trigger: Trigger) {
    words.counters[COMMITS + trigger as usize].fetch_add(1, Relaxed);
}

pub(crate) fn held(words: &SharedWords, time: Duration) {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    words.counters[HELD].fetch_add(1, Relaxed);
    words.counters[LONGEST].fetch_max(micros, Relaxed);
    let slot = (TIMES.start + slot(micros)).min(TIMES.end - 1);
    words.counters[slot].fetch_add(1, Relaxed);
}

pub(crate) fn of(words: &SharedWords) -> Stats {
    let count = |at: usize| words.counters[at].load(SeqCst);
    let commits = |trigger| commits(words, trigger);
    let longest = Duration::from_micros(count(LONGEST));
    let slots: Vec<u64> = TIMES.map(count).collect();
    let quantile = |percent| quantile(&slots, percent).min(longest);
    Stats {
        put_off: count(PUT_OFF),
        real: count(REAL),
        reasons: Vec::new(),
        switches: count(SWITCHES),
        commits: Commits {
            output: commits(Trigger::Output),
            barrier: commits(Trigger::Barrier),
            interval: commits(Trigger::Interval),
            eager: commits(Trigger::Eager),
            end: commits(Trigger::End),
        },
        held: count(HELD),
        hold_times: HoldTimes {
            median: quantile(50),
            p99: quantile(99),
            longest,
        },
    }
}

/// The first four are single microseconds.
fn slot(micros: u64) -> usize {
    match micros.checked_ilog2() {
        None | Some(0 | 1) => micros as usize,
        Some(doublings) => {
            let quarter = (micros >> (doublings - 2)) & 3;
            4 * (doublings as usize - 1) + quarter as usize
        }
    }
}

/// The first time that is too long for a slot.
fn end_of(slot: usize) -> Duration {
    let micros = match slot {
        0..4 => slot as u64 + 1,
        _ => (5 + slot as u64 % 4) << (slot / 4 - 1),
    };
    Duration::from_micros(micros)
}

/// A time that so many percent of the pieces did not wait longer than.
fn quantile(slots: &[u64], percent: u64) -> Duration {
    let all: u64 = slots.iter().sum();
    let mut shorter = 0;
    for (slot, count) in slots.iter().enumerate() {
        shorter += count;
        if all > 0 && shorter * 100 >= all * percent {
            return end_of(slot);
        }
    }
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_holds_what_is_shorter_than_its_end_and_no_more_than_a_quarter_shorter() {
        for micros in (0..70_000).chain([1 << 20, (1 << 20) - 1, 123_456_789]) {
            let slot = slot(micros);
            assert!(Duration::from_micros(micros) < end_of(slot), "{micros}");
            if slot > 0 {
                assert!(
                    Duration::from_micros(micros) >= end_of(slot - 1),
                    "{micros}"
                );
            }
            if micros >= 4 {
                assert!(
                    end_of(slot) <= Duration::from_micros(micros * 5 / 4 + 1),
                    "{micros}"
                );
            }
        }
    }

    #[test]
    fn quantiles_are_of_all_that_waited() {
        let words = SharedWords::new().expect("a page");
        assert_eq!(of(&words), Stats::default());
        for _ in 0..98 {
            held(&words, Duration::from_micros(100));
        }
        held(&words, Duration::from_micros(1000));
        held(&words, Duration::from_secs(3600));
        let HoldTimes {
            median,
            p99,
            longest,
        } = of(&words).hold_times;
        assert!((100..=125).contains(&median.as_micros()), "{median:?}");
        assert!((1000..=1250).contains(&p99.as_micros()), "{p99:?}");
        assert_eq!(longest, Duration::from_secs(3600));
    }
}
