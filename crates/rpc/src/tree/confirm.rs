//! Waiting for confirmation, and what it sets free.

use std::mem;

use super::Tree;
use crate::effect::Effect;
use crate::error::TreeError;
use crate::id::{RollbackId, ScopeId, WaiterId};
use crate::node::{Act, Progress};

/// Confirmation.
impl Tree {
    /// A scope goes on only when nothing that it rests on is undecided. Wakes the waiter then, which
    /// may be now. If the scope is discarded instead, nothing is said of the waiter: it is part of
    /// what is dropped.
    ///
    /// # Errors
    ///
    /// There is no such scope.
    pub fn barrier(
        &mut self,
        scope: ScopeId,
        waiter: WaiterId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), TreeError> {
        let found = self.open_mut(scope)?;
        if found.is_correct {
            effects.push(Effect::Wake(waiter));
        } else {
            found.waiters.push(waiter);
        }
        Ok(())
    }

    /// A waiter waits no more.
    pub fn leave(&mut self, scope: ScopeId, waiter: WaiterId) {
        if let Some(found) = self.scopes.get_mut(&scope) {
            found.waiters.retain(|one| *one != waiter);
        }
    }

    /// A scope says how to undo something that it has done. A scope that rests on nothing undecided
    /// has nothing to undo.
    ///
    /// # Errors
    ///
    /// There is no such scope.
    pub fn on_abort(
        &mut self,
        scope: ScopeId,
        rollback: RollbackId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), TreeError> {
        let found = self.open_mut(scope)?;
        if found.is_correct {
            effects.push(Effect::Forget(rollback));
        } else {
            found.acts.push(Act::Rollback(rollback));
        }
        Ok(())
    }

    /// The root's caller, which speculated, is confirmed. Only the message that says so means this;
    /// the end of a stream never does.
    ///
    /// # Errors
    ///
    /// The root is correct already, or was discarded.
    pub fn commit(&mut self, effects: &mut Vec<Effect>) -> Result<(), TreeError> {
        let root = self.scopes.get_mut(&ScopeId::ROOT);
        let root = root.ok_or(TreeError::UnknownScope(ScopeId::ROOT))?;
        if root.is_correct {
            return Err(TreeError::Committed);
        }
        root.is_pending = false;
        self.confirm(ScopeId::ROOT, effects);
        Ok(())
    }

    /// Nothing that a scope rests on is undecided any more, nor what those of its branches rest on
    /// that were affirmed before. What was put off happens in the order of the program, so a server
    /// hears of its callers' effects as it would have from sequential calls.
    pub(super) fn confirm(&mut self, scope: ScopeId, effects: &mut Vec<Effect>) {
        let found = self.scopes.get_mut(&scope).expect("it is confirmed once");
        found.is_correct = true;
        // Nobody's answer is to come that these would have to follow.
        found.seen = Vec::new();
        let waiters = mem::take(&mut found.waiters);
        let mut acts = mem::take(&mut found.acts);
        acts.retain(|act| self.confirm_act(*act, effects));
        let found = self.scopes.get_mut(&scope).expect("it was there");
        found.acts = acts;
        effects.extend(waiters.into_iter().map(Effect::Wake));
    }

    /// Whether the act is still to be known of.
    fn confirm_act(&mut self, act: Act, effects: &mut Vec<Effect>) -> bool {
        let call = match act {
            Act::Rollback(rollback) => {
                effects.push(Effect::Forget(rollback));
                return false;
            }
            Act::Call(call) => call,
        };
        let found = self.known_mut(call);
        if mem::take(&mut found.commit_is_due) {
            effects.push(Effect::Commit(call));
        }
        match found.progress {
            Progress::Held => self.send(call, effects),
            Progress::Sent => {}
            Progress::Answered(branch) => self.confirm(branch, effects),
            Progress::Returned => {
                self.calls.remove(&call);
                return false;
            }
        }
        true
    }
}
