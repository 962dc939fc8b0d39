//! Replies to held output, which come only when a person decides: who waits for them, and whether anything goes on
//! without them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::effect::Effect;
use super::{Effects, Result};
use crate::consent::{Consent, Wait};

/// How often it is looked whether all tasks wait, while some task waits for a reply to held output.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct Replies {
    consent: Consent,
    /// Tasks that wait, by hold.
    waiting: BTreeMap<u64, Waiting>,
    next_look: Option<Instant>,
}

#[derive(Debug)]
struct Waiting {
    peer: String,
    inode: u64,
}

impl Replies {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            consent: Consent::new()?,
            waiting: BTreeMap::new(),
            next_look: None,
        })
    }

    /// Something of a hold waits from now on.
    pub(super) fn held(&mut self, hold: u64) -> Result<()> {
        Ok(self.consent.held(hold)?)
    }

    /// Nothing of a hold waits any more.
    pub(super) fn gone(&mut self, hold: u64) {
        self.consent.gone(hold);
    }

    /// A task waits for a reply to a hold, on the socket `inode`. Returns whether that is new.
    pub(super) fn waits(&mut self, hold: u64, peer: &str, inode: u64, now: Instant) -> bool {
        self.next_look.get_or_insert(now + LOOK_EVERY);
        let peer = peer.into();
        self.waiting.insert(hold, Waiting { peer, inode }).is_none()
    }

    /// It waits no more.
    pub(super) fn settled(&mut self, hold: u64) {
        self.waiting.remove(&hold);
    }

    /// When [`Self::pass`] has something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        self.next_look
    }

    /// Looks whether anything in the domain can go on without a person, when that is due. `is_busy`: something
    /// else has to come to its end first.
    pub(super) fn pass<V>(
        &mut self,
        now: Instant,
        is_busy: bool,
        effects: &mut Effects<V>,
    ) -> Result<()> {
        if self.next_look.is_none_or(|at| at > now) {
            return Ok(());
        }
        if self.waiting.is_empty() {
            self.next_look = None;
            return self.look_afresh(effects);
        }
        self.next_look = Some(now + LOOK_EVERY);
        if !is_busy {
            let held: BTreeSet<_> = self.waiting.values().map(|waiting| waiting.inode).collect();
            effects.push(Effect::Sample(held));
        }
        Ok(())
    }

    /// What was seen of the tasks counts no more: if all wait again, that is another stall.
    pub(super) fn look_afresh<V>(&mut self, effects: &mut Effects<V>) -> Result<()> {
        effects.push(Effect::ForgetSample);
        Ok(self.consent.look_afresh()?)
    }

    /// What each task waits for. Returns whether nothing goes on any more, which is told once.
    pub(super) fn have_stalled(&mut self, waits: &BTreeMap<u64, Wait>) -> Result<bool> {
        Ok(self.consent.look(waits)?)
    }

    /// Whose replies all wait for, and by which holds.
    pub(super) fn wanted(&self) -> (Vec<String>, Vec<u64>) {
        let peers: BTreeSet<_> = self.waiting.values().map(|w| w.peer.clone()).collect();
        (
            peers.into_iter().collect(),
            self.waiting.keys().copied().collect(),
        )
    }

    /// The person agrees to all so far. Returns the holds that may leave, in their order.
    pub(super) fn affirm(&mut self) -> Result<Vec<u64>> {
        Ok(self.consent.affirm()?)
    }
}
