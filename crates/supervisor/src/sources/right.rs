//! Right results, of which nobody knows for a while that they are right.
//!
//! It stands for a source that is far away and predicts well, such as a remote file system: what is left of a run's time
//! is what tracking costs, and what waits.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fastrand::Rng;
use surmise_engine::{Decision, Id};
use surmise_syscalls::{Disposition, Handler, Kind as Column};

use crate::call::Call;
use crate::source::{Guess, Source};

/// How old an image is that a further guess may share (Speculator, section 5.2).
const SHARED_AGE_MAX: Duration = Duration::from_millis(500);

/// How right results are predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// How probable it is for a call about a file's name or attributes to be predicted: above 0, at most 1.
    pub rate: f64,
    /// How long it takes until a prediction is decided.
    pub delay: Duration,
}

/// The owner of predictions that all turn out right.
#[derive(Debug)]
pub(crate) struct Right {
    options: Options,
    rng: Rng,
    /// When each is due, the oldest first.
    undecided: VecDeque<(Instant, Id)>,
}

impl Right {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            options: *options,
            rng: Rng::with_seed(0),
            undecided: VecDeque::new(),
        }
    }
}

impl Source for Right {
    fn offer(&mut self, call: &Call) -> Option<Guess> {
        let disposition = call
            .row
            .disposition_with(Column::Prediction, call.arguments());
        let is_of_file = call.row.handler() == Handler::View && disposition == Disposition::Track;
        (is_of_file && self.rng.f64() < self.options.rate).then_some(Guess::Truth)
    }

    fn may_share(&mut self, age: Duration) -> bool {
        age < SHARED_AGE_MAX
    }

    fn given(&mut self, id: Id, _: &Guess, now: Instant) {
        self.undecided.push_back((now + self.options.delay, id));
    }

    fn due(&mut self, now: Instant) -> Option<(Id, Decision)> {
        let &(due, id) = self.undecided.front()?;
        (due <= now).then(|| {
            self.undecided.pop_front();
            (id, Decision::Affirm)
        })
    }

    fn next_due(&self) -> Option<Instant> {
        self.undecided.front().map(|&(due, _)| due)
    }

    /// Time decides, and nobody can hurry it.
    fn force(&mut self, _: Id) -> Option<Decision> {
        None
    }

    fn withdrawn(&mut self, id: Id) {
        self.undecided.retain(|&(_, undecided)| undecided != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_affirmed_when_its_time_has_come_and_not_before() {
        let delay = Duration::from_millis(30);
        let mut right = Right::new(&Options { rate: 1.0, delay });
        let begun = Instant::now();
        assert_eq!(right.next_due(), None);
        for (id, after) in [(1, 0), (2, 10), (3, 20)] {
            right.given(Id(id), &Guess::Truth, begun + Duration::from_millis(after));
        }
        right.withdrawn(Id(2));
        assert_eq!(right.force(Id(1)), None);
        assert_eq!(right.next_due(), Some(begun + delay));
        assert_eq!(right.due(begun + delay - Duration::from_nanos(1)), None);
        let late = begun + 2 * delay;
        assert_eq!(right.due(late), Some((Id(1), Decision::Affirm)));
        assert_eq!(right.due(late), Some((Id(3), Decision::Affirm)));
        assert_eq!((right.due(late), right.next_due()), (None, None));
    }
}
