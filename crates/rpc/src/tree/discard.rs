//! Scopes that should never have been, and calls that nobody waits for.

use super::{Tree, place};
use crate::effect::Effect;
use crate::error::TreeError;
use crate::id::{CallId, ScopeId};
use crate::node::{Act, Progress};

/// Ends before the end.
impl Tree {
    /// The scope of a call does not wait for it any more: a deadline passed, or another call of it
    /// failed. Its branches are discarded and its stream is ended.
    ///
    /// # Errors
    ///
    /// There is no such call, or it has ended.
    pub fn abandon(&mut self, call: CallId, effects: &mut Vec<Effect>) -> Result<(), TreeError> {
        let found = self.known(call)?;
        if found.progress == Progress::Returned {
            return Err(TreeError::UnknownCall(call));
        }
        let scope = found.scope;
        let scope = self.scopes.get_mut(&scope).expect("it has a call");
        let place = place(&scope.acts, call);
        scope.acts.remove(place);
        self.discard_call(call, effects);
        Ok(())
    }

    /// The root ends, and nothing that is undecided in it will be decided: its caller's stream ended
    /// without a commit, or its program gives up. Every later event is refused.
    ///
    /// # Errors
    ///
    /// The root was discarded before.
    pub fn abort(&mut self, effects: &mut Vec<Effect>) -> Result<(), TreeError> {
        if !self.scopes.contains_key(&ScopeId::ROOT) {
            return Err(TreeError::UnknownScope(ScopeId::ROOT));
        }
        self.discard(ScopeId::ROOT, effects);
        Ok(())
    }

    /// Takes back what a scope did, the newest first, and what its branches did before that. So
    /// whatever is undone finds what it did as it left it.
    pub(super) fn discard(&mut self, scope: ScopeId, effects: &mut Vec<Effect>) {
        let found = self.scopes.remove(&scope).expect("it is discarded once");
        for act in found.acts.into_iter().rev() {
            match act {
                Act::Rollback(rollback) => effects.push(Effect::Rollback(rollback)),
                Act::Call(call) => {
                    let is_open = self.is_open(call);
                    self.discard_call(call, effects);
                    if is_open {
                        effects.push(Effect::Vanish(call));
                    }
                }
            }
        }
        effects.push(Effect::Discard(scope));
        // The root may be pending as well, but it was not paid for from its own budget.
        if let Some(call) = found.call {
            self.budget.branches += u32::from(found.is_pending);
            if let Some(call) = self.calls.get_mut(&call) {
                call.branches.retain(|branch| *branch != scope);
            }
        }
    }

    fn discard_call(&mut self, call: CallId, effects: &mut Vec<Effect>) {
        let mut found = self.calls.remove(&call).expect("it is named by an act");
        for branch in found.branches.iter().rev() {
            self.discard(*branch, effects);
        }
        self.budget.take_back(&mut found.lent);
        self.calls_wasted += u64::from(found.commit_is_due);
        if found.is_under_way() {
            effects.push(Effect::Cancel(call));
        }
    }
}
