//! The order of output: channels, what they hold, and when it may go.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;

use crate::assumptions::{Assumptions, Watcher};
use crate::deps::Tracked;
use crate::error::EngineError;
use crate::id::{ChannelId, HoldId, Id};
use crate::kind::Kinds;

/// All channels.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    channels: BTreeMap<ChannelId, Channel>,
    /// Where each held output is.
    holds: HashMap<HoldId, ChannelId, BuildHasherDefault<DefaultHasher>>,
    arrivals: u64,
}

/// One channel. Only its head is watched: what is behind must wait for the head anyway.
#[derive(Debug)]
struct Channel {
    gates: Kinds,
    /// By arrival: one that a rollback drops may be anywhere.
    held: BTreeMap<u64, Held>,
    /// The assumption that the head waits for.
    watching: Option<Id>,
}

/// What an output depended on when it arrived.
#[derive(Debug)]
struct Held {
    hold: HoldId,
    tracked: Tracked,
    consent: Option<Id>,
}

/// Outputs that leave the outbox by one event; in causal order once sorted.
#[derive(Debug, Default)]
pub(crate) struct Leaving(Vec<(u64, HoldId)>);

impl Leaving {
    /// In the order in which they arrived.
    pub fn in_order(mut self) -> impl Iterator<Item = HoldId> {
        self.0.sort_unstable();
        self.0.into_iter().map(|(_, hold)| hold)
    }
}

impl Outputs {
    pub fn open(&mut self, channel: ChannelId, gates: Kinds) -> Result<(), EngineError> {
        check_gates(channel, gates)?;
        if self.channels.contains_key(&channel) {
            return Err(EngineError::ChannelExists(channel));
        }
        let opened = Channel {
            gates,
            held: BTreeMap::new(),
            watching: None,
        };
        self.channels.insert(channel, opened);
        Ok(())
    }

    /// Forgets a channel that holds nothing.
    pub fn close(&mut self, channel: ChannelId) -> Result<(), EngineError> {
        match self.channels.get(&channel) {
            None => Err(EngineError::UnknownChannel(channel)),
            Some(found) if !found.held.is_empty() => Err(EngineError::ChannelHolds(channel)),
            Some(_) => {
                self.channels.remove(&channel);
                Ok(())
            }
        }
    }

    /// Throws away everything that is held.
    pub fn discard_all(&mut self, assumptions: &mut Assumptions, dropped: &mut Leaving) {
        self.holds.clear();
        for (&id, channel) in &mut self.channels {
            if let Some(watched) = channel.watching.take() {
                assumptions.unwatch(watched, Watcher::Head(id));
            }
            let held = std::mem::take(&mut channel.held).into_iter();
            dropped
                .0
                .extend(held.map(|(arrival, held)| (arrival, held.hold)));
        }
    }

    /// Whether an output may be given to [`Self::push`].
    pub fn check(&self, channel: ChannelId, hold: HoldId) -> Result<(), EngineError> {
        if self.holds.contains_key(&hold) {
            return Err(EngineError::HoldExists(hold));
        }
        let is_open = self.channels.contains_key(&channel);
        is_open
            .then_some(())
            .ok_or(EngineError::UnknownChannel(channel))
    }

    /// Takes an output that was checked; it may leave at once. Returns its arrival.
    pub fn push(
        &mut self,
        channel: ChannelId,
        hold: HoldId,
        tracked: Tracked,
        assumptions: &mut Assumptions,
        leaving: &mut Leaving,
    ) -> u64 {
        self.arrivals += 1;
        let arrival = self.arrivals;
        let Some(found) = self.channels.get_mut(&channel) else {
            return arrival;
        };
        let held = Held {
            hold,
            tracked,
            consent: assumptions.consent(),
        };
        found.held.insert(arrival, held);
        self.holds.insert(hold, channel);
        if found.held.len() == 1 {
            self.advance(channel, assumptions, leaving);
        }
        arrival
    }

    /// Whether an output is held.
    pub fn is_held(&self, channel: ChannelId, arrival: u64) -> bool {
        let found = self.channels.get(&channel);
        found.is_some_and(|found| found.held.contains_key(&arrival))
    }

    /// Whether an output is held and depends on this undecided prediction.
    pub fn depends(&self, channel: ChannelId, arrival: u64, id: Id) -> bool {
        let found = self.channels.get(&channel);
        let held = found.and_then(|found| found.held.get(&arrival));
        held.is_some_and(|held| held.tracked.predictions.contains(id))
    }

    /// Throws away one held output. Its channel is to be advanced after that.
    pub fn drop_held(&mut self, channel: ChannelId, arrival: u64, dropped: &mut Leaving) {
        let found = self.channels.get_mut(&channel);
        if let Some(held) = found.and_then(|found| found.held.remove(&arrival)) {
            self.holds.remove(&held.hold);
            dropped.0.push((arrival, held.hold));
        }
    }

    /// Lets go of all that may go from the head of a channel, and watches for the rest.
    pub fn advance(
        &mut self,
        channel: ChannelId,
        assumptions: &mut Assumptions,
        leaving: &mut Leaving,
    ) {
        let Some(found) = self.channels.get_mut(&channel) else {
            return;
        };
        let watcher = Watcher::Head(channel);
        if let Some(id) = found.watching.take() {
            assumptions.unwatch(id, watcher);
        }
        while let Some(head) = found.held.first_entry() {
            let (arrival, head) = (*head.key(), head.get());
            let wait = head
                .tracked
                .newest(head.consent, found.gates, None, assumptions);
            if let Some(id) = wait {
                assumptions.watch(id, watcher);
                found.watching = Some(id);
                return;
            }
            self.holds.remove(&head.hold);
            leaving.0.push((arrival, head.hold));
            found.held.pop_first();
        }
    }
}

/// Undecided state is seen outside by nobody but the person who decides, and even by them only
/// ahead of their own consent.
fn check_gates(channel: ChannelId, gates: Kinds) -> Result<(), EngineError> {
    let gated = gates.predictions && gates.epochs;
    gated.then_some(()).ok_or(EngineError::RunsAhead(channel))
}
