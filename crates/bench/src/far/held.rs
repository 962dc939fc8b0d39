//! The packets that one direction of a delay line holds. Time comes from outside. None is dropped: what a slow link has
//! no room for waits, and TCP's windows bound how much that is.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::packet;

/// What a line does to packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Each direction takes half of it.
    pub round_trip: Duration,
    /// How much each direction carries; as much as the machine can if this is `None`.
    pub bits_per_s: Option<u64>,
}

impl Link {
    /// How long the sender is busy with so many bytes.
    fn transmission(self, bytes: usize) -> Duration {
        self.bits_per_s.map_or(Duration::ZERO, |rate| {
            let bits = 8 * u128::try_from(bytes).expect("128 bits hold any size");
            let ns = bits * 1_000_000_000 / u128::from(rate.max(1));
            Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
        })
    }
}

/// The packets of one direction, in the order they came.
#[derive(Debug, Default)]
pub struct Held {
    packets: VecDeque<(Instant, Vec<u8>)>,
    /// When the last of them has left its sender.
    busy_until: Option<Instant>,
}

impl Held {
    /// Takes a packet that comes `now`, and returns how many bytes it has on the wire.
    pub fn put(&mut self, now: Instant, link: Link, packet: Vec<u8>) -> u64 {
        let bytes = packet::wire_bytes(&packet);
        let start = self.busy_until.map_or(now, |until| until.max(now));
        let left = start + link.transmission(bytes);
        self.busy_until = Some(left);
        self.packets.push_back((left + link.round_trip / 2, packet));
        u64::try_from(bytes).expect("64 bits hold any size")
    }

    /// When the next packet arrives. None overtakes another.
    pub fn next_due(&self) -> Option<Instant> {
        self.packets.front().map(|(due, _)| *due)
    }

    /// The next packet, if it has arrived by `now`.
    pub fn take_due(&mut self, now: Instant) -> Option<Vec<u8>> {
        let is_due = self.next_due().is_some_and(|due| due <= now);
        is_due
            .then(|| self.packets.pop_front())?
            .map(|(_, packet)| packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// One of so many bytes on the wire.
    fn packet(bytes: usize) -> Vec<u8> {
        vec![0; packet::HEADER + bytes]
    }

    fn link(round_trip: Duration, bits_per_s: Option<u64>) -> Link {
        Link {
            round_trip,
            bits_per_s,
        }
    }

    #[test]
    fn a_packet_is_held_for_half_a_round_trip() {
        let start = Instant::now();
        let mut held = Held::default();
        assert_eq!(held.next_due(), None);
        assert_eq!(held.put(start, link(30 * MS, None), packet(100)), 100);
        assert_eq!(held.next_due(), Some(start + 15 * MS));
        assert_eq!(held.take_due(start + 14 * MS), None);
        assert_eq!(held.take_due(start + 15 * MS), Some(packet(100)));
        assert_eq!(held.take_due(start + 60 * MS), None);
    }

    #[test]
    fn packets_leave_one_after_the_other_at_the_rate_of_the_link() {
        let start = Instant::now();
        let mut held = Held::default();
        // 1000 bytes take 1 ms.
        let slow = link(10 * MS, Some(8_000_000));
        for _ in 0..3 {
            held.put(start, slow, packet(1000));
        }
        for number in 1..=3 {
            assert_eq!(held.next_due(), Some(start + (5 + number) * MS));
            assert!(held.take_due(start + (5 + number) * MS).is_some());
        }
        // A link that was idle owes nothing.
        held.put(start + 20 * MS, slow, packet(500));
        assert_eq!(held.next_due(), Some(start + 25 * MS + MS / 2));
    }

    #[test]
    fn no_packet_overtakes_another_when_the_link_becomes_faster() {
        let start = Instant::now();
        let mut held = Held::default();
        held.put(start, link(100 * MS, None), packet(1));
        held.put(start + MS, link(2 * MS, None), packet(2));
        assert_eq!(held.take_due(start + 10 * MS), None);
        assert_eq!(held.take_due(start + 50 * MS), Some(packet(1)));
        assert_eq!(held.take_due(start + 50 * MS), Some(packet(2)));
    }
}
