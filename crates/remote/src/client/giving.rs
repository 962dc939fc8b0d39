//! Leases that go back, and objects that are forgotten.

use super::{Client, Effect};
use crate::frame::ToServer;
use crate::lease::Mode;
use crate::object::ObjectId;

impl Client {
    /// Gives back what was recalled, unless the server is about to change it for this client.
    pub(super) fn give_back(&mut self, effects: &mut Vec<Effect>) {
        if self.groups.is_performing() {
            return;
        }
        for (object, to) in std::mem::take(&mut self.recalled) {
            let is_under_way =
                |(one, to): &(ObjectId, Option<Mode>)| *one == object && to.is_some();
            if self.invalidating.values().any(is_under_way) {
                continue;
            }
            let held = self.leases.get(&object).copied();
            // From here on nothing is answered by it.
            if held > Some(to) {
                self.leases.insert(object, to);
            }
            if self.forgotten.contains(&object) {
                self.candidates.push(object);
            }
            if to < Mode::Read && held >= Some(Mode::Read) {
                let number = self.request();
                self.invalidating.insert(number, (object, Some(to)));
                effects.push(Effect::Invalidate(number, object));
            } else {
                self.lower(object, to, effects);
            }
        }
    }

    pub(super) fn lower(&mut self, object: ObjectId, to: Mode, effects: &mut Vec<Effect>) {
        self.cut_group(effects);
        if self.connection.is_up() {
            effects.push(Effect::Send(ToServer::Lower { object, to }));
        }
    }

    /// Forgets objects that the kernel has forgotten, if they have no name, or may have lost it. What still has a name
    /// could be on its way here as part of a listing.
    pub(super) fn forget_candidates(&mut self, effects: &mut Vec<Effect>) {
        // It could be that a question is about one of them.
        if self.candidates.is_empty() || !self.asked.is_empty() {
            return;
        }
        let mut forget = Vec::new();
        for object in std::mem::take(&mut self.candidates) {
            let Some(known) = self.tree.get(object) else {
                continue;
            };
            let may_be_nameless = self.leases.get(&object) < Some(&Mode::Read);
            if self.forgotten.contains(&object) && (known.attributes.links == 0 || may_be_nameless)
            {
                forget.push(object);
            }
        }
        if forget.is_empty() {
            return;
        }
        self.cut_group(effects);
        for object in &forget {
            self.forgotten.remove(object);
            self.tree.forget(*object);
            self.leases.remove(object);
            if self.stored.remove(object).is_some() {
                effects.push(Effect::Discard(*object));
            }
        }
        effects.push(Effect::Send(ToServer::Forget(forget)));
    }
}
