//! The tree of one root, and its events, one method each; here those of calls and branches.

mod confirm;
mod discard;
mod order;

use std::collections::BTreeMap;

use crate::budget::{Budget, Limits};
use crate::comparison::Verdict;
use crate::effect::{Caller, Effect, Request, Standing};
use crate::error::TreeError;
use crate::id::{CallId, ScopeId};
use crate::node::{Act, Call, Progress, Scope};
use crate::safety::{Peer, Safety};
use crate::stamp::{Order, Seen, Stamp};

/// The scopes and calls of one root: a program's, or those of one handler at a server. Every event
/// appends its effects to the caller's list; an event that is refused with an error has changed
/// nothing and appends nothing.
#[derive(Debug)]
pub struct Tree {
    scopes: BTreeMap<ScopeId, Scope>,
    calls: BTreeMap<CallId, Call>,
    /// What is left of the root's.
    budget: Budget,
    fan_out_max: u32,
    scopes_made: u64,
    calls_made: u64,
    /// Calls that were sent ahead and thrown away.
    calls_wasted: u64,
}

/// Calls and branches.
impl Tree {
    /// A tree of one scope, [`ScopeId::ROOT`].
    pub fn new(caller: Caller, limits: Limits) -> Self {
        let is_correct = caller == Caller::Correct;
        let root = Scope::new(None, !is_correct, is_correct);
        Self {
            scopes: BTreeMap::from([(ScopeId::ROOT, root)]),
            calls: BTreeMap::new(),
            budget: limits.budget,
            fan_out_max: limits.fan_out_max,
            scopes_made: 0,
            calls_made: 0,
            calls_wasted: 0,
        }
    }

    /// A scope makes a call. It is sent at once, unless it is unsafe and the scope speculates.
    ///
    /// # Errors
    ///
    /// There is no such scope.
    pub fn call(
        &mut self,
        scope: ScopeId,
        request: Request,
        effects: &mut Vec<Effect>,
    ) -> Result<CallId, TreeError> {
        let call = CallId(self.calls_made + 1);
        let caller = self.open_mut(scope)?;
        let safety = request.safety.toward(request.peer);
        let may_go = caller.is_correct || safety != Safety::Unsafe;
        caller.acts.push(Act::Call(call));
        self.calls_made += 1;
        self.calls.insert(call, Call::new(scope, request));
        if may_go {
            self.send(call, effects);
        }
        Ok(call)
    }

    /// A value was predicted for a call, and no branch runs with one like it. Returns the new branch
    /// in which what follows the call is to run with it, or none where it should wait for the actual
    /// value: that is there already, or a limit is reached.
    ///
    /// # Errors
    ///
    /// There is no such call.
    pub fn predict(&mut self, call: CallId) -> Result<Option<ScopeId>, TreeError> {
        let found = self.known(call)?;
        let is_open = matches!(found.progress, Progress::Held | Progress::Sent);
        let fan_out = found.branches.len();
        let may_branch = is_open
            && self.budget.branches > 0
            && fan_out < self.fan_out_max as usize
            && self.depth(found.scope) < self.budget.depth;
        if !may_branch {
            return Ok(None);
        }
        self.budget.branches -= 1;
        Ok(Some(self.branch(call, true)))
    }

    /// The actual answer of a call came. Discards the branches whose predictions are denied, and has
    /// what follows the call go on in the one that is affirmed, or in a new one. An answer that came
    /// too early, as far as order is concerned, is none: the call is sent again.
    ///
    /// # Errors
    ///
    /// There is no such call, it is not sent or has been answered, or the verdict names no undecided
    /// branch of it.
    pub fn answer(
        &mut self,
        call: CallId,
        verdict: Verdict,
        stamp: Option<Stamp>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), TreeError> {
        self.check_answer(call, verdict)?;
        if self.is_too_early(call, stamp) {
            self.send_again(call, effects);
            return Ok(());
        }
        let found = self.calls.get_mut(&call).expect("it was checked");
        self.budget.take_back(&mut found.lent);
        let order = found.request.order;
        let branches = found.branches.clone();
        let scope = self.scopes.get_mut(&found.scope).expect("it has a call");
        if order != Order::None && !scope.is_correct {
            scope.seen.push(Seen { order, stamp });
        }
        let affirmed = match verdict {
            Verdict::Affirms(branch) => {
                // What it has read before this answer must be no older.
                let stands = order == Order::None || self.follows(branch, stamp);
                stands.then_some(branch)
            }
            Verdict::DeniesAll | Verdict::Fails => None,
        };
        // Denied branches go first: what they undo must not undo what the affirmed one does.
        for branch in branches.into_iter().rev() {
            if Some(branch) != affirmed {
                self.discard(branch, effects);
            }
        }
        match affirmed {
            Some(branch) => {
                if order != Order::None {
                    self.oblige(branch, stamp, effects);
                }
                self.affirm(call, branch, effects);
            }
            None if verdict == Verdict::Fails => {
                effects.push(Effect::Fail(call));
                self.end_call(call, Vec::new());
            }
            None => {
                let branch = self.branch(call, false);
                self.known_mut(call).progress = Progress::Answered(branch);
                effects.push(Effect::Start { call, branch });
            }
        }
        Ok(())
    }

    /// What runs in a branch has come to its end, with a value or an error of its own. If the branch
    /// is affirmed, that is what its call comes to; else it waits, and travels ahead where it would
    /// be what the root comes to. Calls and waiters that it leaves behind, in tasks of their own, become
    /// those of its call's scope.
    ///
    /// # Errors
    ///
    /// There is no such branch, or it has finished.
    pub fn finish(&mut self, branch: ScopeId, effects: &mut Vec<Effect>) -> Result<(), TreeError> {
        let found = self.open_mut(branch)?;
        let call = found.call.ok_or(TreeError::UnknownScope(branch))?;
        if found.is_finished {
            return Err(TreeError::Finished(branch));
        }
        found.is_finished = true;
        if !found.is_pending {
            self.return_from(call, branch, effects);
        } else if self.is_tail(call) {
            effects.push(Effect::Foresee(branch));
        }
        Ok(())
    }

    /// What a scope rests on.
    ///
    /// # Errors
    ///
    /// There is no such scope.
    pub fn standing(&self, scope: ScopeId) -> Result<Standing, TreeError> {
        let found = self.scopes.get(&scope);
        let found = found.ok_or(TreeError::UnknownScope(scope))?;
        Ok(match (found.is_correct, found.is_pending, found.call) {
            (true, ..) => Standing::Correct,
            (false, true, Some(_)) => Standing::CalleeSpeculative,
            (false, ..) => Standing::CallerSpeculative,
        })
    }

    /// Whether nothing is left but the root and what it still has to commit.
    pub fn is_quiet(&self) -> bool {
        let returned = |call: &Call| call.progress == Progress::Returned;
        self.scopes.len() <= 1 && self.calls.values().all(returned)
    }

    /// Whether a call has come to nothing yet, and still may.
    pub fn is_open(&self, call: CallId) -> bool {
        let found = self.calls.get(&call);
        found.is_some_and(|call| call.progress != Progress::Returned)
    }

    /// How many calls were sent by scopes that speculated, and thrown away with them or given up by them. All
    /// others of that kind come to an [`Effect::Commit`].
    pub fn calls_wasted(&self) -> u64 {
        self.calls_wasted
    }

    /// What may still be opened.
    pub fn budget(&self) -> Budget {
        self.budget
    }
}

impl Tree {
    fn send(&mut self, call: CallId, effects: &mut Vec<Effect>) {
        let scope = self.calls[&call].scope;
        let speculative = !self.scopes[&scope].is_correct;
        let budget = match self.calls[&call].request.peer {
            Peer::Plain => Budget::NONE,
            Peer::Aware => self.budget.lend(self.depth(scope)),
        };
        let found = self.known_mut(call);
        found.progress = Progress::Sent;
        found.commit_is_due = speculative;
        found.lent = budget;
        effects.push(Effect::Send {
            call,
            speculative,
            budget,
        });
    }

    /// A new branch of a call.
    fn branch(&mut self, call: CallId, is_pending: bool) -> ScopeId {
        self.scopes_made += 1;
        let branch = ScopeId(self.scopes_made);
        let found = self.known_mut(call);
        found.branches.push(branch);
        let caller = found.scope;
        let is_correct = !is_pending && self.scopes[&caller].is_correct;
        let scope = Scope::new(Some(call), is_pending, is_correct);
        self.scopes.insert(branch, scope);
        branch
    }

    /// An undecided branch of a call is affirmed.
    fn affirm(&mut self, call: CallId, branch: ScopeId, effects: &mut Vec<Effect>) {
        self.budget.branches += 1;
        let found = self.known_mut(call);
        found.progress = Progress::Answered(branch);
        let caller = found.scope;
        let is_confirmed = self.scopes[&caller].is_correct;
        let scope = self.scopes.get_mut(&branch).expect("its call names it");
        scope.is_pending = false;
        let is_finished = scope.is_finished;
        if is_confirmed {
            self.confirm(branch, effects);
        }
        if is_finished {
            self.return_from(call, branch, effects);
        }
    }

    /// An affirmed branch has finished: it is part of its call's scope.
    fn return_from(&mut self, call: CallId, branch: ScopeId, effects: &mut Vec<Effect>) {
        let merged = self.scopes.remove(&branch).expect("it has finished");
        let found = self.known_mut(call);
        found.branches.clear();
        let into = found.scope;
        effects.push(Effect::Return { call, branch, into });
        let caller = self.scopes.get_mut(&into).expect("it has a call");
        caller.seen.extend(merged.seen);
        // If the caller is correct, so was the branch, and nobody waited there.
        caller.waiters.extend(merged.waiters);
        self.end_call(call, merged.acts);
    }

    /// A call has come to something. What was done to come to that stands where the call stood.
    fn end_call(&mut self, call: CallId, acts: Vec<Act>) {
        let found = self.known_mut(call);
        let is_due = found.commit_is_due;
        found.progress = Progress::Returned;
        let caller = found.scope;
        for act in &acts {
            if let Act::Call(inner) = act {
                self.known_mut(*inner).scope = caller;
            }
        }
        let caller = self.scopes.get_mut(&caller).expect("it has a call");
        let place = place(&caller.acts, call);
        if is_due {
            caller.acts.splice(place + 1..place + 1, acts);
        } else {
            caller.acts.splice(place..=place, acts);
            self.calls.remove(&call);
        }
    }

    fn check_answer(&self, call: CallId, verdict: Verdict) -> Result<(), TreeError> {
        let found = self.known(call)?;
        match found.progress {
            Progress::Held => return Err(TreeError::NotSent(call)),
            Progress::Answered(_) | Progress::Returned => return Err(TreeError::Answered(call)),
            Progress::Sent => {}
        }
        match verdict {
            Verdict::Affirms(branch) if !found.branches.contains(&branch) => {
                Err(TreeError::NoBranchOf { call, branch })
            }
            _ => Ok(()),
        }
    }

    /// Whether what a call comes to is what the root comes to.
    fn is_tail(&self, call: CallId) -> bool {
        let mut next = Some(call);
        while let Some(call) = next {
            let found = &self.calls[&call];
            if !found.request.is_tail {
                return false;
            }
            next = self.scopes[&found.scope].call;
        }
        true
    }

    /// How many undecided predictions a scope rests on, its root's caller's as one.
    fn depth(&self, scope: ScopeId) -> u32 {
        let mut depth = 0;
        let mut scope = &self.scopes[&scope];
        while !scope.is_correct {
            depth += u32::from(scope.is_pending);
            let Some(call) = scope.call else { break };
            scope = &self.scopes[&self.calls[&call].scope];
        }
        depth
    }

    /// A scope that is not part of another again.
    fn open_mut(&mut self, scope: ScopeId) -> Result<&mut Scope, TreeError> {
        let found = self.scopes.get_mut(&scope);
        found.ok_or(TreeError::UnknownScope(scope))
    }

    fn known(&self, call: CallId) -> Result<&Call, TreeError> {
        self.calls.get(&call).ok_or(TreeError::UnknownCall(call))
    }

    /// A call that an act or a branch names: those are there as long as it is.
    fn known_mut(&mut self, call: CallId) -> &mut Call {
        self.calls.get_mut(&call).expect("it is named by an act")
    }
}

/// Where a scope's acts name one of its calls.
fn place(acts: &[Act], call: CallId) -> usize {
    // Calls end soon after they were made, so it is found near the end.
    let found = acts.iter().rposition(|act| *act == Act::Call(call));
    found.expect("a scope's acts name its calls")
}
