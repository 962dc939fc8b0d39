//! One row, measured in alternating pairs.

use crate::calls;
use crate::command;
use crate::exchange;
use crate::hearing;
use crate::limit::Limit;
use crate::measure::{Sample, median};
use crate::memory;
use crate::messages::Messages;
use crate::place::Place;
use crate::report::{Beside, Outcome, Samples};
use crate::rival::{Rival, Rivals};
use crate::rows::{Row, What};
use crate::sync;
use crate::told::Told;

/// How many samples of a rival are taken at most: no claim hangs on them.
const RIVAL_SAMPLES_MAX: usize = 3;

/// A rival that takes so many times as long as the peer is measured once: some take minutes.
const RIVAL_SLOW: f64 = 10.0;

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

    /// How many messages one run of ours takes, which is not timed; `None` for what is no command, or only a later run of one.
    fn messages(&mut self, _place: &Place) -> Result<Option<Messages>, String> {
        Ok(None)
    }

    /// What the last sample of ours told of its speculation; asked for once after each.
    fn told(&mut self) -> Option<Told> {
        None
    }

    /// Who is measured besides.
    fn rivals(&self) -> Vec<Rival> {
        Vec::new()
    }

    /// Measures a rival once.
    fn rival_sample(&mut self, _place: &Place, rival: Rival) -> Result<Sample, String> {
        Err(format!("{} is not compared here", rival.name()))
    }
}

/// Measures `row` with one pair that does not count and up to `pairs` that do. It gives one outcome,
/// and one more if the processor time has a limit of its own.
pub fn row(place: &Place, rivals: &Rivals, row: &Row, pairs: u32) -> Result<Vec<Outcome>, String> {
    match &row.what {
        What::Command(command) => measure(place, row, command::Ready::new(command, rivals), pairs),
        What::Exchange(exchange) => {
            measure(place, row, exchange::Ready::new(place, exchange)?, pairs)
        }
        What::Memory(memory) => measure(place, row, memory::Ready::new(place, memory)?, pairs),
        What::Calls(calls) => measure(place, row, calls::Ready::new(place, calls)?, pairs),
        What::Hearing(hearing) => measure(place, row, hearing::Ready::new(hearing), pairs),
        What::Sync(synced) => measure(place, row, sync::Ready::new(place, synced)?, pairs),
    }
}

fn measure(
    place: &Place,
    row: &Row,
    mut measured: impl Measured,
    pairs: u32,
) -> Result<Vec<Outcome>, String> {
    let pairs = pairs.min(row.pairs_max);
    let mut beside: Vec<_> = measured.rivals().into_iter().map(Beside::new).collect();
    let mut samples = Samples {
        ours: Vec::new(),
        peer: Vec::new(),
    };
    let mut told = Vec::new();
    for pair in 0..=pairs {
        eprint!("\r\x1b[K{}: pair {pair} of {pairs} ", row.test);
        // Each goes first in every other pair: what follows finds warm caches.
        let (ours, peer) = if pair % 2 == 0 {
            let ours = measured.sample(place, Side::Ours)?;
            (ours, measured.sample(place, Side::Peer)?)
        } else {
            let peer = measured.sample(place, Side::Peer)?;
            (measured.sample(place, Side::Ours)?, peer)
        };
        let tells = measured.told();
        if pair > 0 {
            told.extend(tells);
            samples.ours.push(ours);
            samples.peer.push(peer);
            for rival in &mut beside {
                let slow = |taken: &Sample| taken.value > RIVAL_SLOW * peer.value;
                if rival.samples.len() < RIVAL_SAMPLES_MAX
                    && rival.reason.is_none()
                    && !rival.samples.iter().any(slow)
                {
                    rival.take(measured.rival_sample(place, rival.rival));
                }
            }
        }
    }
    let messages = measured.messages(place)?;
    eprint!("\r\x1b[K");
    let mut outcomes = outcomes(row, &measured, samples, beside);
    // The first is of time; of processor time the same would be told.
    outcomes[0].told = told;
    outcomes[0].messages = messages;
    Ok(outcomes)
}

fn outcomes(
    row: &Row,
    measured: &impl Measured,
    samples: Samples,
    beside: Vec<Beside>,
) -> Vec<Outcome> {
    let outcome = |test: String, unit, limit: Limit, samples: Samples, beside: Vec<Beside>| {
        let (ours, peer) = (median(&samples.ours), median(&samples.peer));
        Outcome {
            test,
            unit,
            ours: ours.value,
            peer: peer.value,
            peer_name: measured.peer_name(),
            ratio: ours.value / peer.value,
            target: limit.parts().map(|(number, _)| number),
            target_is: limit.parts().map(|(_, of)| of),
            limit,
            pass: limit.is_kept(ours.value, peer.value),
            ours_processor_ms: ours.user_ms + ours.system_ms,
            peer_processor_ms: peer.user_ms + peer.system_ms,
            samples,
            told: Vec::new(),
            messages: None,
            beside: beside
                .into_iter()
                .map(|one| one.compared_with(peer.value))
                .collect(),
        }
    };
    let processor = (row.processor_limit != Limit::None).then(|| {
        outcome(
            format!("{}-processor", row.test),
            "ms",
            row.processor_limit,
            samples.of_processor(),
            beside.iter().map(Beside::of_processor).collect(),
        )
    });
    let time = outcome(
        row.test.to_owned(),
        measured.unit(),
        row.limit,
        samples,
        beside,
    );
    [Some(time), processor].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
                user_ms: 1.0,
                system_ms: 2.0 * value,
            })
        }

        fn rivals(&self) -> Vec<Rival> {
            vec![Rival::Overlayfs, Rival::Sandlock, Rival::Try]
        }

        fn rival_sample(&mut self, _: &Place, rival: Rival) -> Result<Sample, String> {
            let value = match rival {
                Rival::Overlayfs => 15.0,
                Rival::Sandlock => return Err("exit status: 1\nit fails\n\n".to_owned()),
                // More than ten times what the peer takes.
                Rival::Try => 101.0,
            };
            Ok(Sample {
                value,
                user_ms: 0.0,
                system_ms: 42.0,
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
            processor_limit: Limit::RatioMax(1.0),
            pairs_max: 3,
        };
        let mut counted = Counted(Vec::new());
        let outcomes = measure(&place, &row, &mut counted, 9).expect("measure");
        let [outcome, processor] = &outcomes[..] else {
            panic!("{} outcomes", outcomes.len());
        };
        use Side::{Ours, Peer};
        assert_eq!(counted.0, [Ours, Peer, Peer, Ours, Ours, Peer, Peer, Ours]);
        let values: Vec<_> = outcome.samples.ours.iter().map(|s| s.value).collect();
        assert_eq!(values, [2.0, 3.0, 4.0]);
        assert_eq!(
            (outcome.ours, outcome.peer, outcome.ratio),
            (3.0, 10.0, 0.3)
        );
        assert!(!outcome.pass);
        assert_eq!(processor.test, "counted-processor");
        assert_eq!((processor.ours, processor.peer), (7.0, 21.0));
        assert!(processor.pass);
        let ratios = |outcome: &Outcome| {
            let ratio = |one: &Beside| (one.ratio, one.reason.clone());
            outcome.beside.iter().map(ratio).collect::<Vec<_>>()
        };
        let failed = (None, Some("it fails".to_owned()));
        let slow = (Some(10.1), None);
        assert_eq!(ratios(outcome), [(Some(1.5), None), failed.clone(), slow]);
        let twice = (Some(2.0), None);
        assert_eq!(ratios(processor), [twice.clone(), failed, twice]);
        let taken: Vec<_> = outcome.beside.iter().map(|one| one.samples.len()).collect();
        assert_eq!(taken, [3, 0, 1]);
    }
}
