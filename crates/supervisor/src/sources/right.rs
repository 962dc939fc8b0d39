//! Right results, of which nobody knows for a while that they are right, and perhaps some that are wrong.
//!
//! This source stands for one that is far away and predicts well, such as a remote file system. What a run takes
//! longer is then what tracking costs, what waits, and what is done again after a wrong result.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fastrand::Rng;
use surmise_engine::{Decision, Id};
use surmise_syscalls::{Disposition, Handler, Kind as Column};

use super::wrong;
use crate::call::Call;
use crate::source::{Guess, Source};

/// How old an image is that a further guess may share (Speculator, section 5.2).
const SHARED_AGE_MAX: Duration = Duration::from_millis(500);

/// Decisions that fall into the same such time come at its end, together, as from a server that sends several at once.
const TICK: Duration = Duration::from_millis(1);

/// How results are predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// How probable it is for a call about a file's name or attributes to be predicted: above 0, at most 1.
    pub rate: f64,
    /// How long it takes until a prediction is decided.
    pub delay: Duration,
    /// How probable it is for a prediction to be wrong, from 0 to 1.
    pub wrong: f64,
}

/// The owner of predictions that are decided late.
#[derive(Debug)]
pub(crate) struct Right {
    options: Options,
    rng: Rng,
    /// When the first prediction was made: from then on time is counted.
    begun: Option<Instant>,
    /// When each is due, and how it is decided then; the oldest first.
    undecided: VecDeque<(Instant, Id, Decision)>,
}

impl Right {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            options: *options,
            rng: Rng::with_seed(0),
            begun: None,
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
        if !is_of_file || self.rng.f64() >= self.options.rate {
            return None;
        }
        // A call without a wrong result gets the right one.
        let is_wrong = self.rng.f64() < self.options.wrong;
        let wrong = is_wrong.then(|| wrong::guess(&mut self.rng, call.name(), call.arguments()));
        Some(wrong.flatten().unwrap_or(Guess::Truth))
    }

    /// A wrong prediction loses the time until its decision, and the age of its image besides. So images are shared while
    /// they are young beside that time.
    fn may_share(&mut self, age: Duration) -> bool {
        age < SHARED_AGE_MAX.min(self.options.delay)
    }

    fn given(&mut self, id: Id, guess: &Guess, now: Instant) {
        let decision = match guess {
            Guess::Truth => Decision::Affirm,
            _ => Decision::Deny,
        };
        let begun = *self.begun.get_or_insert(now);
        let after = now + self.options.delay - begun;
        // A second has a whole number of these.
        let tick = TICK.subsec_nanos();
        let rest = (tick - after.subsec_nanos() % tick) % tick;
        let due = begun + after + Duration::from_nanos(rest.into());
        self.undecided.push_back((due, id, decision));
    }

    fn due(&mut self, now: Instant) -> Option<(Id, Decision)> {
        let &(due, id, decision) = self.undecided.front()?;
        (due <= now).then(|| {
            self.undecided.pop_front();
            (id, decision)
        })
    }

    fn next_due(&self) -> Option<Instant> {
        self.undecided.front().map(|&(due, ..)| due)
    }

    /// Time decides, and nobody can hurry it.
    fn force(&mut self, _: Id) -> Option<Decision> {
        None
    }

    fn withdrawn(&mut self, id: Id) {
        self.undecided.retain(|&(_, undecided, _)| undecided != id);
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::getpid;
    use surmise_sys::seccomp::Notification;
    use surmise_syscalls::{Syscall, row_of};

    use super::*;

    fn right(delay: Duration, wrong: f64) -> Right {
        let rate = 1.0;
        Right::new(&Options { rate, delay, wrong })
    }

    #[test]
    fn so_many_are_wrong_as_were_asked_for() {
        let row = row_of(Syscall::Faccessat);
        let notification = Notification {
            id: 0,
            thread: getpid(),
            number: row.number(),
            arguments: [0; 6],
            instruction_pointer: 0,
        };
        let call = Call { notification, row };
        let wrong = |share| {
            let mut right = right(Duration::from_millis(30), share);
            let guesses = (0..1000).map(|_| right.offer(&call).expect("a guess"));
            guesses.filter(|guess| *guess != Guess::Truth).count()
        };
        assert_eq!((wrong(0.0), wrong(1.0)), (0, 1000));
        let tenth = wrong(0.1);
        assert!((50..200).contains(&tenth), "{tenth}");
    }

    #[test]
    fn each_is_decided_when_its_time_has_come_and_not_before() {
        let delay = Duration::from_millis(30);
        let mut right = right(delay, 0.0);
        let begun = Instant::now();
        assert_eq!(right.next_due(), None);
        let guesses = [Guess::Truth, Guess::Truth, Guess::Result(-2)];
        for (place, guess) in (0..).zip(&guesses) {
            let given = begun + Duration::from_millis(10 * place);
            right.given(Id(place + 1), guess, given);
        }
        right.withdrawn(Id(2));
        assert_eq!(right.force(Id(1)), None);
        assert_eq!(right.next_due(), Some(begun + delay));
        assert_eq!(right.due(begun + delay - Duration::from_nanos(1)), None);
        let late = begun + 2 * delay;
        assert_eq!(right.due(late), Some((Id(1), Decision::Affirm)));
        assert_eq!(right.due(late), Some((Id(3), Decision::Deny)));
        assert_eq!((right.due(late), right.next_due()), (None, None));
    }

    #[test]
    fn those_of_one_tick_are_decided_together_and_none_too_early() {
        let delay = Duration::from_millis(30);
        let mut right = right(delay, 0.0);
        let begun = Instant::now();
        for (number, after) in [(1, 0), (2, 1), (3, 900), (4, 1001)] {
            let given = begun + Duration::from_micros(after);
            right.given(Id(number), &Guess::Truth, given);
        }
        let mut at = begun + delay;
        let mut decided = Vec::new();
        while let Some(due) = right.next_due() {
            assert!(due >= at && due - at <= TICK);
            at = due;
            let mut together = Vec::new();
            while let Some((id, _)) = right.due(due) {
                together.push(id);
            }
            decided.push(together);
        }
        let wanted = [vec![Id(1)], vec![Id(2), Id(3)], vec![Id(4)]];
        assert_eq!(decided, wanted);
    }
}
