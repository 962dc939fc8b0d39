//! Keeping what is read behind a prediction from being older than what was predicted.
//!
//! Let a call be answered, and a branch of it be affirmed. Sequential calls of that branch would
//! have been sent after the answer. Those that were sent before stand only if their stamps say that
//! they could have been sent after:
//!
//! * Those whose answers the branch has seen. If one does not stand, neither does what the branch
//!   did with it, so the branch is denied and what follows the call runs again.
//! * Those under way. Nobody has seen their answers, so it is enough to look when they come, and
//!   to send the call again if need be. But an aware call's commit must not wait for its answer, for
//!   the server may have its answer wait for the commit; and it must not be committed and then sent
//!   again. So such a call is sent again at once.
//!
//! A call that is sent again is sent after all answers that it must follow, like a sequential one,
//! whatever its stamp is then. So this ends.

use super::Tree;
use crate::effect::Effect;
use crate::id::{CallId, ScopeId};
use crate::node::{Act, Progress};
use crate::safety::Safety;
use crate::stamp::{Order, Stamp};

impl Tree {
    /// Whether the answer of a call does not stand after one that came while it was under way.
    pub(super) fn is_too_early(&self, call: CallId, stamp: Option<Stamp>) -> bool {
        let found = &self.calls[&call];
        let order = found.request.order;
        let mut earlier = found.must_follow.iter();
        earlier.any(|earlier| !order.permits(stamp, *earlier))
    }

    /// Sends a call again. The answers it had so far become predictions: its branches stay.
    pub(super) fn send_again(&mut self, call: CallId, effects: &mut Vec<Effect>) {
        let found = self.calls.get_mut(&call).expect("it is under way");
        found.must_follow.clear();
        self.budget.take_back(&mut found.lent);
        effects.push(Effect::Cancel(call));
        self.send(call, effects);
    }

    /// Whether everything that a branch and its branches have seen stands after an answer.
    pub(super) fn follows(&self, branch: ScopeId, earlier: Option<Stamp>) -> bool {
        let scope = &self.scopes[&branch];
        let mut seen = scope.seen.iter();
        seen.all(|seen| seen.order.permits(seen.stamp, earlier))
            && open_calls(&scope.acts).all(|call| {
                let mut branches = self.calls[&call].branches.iter();
                branches.all(|branch| self.follows(*branch, earlier))
            })
    }

    /// Obliges the calls under way in a branch and its branches to stand after an answer.
    pub(super) fn oblige(
        &mut self,
        branch: ScopeId,
        earlier: Option<Stamp>,
        effects: &mut Vec<Effect>,
    ) {
        let calls: Vec<_> = open_calls(&self.scopes[&branch].acts).collect();
        for call in calls {
            let found = self.known_mut(call);
            let request = found.request;
            if found.progress == Progress::Sent && request.order != Order::None {
                if request.safety == Safety::Aware {
                    self.send_again(call, effects);
                } else {
                    found.must_follow.push(earlier);
                }
            }
            for branch in self.calls[&call].branches.clone() {
                self.oblige(branch, earlier, effects);
            }
        }
    }
}

fn open_calls(acts: &[Act]) -> impl Iterator<Item = CallId> {
    acts.iter().filter_map(|act| match act {
        Act::Call(call) => Some(*call),
        Act::Rollback(_) => None,
    })
}
