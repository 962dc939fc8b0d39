//! What a speculator did, as one message.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use surmise_speculation::{Call, Effort, Stats};

/// [`Stats`] as a message has them: the crate that counts knows of no messages.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Tally {
    predictions: u64,
    checkpoints: (u64, Duration),
    rollbacks: (u64, Duration),
    cascades: u64,
    pages_copied: u64,
    /// Name, events, predictions.
    calls: Vec<(String, u64, u64)>,
    objects: Vec<(String, u64)>,
    undone: Vec<(String, u64)>,
}

impl From<Stats> for Tally {
    fn from(stats: Stats) -> Self {
        let calls = stats.calls.into_iter();
        Self {
            predictions: stats.predictions,
            checkpoints: (stats.checkpoints.count, stats.checkpoints.time),
            rollbacks: (stats.rollbacks.count, stats.rollbacks.time),
            cascades: stats.cascades,
            pages_copied: stats.pages_copied,
            calls: calls
                .map(|(name, call)| (name, call.events, call.predictions))
                .collect(),
            objects: stats.objects.into_iter().collect(),
            undone: stats.undone.into_iter().collect(),
        }
    }
}

impl From<Tally> for Stats {
    fn from(tally: Tally) -> Self {
        let effort = |(count, time)| Effort { count, time };
        let call = |(name, events, predictions)| {
            let call = Call {
                events,
                predictions,
            };
            (name, call)
        };
        Self {
            predictions: tally.predictions,
            checkpoints: effort(tally.checkpoints),
            rollbacks: effort(tally.rollbacks),
            cascades: tally.cascades,
            pages_copied: tally.pages_copied,
            calls: tally.calls.into_iter().map(call).collect(),
            objects: tally.objects.into_iter().collect(),
            undone: tally.undone.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surmise_syscalls::{Row, rows};

    /// With every call there is, and with numbers as long as they get.
    #[test]
    fn the_longest_tally_is_one_message_and_comes_back_the_same() {
        let most = Effort {
            count: u64::MAX,
            time: Duration::new(u64::MAX, 999_999_999),
        };
        let call = Call {
            events: u64::MAX,
            predictions: u64::MAX,
        };
        let stats = Stats {
            predictions: u64::MAX,
            checkpoints: most,
            rollbacks: most,
            cascades: u64::MAX,
            pages_copied: u64::MAX,
            calls: rows()
                .map(Row::name)
                .map(|name| (name.into(), call))
                .collect(),
            objects: [("input".into(), u64::MAX)].into(),
            undone: [("input".into(), u64::MAX)].into(),
        };
        let (one, two) = crate::message::Link::pair().expect("a pair");
        one.send(&Tally::from(stats.clone())).expect("send");
        let received: Tally = two.receive().expect("receive").expect("a message");
        assert_eq!(Stats::from(received), stats);
    }
}
