//! New objects, which are shared with those who read the directory that they are in.
//!
//! A client may change what it has made until another asks for it. A program that reads a directory which has changed looks at what
//! is new there next. So that the new objects need not be asked for one by one, their leases go back with that on the directory.

use std::collections::VecDeque;

use super::{Client, Effect};
use crate::frame::{SHARE_MAX, ToServer};
use crate::lease::Mode;
use crate::object::ObjectId;

/// The newest objects of this client, each with the directory in which it was made.
#[derive(Debug, Default)]
pub(super) struct Made(VecDeque<(ObjectId, ObjectId)>);

impl Made {
    pub(super) fn add(&mut self, directory: ObjectId, object: ObjectId) {
        if self.0.len() == SHARE_MAX {
            self.0.pop_front();
        }
        self.0.push_back((directory, object));
    }

    /// Those of a directory, which are not new any more.
    fn take(&mut self, directory: ObjectId) -> Vec<ObjectId> {
        let (taken, left) = self.0.drain(..).partition(|(at, _)| *at == directory);
        self.0 = left;
        let taken: VecDeque<_> = taken;
        taken.into_iter().map(|(_, object)| object).collect()
    }
}

impl Client {
    /// The lease to change a directory is about to go back.
    pub(super) fn share_made(&mut self, directory: ObjectId, effects: &mut Vec<Effect>) {
        let mut shared = self.made.take(directory);
        // An answer that is on its way may bring the lease again.
        let is_coming = |object: &ObjectId| {
            let mut asked = self.asked.values();
            asked.any(|asked| asked.objects.contains(object))
        };
        shared.retain(|object| self.leases.get(object) == Some(&Mode::Write) && !is_coming(object));
        if shared.is_empty() || !self.connection.is_up() {
            return;
        }
        for object in &shared {
            self.leases.insert(*object, Mode::Read);
        }
        self.cut_group(effects);
        effects.push(Effect::Send(ToServer::Share(shared)));
    }
}
