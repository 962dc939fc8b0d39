//! Where guesses come from, and who decides them.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use surmise_engine::{Decision, Extents, Id};

use crate::call::Call;
use crate::map::Map;

/// How long the role that stops all tasks may take to begin with it.
pub(crate) const REST: Duration = Duration::from_secs(2);

/// What a task is told instead of waiting for the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guess {
    /// What the call returns, an error number where it is negative. It does not happen.
    Result(i64),
    /// What the call itself gives: it happens.
    Truth,
    /// Attributes of a file as they are not.
    Attributes(Stale),
    /// As many bytes of a file as this, though there may be more.
    Short(u64),
}

impl Guess {
    /// Whether the guess needs nothing of its caller but an answer.
    pub(crate) fn is_simple(&self) -> bool {
        matches!(self, Self::Result(_) | Self::Truth)
    }
}

/// Where a call puts attributes, and what is wrong with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stale {
    /// The address of a `struct stat`, or of a `struct statx`.
    pub(crate) address: u64,
    /// Where in it the word is that is changed, in bytes.
    pub(crate) offset: u64,
    /// What is added to the word.
    pub(crate) change: i64,
}

/// One source of guesses: it makes predictions, and owns them.
pub(crate) trait Source: fmt::Debug {
    /// A call has come. What its caller is to be told, if this source has a guess. The guess need not be given.
    fn offer(&mut self, call: &Call) -> Option<Guess>;

    /// Whether a further guess may share an image of that age.
    fn may_share(&mut self, age: Duration) -> bool;

    /// A guess was given: this prediction is the source's to decide.
    fn given(&mut self, id: Id, guess: &Guess, now: Instant);

    /// A decision that is to be made by now.
    fn due(&mut self, now: Instant) -> Option<(Id, Decision)>;

    /// When the next decision is due, if time decides that.
    fn next_due(&self) -> Option<Instant>;

    /// Somebody waits for a decision. `None` if it cannot be made now: then it comes when it is due.
    fn force(&mut self, id: Id) -> Option<Decision>;

    /// What this prediction was made for is undone: it is not to be decided any more.
    fn withdrawn(&mut self, id: Id);
}

/// All sources of a domain, and who was given what.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    all: Vec<Box<dyn Source>>,
    given: BTreeMap<Id, Given>,
    /// Those of each process that has any.
    by_process: Map<Pid, BTreeSet<Id>>,
    /// Threads whose next call happens as it is.
    truthful: HashSet<Pid>,
    /// Until when nothing is guessed.
    rests_until: Option<Instant>,
}

/// A guess that was given and is undecided.
#[derive(Clone, Copy, Debug)]
struct Given {
    source: usize,
    process: Pid,
    thread: Pid,
}

/// A guess, and the source that offers it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    source: usize,
    pub(crate) guess: Guess,
}

impl Sources {
    pub(crate) fn new(all: Vec<Box<dyn Source>>) -> Self {
        Self {
            all,
            ..Self::default()
        }
    }

    /// A call has come. The first guess that is offered, unless the call is to happen as it is. The time is asked for
    /// only if it matters: it does to few calls.
    pub(crate) fn offer(&mut self, call: &Call, now: impl FnOnce() -> Instant) -> Option<Offer> {
        // Every source hears of every call.
        let offers = self.all.iter_mut().enumerate();
        let offers = offers.filter_map(|(source, one)| {
            let guess = one.offer(call)?;
            Some(Offer { source, guess })
        });
        let first = offers.fold(None, |first: Option<Offer>, offer| first.or(Some(offer)));
        let is_truthful = self.truthful.remove(&call.thread());
        let offer = first.filter(|_| !is_truthful)?;
        let rests = self.rests_until.is_some_and(|until| now() < until);
        (!rests).then_some(offer)
    }

    pub(crate) fn may_share(&mut self, offer: &Offer, age: Duration) -> bool {
        self.all[offer.source].may_share(age)
    }

    /// A guess was given to a thread of a process.
    pub(crate) fn given(&mut self, id: Id, offer: &Offer, to: (Pid, Pid), now: Instant) {
        let (process, thread) = to;
        self.all[offer.source].given(id, &offer.guess, now);
        let given = Given {
            source: offer.source,
            process,
            thread,
        };
        self.given.insert(id, given);
        self.by_process.entry(process).or_default().insert(id);
    }

    fn take(&mut self, id: Id) -> Option<Given> {
        let given = self.given.remove(&id)?;
        if let Entry::Occupied(mut of) = self.by_process.entry(given.process) {
            of.get_mut().remove(&id);
            if of.get().is_empty() {
                of.remove();
            }
        }
        Some(given)
    }

    /// The next call of a thread happens as it is.
    pub(crate) fn be_truthful(&mut self, thread: Pid) {
        self.truthful.insert(thread);
    }

    /// Guesses nothing for a moment.
    pub(crate) fn rest(&mut self, now: Instant) {
        self.rests_until = Some(now + REST);
    }

    /// Whether a guess was given that is undecided.
    pub(crate) fn have_undecided(&self) -> bool {
        !self.given.is_empty()
    }

    /// The undecided predictions that a process was given, the newest first.
    pub(crate) fn given_to(&self, process: Pid) -> impl Iterator<Item = Id> {
        let given = self.by_process.get(&process).into_iter();
        given.flatten().rev().copied()
    }

    /// A decision that is to be made by now.
    pub(crate) fn due(&mut self, now: Instant) -> Option<(Id, Decision)> {
        let decision = self.all.iter_mut().find_map(|source| source.due(now))?;
        self.note_decided(decision);
        Some(decision)
    }

    /// When the next decision is due, if time decides that.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.all.iter().filter_map(|source| source.next_due()).min()
    }

    /// Asks for the decision of the oldest of some predictions that can be made now.
    pub(crate) fn force(&mut self, wanted: &Extents) -> Option<(Id, Decision)> {
        let mut given = self.given.iter().filter(|(id, _)| wanted.contains(**id));
        let decision = given.find_map(|(&id, given)| {
            let decision = self.all[given.source].force(id)?;
            Some((id, decision))
        })?;
        self.note_decided(decision);
        Some(decision)
    }

    fn note_decided(&mut self, (id, decision): (Id, Decision)) {
        // What was guessed wrong happens as it is the next time.
        if let Some(given) = self.take(id)
            && decision == Decision::Deny
        {
            self.truthful.insert(given.thread);
        }
    }

    /// What a prediction was made for is undone.
    pub(crate) fn withdrawn(&mut self, id: Id) {
        if let Some(given) = self.take(id) {
            self.all[given.source].withdrawn(id);
        }
    }

    /// The oldest undecided prediction that is meant.
    pub(crate) fn oldest(&self, is_meant: impl Fn(Id) -> bool) -> Option<Id> {
        self.given.keys().copied().find(|id| is_meant(*id))
    }
}
