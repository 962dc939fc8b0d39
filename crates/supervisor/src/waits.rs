//! What waits to be attended to, and what waits on a barrier.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use rustix::process::Pid;
use surmise_engine::WaiterId;
use surmise_sys::seccomp::Answer;

use crate::call::Call;
use crate::kind::Kind;
use crate::source::Offer;

/// Something that waits.
#[derive(Debug)]
pub(crate) enum Item<S> {
    /// A call.
    Call(Asked),
    /// A thread of a process that is about to take a signal.
    Signal { process: Pid, signal: S },
}

impl<S> Item<S> {
    pub(crate) fn call(&self) -> Option<&Call> {
        match self {
            Self::Call(asked) => Some(&asked.call),
            Self::Signal { .. } => None,
        }
    }
}

/// A call, and what is known of its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) call: Call,
    /// A guess for it.
    pub(crate) offer: Option<Offer>,
    /// What it gets as far as durability goes, for which it has waited. All else may have changed meanwhile.
    pub(crate) ordered: Option<Answer>,
}

/// Something that waits on a barrier.
#[derive(Debug)]
struct Parked<S> {
    item: Item<S>,
    kind: Kind,
    since: Instant,
}

/// What an item waited for, and since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waited {
    pub(crate) kind: Kind,
    pub(crate) since: Instant,
}

/// All that was heard and is not yet answered.
#[derive(Debug)]
pub(crate) struct Waits<S> {
    ready: VecDeque<Item<S>>,
    /// Until the engine wakes the waiter.
    parked: BTreeMap<WaiterId, Parked<S>>,
    /// Until no output is on its way to a reader.
    behind_output: Vec<Parked<S>>,
    /// How many waiters there have been.
    waiters: u64,
}

impl<S> Default for Waits<S> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            parked: BTreeMap::new(),
            behind_output: Vec::new(),
            waiters: 0,
        }
    }
}

impl<S> Waits<S> {
    /// Something is to be attended to, after what came before.
    pub(crate) fn add(&mut self, item: Item<S>) {
        self.ready.push_back(item);
    }

    /// What is to be attended to next.
    pub(crate) fn next(&mut self) -> Option<Item<S>> {
        self.ready.pop_front()
    }

    /// Has something wait for the engine. The waiter is the engine's to wake.
    pub(crate) fn park(&mut self, item: Item<S>, kind: Kind, since: Instant) -> WaiterId {
        self.waiters += 1;
        let waiter = WaiterId(self.waiters);
        self.parked.insert(waiter, Parked { item, kind, since });
        waiter
    }

    /// Whether a waiter is still to be woken.
    pub(crate) fn is_parked(&self, waiter: WaiterId) -> bool {
        self.parked.contains_key(&waiter)
    }

    /// The engine has woken a waiter. Returns the call that it waited in, and for what.
    pub(crate) fn wake(&mut self, waiter: WaiterId) -> Option<(Option<Call>, Waited)> {
        let parked = self.parked.remove(&waiter)?;
        Some(self.unpark(parked))
    }

    /// Has something wait until no output is on its way.
    pub(crate) fn park_behind_output(&mut self, item: Item<S>, since: Instant) {
        let kind = Kind::Stream;
        self.behind_output.push(Parked { item, kind, since });
    }

    /// No output is on its way any more.
    pub(crate) fn wake_behind_output(&mut self) -> Vec<(Option<Call>, Waited)> {
        let all = std::mem::take(&mut self.behind_output);
        all.into_iter().map(|parked| self.unpark(parked)).collect()
    }

    fn unpark(&mut self, parked: Parked<S>) -> (Option<Call>, Waited) {
        let Parked { item, kind, since } = parked;
        let call = item.call().copied();
        self.ready.push_back(item);
        (call, Waited { kind, since })
    }

    /// All calls that wait.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &Call> {
        let parked = self.parked.values().chain(&self.behind_output);
        let items = self.ready.iter().chain(parked.map(|parked| &parked.item));
        items.filter_map(Item::call)
    }

    /// Takes the signal that a thread of a process is about to take.
    pub(crate) fn take_signal(&mut self, of: Pid) -> Option<(S, Option<WaiterId>)> {
        let is_meant =
            |item: &Item<S>| matches!(item, Item::Signal { process, .. } if *process == of);
        if let Some(at) = self.ready.iter().position(is_meant)
            && let Some(Item::Signal { signal, .. }) = self.ready.remove(at)
        {
            return Some((signal, None));
        }
        let mut parked = self.parked.iter();
        let (&waiter, _) = parked.find(|(_, parked)| is_meant(&parked.item))?;
        match self.parked.remove(&waiter)?.item {
            Item::Signal { signal, .. } => Some((signal, Some(waiter))),
            Item::Call(_) => None,
        }
    }

    /// Forgets calls that do not wait any more. Returns the waiters among them, for the engine to forget.
    pub(crate) fn forget(&mut self, is_over: impl Fn(&Call) -> bool) -> Vec<WaiterId> {
        let is_over = |item: &Item<S>| item.call().is_some_and(&is_over);
        self.ready.retain(|item| !is_over(item));
        self.behind_output.retain(|parked| !is_over(&parked.item));
        let over = self
            .parked
            .iter()
            .filter(|(_, parked)| is_over(&parked.item));
        let over: Vec<_> = over.map(|(&waiter, _)| waiter).collect();
        for waiter in &over {
            self.parked.remove(waiter);
        }
        over
    }
}
