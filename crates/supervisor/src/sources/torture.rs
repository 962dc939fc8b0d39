//! Misprediction at random: which calls are guessed, what is guessed, and when that is decided.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fastrand::Rng;
use surmise_engine::{Decision, Id};

use super::wrong;
use crate::call::Call;
use crate::source::{Guess, Source};

/// How many further events it takes at most until a guess is decided.
const EVENTS_MAX: u64 = 2000;
/// How long it takes at most: a wrong guess may lead to a loop without an event.
const AGE_MAX: Duration = Duration::from_millis(60);
/// Of so many guesses one is right.
const RIGHT: u32 = 4;
/// How old an image is that a further guess may share.
const SHARED_AGE_MAX: Duration = Duration::from_millis(500);

/// Misprediction at random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// What the random choices are made from: the same ones for the same history of calls.
    pub seed: u64,
    /// How probable it is for a call to be mispredicted: above 0, at most 1.
    pub rate: f64,
}

/// The owner of all predictions of a domain that is tortured.
#[derive(Debug)]
pub(crate) struct Torture {
    rng: Rng,
    rate: f64,
    events: u64,
    undecided: BTreeMap<Id, Undecided>,
}

/// A guess that was given.
#[derive(Debug)]
struct Undecided {
    decision: Decision,
    due: u64,
    given: Instant,
}

impl Torture {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            rng: Rng::with_seed(options.seed),
            rate: options.rate,
            events: 0,
            undecided: BTreeMap::new(),
        }
    }
}

impl Source for Torture {
    /// `None` also for a call that has no wrong result.
    fn offer(&mut self, call: &Call) -> Option<Guess> {
        self.events += 1;
        if self.rng.f64() >= self.rate {
            return None;
        }
        if self.rng.u32(..RIGHT) == 0 && wrong::has_wrong_results(call.name()) {
            return Some(Guess::Truth);
        }
        wrong::guess(&mut self.rng, call.name(), call.arguments())
    }

    fn may_share(&mut self, age: Duration) -> bool {
        age < SHARED_AGE_MAX && self.rng.bool()
    }

    fn given(&mut self, id: Id, guess: &Guess, now: Instant) {
        let undecided = Undecided {
            decision: match guess {
                Guess::Truth => Decision::Affirm,
                _ => Decision::Deny,
            },
            due: self.events + self.rng.u64(1..=EVENTS_MAX),
            given: now,
        };
        self.undecided.insert(id, undecided);
    }

    fn due(&mut self, now: Instant) -> Option<(Id, Decision)> {
        let is_due = |guess: &Undecided| {
            guess.due <= self.events || now.saturating_duration_since(guess.given) >= AGE_MAX
        };
        let mut undecided = self.undecided.iter();
        let (&id, _) = undecided.find(|(_, guess)| is_due(guess))?;
        Some((id, self.force(id)?))
    }

    fn next_due(&self) -> Option<Instant> {
        let oldest = self.undecided.values().map(|guess| guess.given).min();
        oldest.map(|given| given + AGE_MAX)
    }

    /// What was chosen when the guess was given: it may be told at any time.
    fn force(&mut self, id: Id) -> Option<Decision> {
        self.undecided.remove(&id).map(|guess| guess.decision)
    }

    fn withdrawn(&mut self, id: Id) {
        self.undecided.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::getpid;
    use surmise_sys::seccomp::Notification;
    use surmise_syscalls::{Syscall, row_of};

    use super::*;

    fn tortured(rate: f64) -> Torture {
        Torture::new(&Options { seed: 7, rate })
    }

    fn call() -> Call {
        let row = row_of(Syscall::Getpgid);
        let notification = Notification {
            id: 1,
            thread: getpid(),
            number: row.number(),
            arguments: [0; 6],
            instruction_pointer: 0,
        };
        Call { notification, row }
    }

    #[test]
    fn a_guess_is_due_after_two_thousand_events_at_most() {
        // So early that none is due by its age.
        let now = Instant::now();
        let mut torture = tortured(1e-9);
        for number in 1..=50 {
            torture.given(Id(number), &Guess::Result(-1), now);
        }
        assert_eq!(torture.due(now), None);
        let mut decided = 0;
        for _ in 0..EVENTS_MAX {
            assert_eq!(torture.offer(&call()), None);
            while let Some((_, decision)) = torture.due(now) {
                assert_eq!(decision, Decision::Deny);
                decided += 1;
            }
        }
        assert_eq!(decided, 50);
    }

    #[test]
    fn a_guess_is_due_when_it_is_old_without_an_event() {
        let now = Instant::now();
        let mut torture = tortured(1e-9);
        assert_eq!(torture.next_due(), None);
        torture.given(Id(1), &Guess::Truth, now);
        let due = torture.next_due().expect("a guess");
        assert_eq!(torture.due(due - Duration::from_nanos(1)), None);
        assert_eq!(torture.due(due), Some((Id(1), Decision::Affirm)));
        assert_eq!((torture.due(due), torture.next_due()), (None, None));
    }

    #[test]
    fn a_guess_can_be_decided_at_any_time_and_once() {
        let mut torture = tortured(1.0);
        assert!(torture.offer(&call()).is_some());
        torture.given(Id(1), &Guess::Result(-1), Instant::now());
        assert_eq!(torture.force(Id(1)), Some(Decision::Deny));
        assert_eq!(torture.force(Id(1)), None);
        torture.given(Id(2), &Guess::Result(-1), Instant::now());
        torture.withdrawn(Id(2));
        assert_eq!(torture.force(Id(2)), None);
    }
}
