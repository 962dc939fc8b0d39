//! One row, measured in alternating pairs.

use crate::exchange;
use crate::measure::{Sample, median};
use crate::memory;
use crate::place::Place;
use crate::report::{Outcome, Samples};
use crate::rows::{Row, What};

/// One of the two that are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Side {
    /// Surmise.
    Ours,
    /// Whom it is compared with.
    Peer,
}

/// What can be measured on both sides.
pub trait Measured {
    /// Of a sample's value.
    fn unit(&self) -> &'static str;
    /// Who the peer is.
    fn peer_name(&self) -> String;
    /// Measures one side once.
    fn sample(&mut self, place: &Place, side: Side) -> Result<Sample, String>;
}

/// Measures `row` with one pair that does not count and up to `pairs` that do.
pub fn row(place: &Place, row: &Row, pairs: u32) -> Result<Outcome, String> {
    match &row.what {
        What::Command(command) => measure(place, row, command, pairs),
        What::Exchange(exchange) => {
            measure(place, row, exchange::Ready::new(place, exchange)?, pairs)
        }
        What::Memory(memory) => measure(place, row, memory::Ready::new(place, memory)?, pairs),
    }
}

fn measure(
    place: &Place,
    row: &Row,
    mut measured: impl Measured,
    pairs: u32,
) -> Result<Outcome, String> {
    let pairs = pairs.min(row.pairs_max);
    let mut samples = Samples {
        ours: Vec::new(),
        peer: Vec::new(),
    };
    for pair in 0..=pairs {
        eprint!("\r{}: pair {pair} of {pairs} ", row.test);
        // Each goes first in every other pair: what follows finds warm caches.
        let (ours, peer) = if pair % 2 == 0 {
            let ours = measured.sample(place, Side::Ours)?;
            (ours, measured.sample(place, Side::Peer)?)
        } else {
            let peer = measured.sample(place, Side::Peer)?;
            (measured.sample(place, Side::Ours)?, peer)
        };
        if pair > 0 {
            samples.ours.push(ours);
            samples.peer.push(peer);
        }
    }
    eprint!("\r\x1b[K");
    let (ours, peer) = (median(&samples.ours), median(&samples.peer));
    Ok(Outcome {
        test: row.test,
        unit: measured.unit(),
        ours: ours.value,
        peer: peer.value,
        peer_name: measured.peer_name(),
        ratio: ours.value / peer.value,
        target: row.limit.parts().map(|(number, _)| number),
        target_is: row.limit.parts().map(|(_, of)| of),
        limit: row.limit,
        pass: row.limit.is_kept(ours.value, peer.value),
        ours_processor_ms: ours.user_ms + ours.system_ms,
        peer_processor_ms: peer.user_ms + peer.system_ms,
        samples,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Limit;

    /// Samples of ours are their number, those of the peer 10.
    struct Counted(Vec<Side>);

    impl Measured for &mut Counted {
        fn unit(&self) -> &'static str {
            "ms"
        }

        fn peer_name(&self) -> String {
            "ten".to_owned()
        }

        #[expect(clippy::cast_precision_loss, reason = "a handful")]
        fn sample(&mut self, _: &Place, side: Side) -> Result<Sample, String> {
            self.0.push(side);
            let of_ours = self.0.iter().filter(|side| **side == Side::Ours).count();
            let value = if side == Side::Ours {
                of_ours as f64
            } else {
                10.0
            };
            Ok(Sample {
                value,
                user_ms: 0.0,
                system_ms: 0.0,
            })
        }
    }

    #[test]
    fn pairs_alternate_the_first_does_not_count_and_medians_are_compared() {
        let scratch = tempfile::tempdir().expect("a directory");
        let place = Place::at(scratch.path());
        let row = Row {
            test: "counted",
            what: What::Memory(memory::Memory {
                files: 0,
                touch: memory::Touch::Nothing,
            }),
            limit: Limit::RatioMin(0.4),
            pairs_max: 3,
        };
        let mut counted = Counted(Vec::new());
        let outcome = measure(&place, &row, &mut counted, 9).expect("measure");
        use Side::{Ours, Peer};
        assert_eq!(counted.0, [Ours, Peer, Peer, Ours, Ours, Peer, Peer, Ours]);
        let values: Vec<_> = outcome.samples.ours.iter().map(|s| s.value).collect();
        assert_eq!(values, [2.0, 3.0, 4.0]);
        assert_eq!(
            (outcome.ours, outcome.peer, outcome.ratio),
            (3.0, 10.0, 0.3)
        );
        assert!(!outcome.pass);
    }
}
