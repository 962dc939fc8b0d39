//! A client that ends without the server.

use super::groups::Groups;
use super::{Client, Effect, Sent};
use crate::errno::Errno;
use crate::lost::{LostChanges, Undecided};

impl Client {
    /// All changes that have no verdict: what would be lost if the client ended now. The server may have made the first of them
    /// already.
    pub fn without_verdict(&self) -> LostChanges {
        let all = self.groups.without_verdict().cloned().collect();
        self.with_places(all, &[])
    }

    /// The client ends without a verdict: takes all changes that have none.
    pub fn abandon(&mut self) -> LostChanges {
        let lost = self.without_verdict();
        self.groups = Groups::default();
        lost
    }

    /// Nothing is waited for any more, and what has no verdict is the caller's.
    pub(super) fn give_up(&mut self, effects: &mut Vec<Effect>) {
        self.groups = Groups::default();
        for token in std::mem::take(&mut self.parked).into_keys() {
            effects.push(Effect::Answer(token, Err(Errno::IO)));
        }
        self.left(effects);
    }
}

impl Groups {
    fn without_verdict(&self) -> impl Iterator<Item = &Undecided> {
        let sent = self.sent.iter().flat_map(|(_, sent)| match sent {
            Sent::Made(made) => made.as_slice(),
            // Its call waits for a verdict.
            Sent::Asked { .. } => &[],
        });
        sent.chain(&self.open)
    }
}
