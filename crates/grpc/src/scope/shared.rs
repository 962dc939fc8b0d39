//! One root's tree, and what its futures are told by it.
//!
//! Every future of a root (a call, a barrier) tells the tree what happened to it and finds in its
//! inbox what follows from what happened to others. The futures of one root run in one task, unless
//! the program moves a scope elsewhere; the lock is there for that, and is never held while code of
//! the program runs. Wakers are such code, too: to drop one may be to drop its task, and with that a
//! call that takes the lock.

mod state;

use std::sync::Arc;
use std::task::{Context, Poll};

use surmise_rpc::{
    CallId, Caller, Effect, Limits, Offer, Request, RollbackId, Safety, ScopeId, Standing, Tree,
    TreeError, WaiterId,
};
use tonic::Status;

use crate::client::conversation::Control;
use crate::client::streams::{Ended, unheard};
use crate::lock::{Mutex, MutexGuard, PoisonError};
use crate::scope::allowance::{Allowance, Became};
use crate::scope::names::Name;
use state::{Inbox, Outside, State, Waiting};
pub use state::{Instruction, Undo};

#[derive(Debug)]
pub struct Shared {
    state: Mutex<State>,
    /// Whether its limits let it run anything ahead.
    runs_ahead: bool,
    allowance: Allowance,
    settling: tokio::sync::Mutex<()>,
}

impl Shared {
    pub fn new(caller: Caller, limits: Limits, allowance: Allowance) -> Self {
        Self {
            state: Mutex::new(State::new(caller, limits)),
            runs_ahead: limits.budget.branches > 0 && limits.budget.depth > 0,
            allowance,
            settling: tokio::sync::Mutex::default(),
        }
    }

    /// Whether calls of this scope are made one after the other, so that none of them has to be told of another.
    pub fn is_sequential(&self, scope: &Name) -> bool {
        !self.runs_ahead && self.standing(scope) == Some(Standing::Correct)
    }

    /// Tells the tree of an event, and everybody what follows.
    pub fn tell<A>(
        &self,
        event: impl FnOnce(&mut Tree, &mut Vec<Effect>) -> Result<A, TreeError>,
    ) -> Result<A, TreeError> {
        self.act(|state, effects| event(&mut state.tree, effects))
    }

    /// A call was made outside of the tree, by the sequential program.
    pub fn called_in_turn(&self) {
        let in_turn = 1;
        self.allowance.settle(Became {
            in_turn,
            ..Became::default()
        });
    }

    /// A scope makes a call. Where it would be sent ahead, and too much of that was for nothing, it waits.
    pub fn call(&self, scope: &Name, mut request: Request) -> Result<CallId, TreeError> {
        self.act(|state, effects| {
            let (tree, scope) = (&mut state.tree, scope.scope());
            let safety = request.safety.toward(request.peer);
            let is_ahead = tree.standing(scope)? != Standing::Correct && safety != Safety::Unsafe;
            if is_ahead && !self.allowance.take() {
                request.safety = Safety::Unsafe;
            }
            let call = tree.call(scope, request, effects)?;
            state.inboxes.insert(call, Inbox::default());
            Ok(call)
        })
    }

    /// A branch for a predicted value of a call, if there may be one.
    pub fn predict(&self, call: CallId) -> Option<ScopeId> {
        if !self.allowance.has_left() {
            return None;
        }
        let branch = self.act(|state, _| {
            let branch = state.tree.predict(call)?;
            state.callers.extend(branch.map(|branch| (branch, call)));
            Ok(branch)
        });
        branch.ok().flatten()
    }

    /// For the code of a branch.
    pub fn name(&self, branch: ScopeId) -> Arc<Name> {
        let mut state = self.lock();
        match state.tree.standing(branch) {
            Ok(_) => state.names.give(branch),
            // Another task has discarded it meanwhile, and its code is about to be dropped.
            Err(_) => Name::of(branch),
        }
    }

    /// The next instruction for a call, or none for now: then its task is woken with the next.
    pub fn poll_instruction(&self, call: CallId, context: &Context<'_>) -> Poll<Instruction> {
        let waker = context.waker().clone();
        let mut state = self.lock();
        let inbox = state.inboxes.get_mut(&call);
        let inbox = inbox.expect("it is there until its future is not");
        if let Some(instruction) = inbox.instructions.pop_front() {
            return Poll::Ready(instruction);
        }
        let former = inbox.waker.replace(waker);
        drop(state);
        drop(former);
        Poll::Pending
    }

    /// A call's future is gone. If the call has not come to anything, nobody waits for that.
    pub fn leave_call(&self, call: CallId) {
        // Else it was discarded with its scope, and its stream with it.
        let is_answered = self
            .tell(|tree, effects| tree.abandon(call, effects))
            .is_err();
        let mut state = self.lock();
        let inbox = state.inboxes.remove(&call);
        let stream = state.streams.leave(call, is_answered);
        drop(state);
        drop((inbox, stream));
    }

    /// Opens a call's stream, as it is to be opened now. If it was decided meanwhile, that is said.
    pub fn open_stream(&self, call: CallId, open: impl FnOnce(Offer) -> Control) {
        let offer = self.lock().streams.offer(call);
        if let Some(offer) = offer {
            let control = open(offer);
            let decided = self.lock().streams.opened(call, offer, control);
            if let Some(decided) = decided {
                self.lock().streams.commit_now(decided);
            }
        }
    }

    /// Waits until all that was committed is heard. One waits at a time, since what it waits for is not among the rest.
    pub async fn settled(&self) -> Result<(), Status> {
        let _turn = self.settling.lock().await;
        loop {
            self.lock().streams.lost()?;
            let Some(ended) = self.lock().streams.next_unsettled() else {
                return Ok(());
            };
            let mut unsettled = Unsettled {
                shared: self,
                ended: Some(ended),
            };
            let end = unsettled.end().await;
            self.lock().streams.ended(end);
        }
    }

    /// Registers what undoes something that a scope did. If the scope is gone already, it is undone.
    pub fn on_abort(&self, scope: &Name, undo: Undo) {
        let mut undo = Some(undo);
        let registered = self.act(|state, effects| {
            let rollback = RollbackId(state.fresh());
            state.tree.on_abort(scope.scope(), rollback, effects)?;
            state
                .rollbacks
                .extend(undo.take().map(|undo| (rollback, undo)));
            Ok(())
        });
        if let (Err(_), Some(undo)) = (registered, undo) {
            undo();
        }
    }

    /// Waits at a barrier.
    pub fn wait(&self, scope: &Name) -> Result<WaiterId, TreeError> {
        self.act(|state, effects| {
            let scope = scope.scope();
            let waiter = WaiterId(state.fresh());
            state.tree.barrier(scope, waiter, effects)?;
            let waiting = Waiting {
                scope,
                is_over: None,
                waker: None,
            };
            state.waiting.insert(waiter, waiting);
            Ok(waiter)
        })
    }

    /// Whether the barrier was passed; an error if its scope was discarded.
    pub fn poll_waiter(
        &self,
        waiter: WaiterId,
        context: &Context<'_>,
    ) -> Poll<Result<(), TreeError>> {
        let waker = context.waker().clone();
        let mut state = self.lock();
        let waiting = state.waiting.get_mut(&waiter);
        let waiting = waiting.expect("it is there until its future is not");
        if let Some(over) = waiting.is_over {
            return Poll::Ready(over);
        }
        let former = waiting.waker.replace(waker);
        drop(state);
        drop(former);
        Poll::Pending
    }

    /// A barrier's future is gone.
    pub fn leave_waiter(&self, waiter: WaiterId) {
        let mut state = self.lock();
        let waiting = state.waiting.remove(&waiter);
        if let Some(waiting) = &waiting {
            state.tree.leave(waiting.scope, waiter);
        }
        drop(state);
        drop(waiting);
    }

    /// What a scope rests on; none if it was discarded.
    pub fn standing(&self, scope: &Name) -> Option<Standing> {
        self.lock().tree.standing(scope.scope()).ok()
    }

    fn act<A>(
        &self,
        event: impl FnOnce(&mut State, &mut Vec<Effect>) -> Result<A, TreeError>,
    ) -> Result<A, TreeError> {
        let mut effects = Vec::new();
        let mut outside = Outside::default();
        let mut state = self.lock();
        let wasted = state.tree.calls_wasted();
        let answer = event(&mut state, &mut effects)?;
        self.allowance.settle(Became {
            wasted: state.tree.calls_wasted() - wasted,
            ..became(&effects)
        });
        for effect in effects {
            state.route(effect, &mut outside);
        }
        drop(state);
        outside.carry_out();
        Ok(answer)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked with the lock did so in an assertion of the tree, which stands for all
        // later ones, too. Drops have to go on meanwhile.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is waited for; and still is by the next, where its waiter gives up.
struct Unsettled<'a> {
    shared: &'a Shared,
    ended: Option<Ended>,
}

impl Unsettled<'_> {
    async fn end(&mut self) -> Result<(), Status> {
        let ended = self.ended.as_mut().expect("it is waited for once");
        let end = ended.await.unwrap_or_else(|_| Err(unheard()));
        self.ended = None;
        end
    }
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        if let Some(ended) = self.ended.take() {
            self.shared.lock().streams.unsettle(ended);
        }
    }
}

/// What effects say that calls became.
fn became(effects: &[Effect]) -> Became {
    let mut became = Became::default();
    for effect in effects {
        match effect {
            Effect::Commit(_) => became.kept += 1,
            Effect::Send { speculative, .. } => became.in_turn += u64::from(!speculative),
            _ => {}
        }
    }
    became
}
