//! Leases that go back, and objects that are forgotten.

use std::collections::BTreeSet;

use super::{Client, Effect};
use crate::frame::{FORGET_MAX, ToServer};
use crate::lease::Mode;
use crate::object::{Object, ObjectId};

impl Client {
    /// Gives back what was recalled, unless the server is about to change it for this client.
    pub(super) fn give_back(&mut self, effects: &mut Vec<Effect>) {
        if self.groups.is_performing() {
            return;
        }
        for (object, (recall, to)) in std::mem::take(&mut self.recalled) {
            let held = self.leases.get(&object).copied();
            if held == Some(Mode::Write) {
                self.share_made(object, effects);
            }
            // From here on nothing is answered by it.
            if held > Some(to) {
                self.leases.insert(object, to);
            }
            if to < Mode::Read {
                self.fetching.forget(object);
                self.candidates.push(object);
            }
            if to < Mode::Read && held >= Some(Mode::Read) {
                let number = self.request();
                self.invalidating
                    .insert(number, (object, Some((recall, to))));
                effects.push(Effect::Invalidate(number, object));
                continue;
            }
            // Without a lease nothing was told to the kernel since, so what it is forgetting now is all that it knows.
            let mut pending = self.invalidating.values_mut().rev();
            match pending.find(|(one, _)| *one == object) {
                Some((_, answer)) => *answer = Some((recall, to)),
                None => self.lower(object, (recall, to), effects),
            }
        }
    }

    pub(super) fn lower(
        &mut self,
        object: ObjectId,
        (recall, to): (u64, Mode),
        effects: &mut Vec<Effect>,
    ) {
        self.cut_group(effects);
        // Without a connection the server recalls again.
        if self.connection.is_up() {
            effects.push(Effect::Send(ToServer::Lower { recall, object, to }));
        }
    }

    /// Forgets objects that the kernel does not know, if they have no name, or may have lost it. An object that still has a
    /// name could be on its way here as part of a listing.
    pub(super) fn forget_candidates(&mut self, effects: &mut Vec<Effect>) {
        // The server hears of that behind the changes by which the names went, and no group is sent for that alone.
        if self.candidates.is_empty() || !self.groups.open.is_empty() {
            return;
        }
        let asked_for: BTreeSet<_> = self
            .asked
            .values()
            .flat_map(|asked| &asked.objects)
            .collect();
        let (later, now): (Vec<_>, Vec<_>) = std::mem::take(&mut self.candidates)
            .into_iter()
            .partition(|object| asked_for.contains(object));
        self.candidates = later;
        let mut forget: Vec<_> = now.into_iter().filter(|id| self.may_forget(*id)).collect();
        forget.sort();
        forget.dedup();
        if forget.is_empty() {
            return;
        }
        for object in &forget {
            self.tree.forget(*object);
            self.ahead.forget(*object);
            self.leases.remove(object);
            if self.stored.remove(object).is_some() {
                effects.push(Effect::Discard(*object));
            }
        }
        for part in forget.chunks(FORGET_MAX) {
            effects.push(Effect::Send(ToServer::Forget(part.to_vec())));
        }
    }

    fn may_forget(&self, object: ObjectId) -> bool {
        let has_name = |known: &Object| known.attributes.links > 0;
        let is_leased = self.leases.get(&object) >= Some(&Mode::Read);
        let is_needed = is_leased && self.tree.get(object).is_some_and(has_name);
        !self.in_kernel.contains(&object) && !is_needed
    }
}
