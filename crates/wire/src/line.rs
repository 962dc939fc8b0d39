//! What both threads of a connection know of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A line whose round trip takes at least as long is far. To compress a block takes less than that, and saves time on lines of up to
/// about a gigabit a second.
const FAR: Duration = Duration::from_millis(2);

/// That no round trip was measured.
const UNKNOWN: u64 = u64::MAX;

/// A connection's line.
#[derive(Debug)]
pub struct Line {
    /// The shortest round trip that this side has measured, in nanoseconds; [`UNKNOWN`] before the first.
    round_trip_ns: AtomicU64,
    /// The other side wants compressed blocks.
    is_wanted: AtomicBool,
    traffic: Arc<Traffic>,
}

impl Default for Line {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl Line {
    /// A line that nothing is known of. What goes over it is counted there.
    pub fn new(traffic: Arc<Traffic>) -> Self {
        Self {
            round_trip_ns: AtomicU64::new(UNKNOWN),
            is_wanted: AtomicBool::new(false),
            traffic,
        }
    }

    /// A question was answered after so long. Of all such times the shortest is nearest to a round trip.
    pub fn answered_after(&self, round_trip: Duration) {
        let ns = u64::try_from(round_trip.as_nanos()).unwrap_or(UNKNOWN);
        self.round_trip_ns.fetch_min(ns, Ordering::Relaxed);
    }

    /// Whether this side has found the line to be far.
    pub(crate) fn is_far(&self) -> bool {
        let ns = self.round_trip_ns.load(Ordering::Relaxed);
        ns != UNKNOWN && ns >= FAR.as_nanos() as u64
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    pub(crate) fn want(&self, wants: bool) {
        self.is_wanted.store(wants, Ordering::Relaxed);
    }

    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }
}

/// How many bytes were sent and have come.
#[derive(Debug, Default)]
pub struct Traffic {
    sent: Counter,
    received: Counter,
}

#[derive(Debug, Default)]
pub(crate) struct Counter {
    bytes: AtomicU64,
    line_bytes: AtomicU64,
}

/// A number of bytes in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transferred {
    /// Of messages.
    pub bytes: u64,
    /// What they took on the line, compressed where that paid.
    pub line_bytes: u64,
}

impl Traffic {
    /// What was sent.
    pub fn sent(&self) -> Transferred {
        self.sent.value()
    }

    /// What has come.
    pub fn received(&self) -> Transferred {
        self.received.value()
    }

    pub(crate) fn count_sent(&self, bytes: usize, line_bytes: usize) {
        self.sent.more(bytes, line_bytes);
    }

    pub(crate) fn count_received(&self, bytes: usize, line_bytes: usize) {
        self.received.more(bytes, line_bytes);
    }
}

impl Counter {
    fn more(&self, bytes: usize, line_bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.line_bytes
            .fetch_add(line_bytes as u64, Ordering::Relaxed);
    }

    fn value(&self) -> Transferred {
        Transferred {
            bytes: self.bytes.load(Ordering::Relaxed),
            line_bytes: self.line_bytes.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_round_trip_counts() {
        let line = Line::default();
        assert!(!line.is_far());
        line.answered_after(Duration::from_millis(30));
        assert!(line.is_far());
        line.answered_after(Duration::from_micros(200));
        line.answered_after(Duration::from_secs(1));
        assert!(!line.is_far());
    }
}
