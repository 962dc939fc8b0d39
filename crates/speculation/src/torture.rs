//! Misprediction at random: which calls are guessed, what is guessed, and when that is decided.

mod wrong;

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Pid;
use surmise_engine::{Decision, Id};

use crate::options;

pub(crate) use wrong::Guess;

/// How many further events it takes at most until a guess is decided.
const EVENTS_MAX: u64 = 2000;
/// How long it takes at most: a wrong guess may lead to a loop without an event.
const AGE_MAX: Duration = Duration::from_millis(60);
/// How long whoever stops all tasks may take to begin with it.
const REST: Duration = Duration::from_secs(2);
/// Of so many guesses one is right.
const RIGHT: u32 = 4;
/// How old a checkpoint is that a further guess may share.
const SHARED_AGE_MAX: Duration = Duration::from_millis(500);

/// The owner of all predictions of a domain that is tortured.
#[derive(Debug)]
pub(crate) struct Torture {
    rng: Rng,
    rate: f64,
    events: u64,
    undecided: BTreeMap<Id, Undecided>,
    /// Until when nothing is guessed.
    rests_until: Option<Instant>,
    /// Threads whose next call happens as it is: it was guessed wrong before.
    truthful: HashSet<Pid>,
}

/// A guess that was given.
#[derive(Debug)]
struct Undecided {
    process: Pid,
    thread: Pid,
    decision: Decision,
    due: u64,
    given: Instant,
}

impl Torture {
    pub(crate) fn new(options: &options::Torture) -> Self {
        Self {
            rng: Rng::with_seed(options.seed),
            rate: options.rate,
            events: 0,
            undecided: BTreeMap::new(),
            rests_until: None,
            truthful: HashSet::new(),
        }
    }

    /// A call has come; returns whether it is to be guessed.
    pub(crate) fn event(&mut self, thread: Pid) -> bool {
        self.events += 1;
        let is_resting = self.rests_until.is_some_and(|until| Instant::now() < until);
        let chosen = self.rng.f64() < self.rate && !is_resting;
        !self.truthful.remove(&thread) && chosen
    }

    /// Guesses nothing for a moment.
    pub(crate) fn rest(&mut self) {
        self.rests_until = Some(Instant::now() + REST);
    }

    /// What to guess; `None` for a call that has no wrong result.
    pub(crate) fn guess(&mut self, name: &str, arguments: &[u64; 6]) -> Option<Guess> {
        if self.rng.u32(..RIGHT) == 0 && wrong::has_wrong_results(name) {
            return Some(Guess::Truth);
        }
        wrong::guess(&mut self.rng, name, arguments)
    }

    /// Whether a guess may share a checkpoint of that age.
    pub(crate) fn may_share(&mut self, age: Duration) -> bool {
        age < SHARED_AGE_MAX && self.rng.bool()
    }

    /// A guess was given.
    pub(crate) fn given(&mut self, id: Id, process: Pid, thread: Pid, guess: &Guess) {
        let undecided = Undecided {
            process,
            thread,
            decision: match guess {
                Guess::Truth => Decision::Affirm,
                _ => Decision::Deny,
            },
            due: self.events + self.rng.u64(1..=EVENTS_MAX),
            given: Instant::now(),
        };
        self.undecided.insert(id, undecided);
    }

    /// The next call of a thread happens as it is.
    pub(crate) fn be_truthful(&mut self, thread: Pid) {
        self.truthful.insert(thread);
    }

    /// Makes a decision. Returns it, and who was given the guess.
    pub(crate) fn decide(&mut self, id: Id) -> Option<(Pid, Decision)> {
        let decided = self.undecided.remove(&id)?;
        if decided.decision == Decision::Deny {
            self.truthful.insert(decided.thread);
        }
        Some((decided.process, decided.decision))
    }

    /// Forgets a guess whose task was undone.
    pub(crate) fn withdraw(&mut self, id: Id) {
        self.undecided.remove(&id);
    }

    /// The oldest guess that is to be decided by now.
    pub(crate) fn due(&self) -> Option<Id> {
        let is_due =
            |guess: &Undecided| guess.due <= self.events || guess.given.elapsed() >= AGE_MAX;
        let found = self.undecided.iter().find(|(_, guess)| is_due(guess));
        found.map(|(&id, _)| id)
    }

    /// The oldest guess of a process.
    pub(crate) fn oldest(&self, process: Pid) -> Option<Id> {
        let own = |guess: &Undecided| guess.process == process;
        let found = self.undecided.iter().find(|(_, guess)| own(guess));
        found.map(|(&id, _)| id)
    }

    /// How long a wait for the next event may take, if it may not take for ever.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let youngest = self.undecided.values().map(|guess| guess.given).min();
        youngest.map(|given| AGE_MAX.saturating_sub(given.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn tortured() -> (Torture, Pid) {
        let options = options::Torture {
            seed: 7,
            rate: 1e-9,
        };
        (Torture::new(&options), rustix::process::getpid())
    }

    #[test]
    fn a_guess_is_due_after_two_thousand_events_at_most() {
        // So long that none is due by its age.
        let later = Instant::now() + Duration::from_secs(600);
        let (mut torture, own) = tortured();
        for number in 1..=50 {
            torture.given(Id(number), own, own, &Guess::Result(-1));
        }
        for guess in torture.undecided.values_mut() {
            guess.given = later;
        }
        assert_eq!(torture.due(), None);
        let mut decided = 0;
        for _ in 0..EVENTS_MAX {
            torture.event(own);
            while let Some(id) = torture.due() {
                torture.decide(id);
                decided += 1;
            }
        }
        assert_eq!(decided, 50);
    }

    #[test]
    fn a_guess_is_due_when_it_is_old_without_an_event() {
        let (mut torture, own) = tortured();
        assert_eq!(torture.patience(), None);
        torture.given(Id(1), own, own, &Guess::Truth);
        thread::sleep(torture.patience().expect("a guess"));
        assert_eq!(torture.due(), Some(Id(1)));
        assert_eq!(torture.decide(Id(1)), Some((own, Decision::Affirm)));
        assert_eq!((torture.due(), torture.oldest(own)), (None, None));
    }

    #[test]
    fn what_was_guessed_wrong_happens_as_it_is_the_next_time() {
        let options = options::Torture { seed: 7, rate: 1.0 };
        let (mut torture, own) = (Torture::new(&options), rustix::process::getpid());
        assert!(torture.event(own));
        torture.given(Id(1), own, own, &Guess::Result(-1));
        assert_eq!(torture.decide(Id(1)), Some((own, Decision::Deny)));
        assert!(!torture.event(own) && torture.event(own));
        torture.rest();
        assert!(!torture.event(own), "nothing is guessed");
    }
}
