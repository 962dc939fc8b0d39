//! One root's tree, and what its futures are told by it.
//!
//! Every future of a root (a call, a barrier) tells the tree what happened to it and finds in its
//! inbox what follows from what happened to others. The futures of one root run in one task, unless
//! the program moves a scope elsewhere; the lock is there for that, and is never held while code of
//! the program runs. Wakers are such code, too: to drop one may be to drop its task, and with that a
//! call that takes the lock.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use surmise_rpc::{
    CallId, Caller, Effect, Limits, Offer, Request, RollbackId, Safety, ScopeId, Standing, Tree,
    TreeError, WaiterId,
};
use tokio::sync::oneshot;
use tonic::Status;

use crate::allowance::{Allowance, Became};
use crate::conversation::Control;
use crate::streams::{Ended, Streams};

/// What undoes something that a scope did.
pub type Undo = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
pub struct Shared {
    state: Mutex<State>,
    /// Whether its limits let it run anything ahead.
    runs_ahead: bool,
    allowance: Allowance,
}

/// What a call's future is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    Send,
    Cancel,
    Start(ScopeId),
    Return(ScopeId),
    Fail,
    Discard(ScopeId),
    Foresee(ScopeId),
}

impl Shared {
    pub fn new(caller: Caller, limits: Limits, allowance: Allowance) -> Self {
        let state = State {
            tree: Tree::new(caller, limits),
            inboxes: BTreeMap::new(),
            callers: BTreeMap::new(),
            waiting: BTreeMap::new(),
            rollbacks: BTreeMap::new(),
            streams: Streams::default(),
            made: 0,
        };
        Self {
            state: Mutex::new(state),
            runs_ahead: limits.budget.branches > 0 && limits.budget.depth > 0,
            allowance,
        }
    }

    /// Whether calls of this scope are made one after the other, so that none of them has to be told of another.
    pub fn is_sequential(&self, scope: ScopeId) -> bool {
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
    pub fn call(&self, scope: ScopeId, mut request: Request) -> Result<CallId, TreeError> {
        self.tell(|tree, effects| {
            let safety = request.safety.toward(request.peer);
            let is_ahead = tree.standing(scope)? != Standing::Correct && safety != Safety::Unsafe;
            let is_taken = is_ahead && self.allowance.take();
            if is_ahead && !is_taken {
                request.safety = Safety::Unsafe;
            }
            let call = tree.call(scope, request, effects);
            if call.is_err() && is_taken {
                self.allowance.give_back();
            }
            call
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

    /// The next instruction for a call, or none for now: then its task is woken with the next.
    pub fn poll_instruction(&self, call: CallId, context: &Context<'_>) -> Poll<Instruction> {
        let waker = context.waker().clone();
        let mut state = self.lock();
        let inbox = state.inboxes.entry(call).or_default();
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
        // It has ended, or was discarded with its scope: then there is nothing to abandon.
        let _ = self.tell(|tree, effects| tree.abandon(call, effects));
        let mut state = self.lock();
        let inbox = state.inboxes.remove(&call);
        let stream = state.streams.leave(call);
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

    /// What was committed and lost.
    pub fn take_lost(&self) -> Option<Status> {
        self.lock().streams.take_lost()
    }

    /// What is to be waited for until nothing that was committed is unheard.
    pub fn next_unsettled(&self) -> Option<Ended> {
        self.lock().streams.next_unsettled()
    }

    /// Registers what undoes something that a scope did. If the scope is gone already, it is undone.
    pub fn on_abort(&self, scope: ScopeId, undo: Undo) {
        let mut undo = Some(undo);
        let registered = self.act(|state, effects| {
            let rollback = RollbackId(state.fresh());
            state.tree.on_abort(scope, rollback, effects)?;
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
    pub fn wait(&self, scope: ScopeId) -> Result<WaiterId, TreeError> {
        self.act(|state, effects| {
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
    pub fn standing(&self, scope: ScopeId) -> Option<Standing> {
        self.lock().tree.standing(scope).ok()
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

struct State {
    tree: Tree,
    inboxes: BTreeMap<CallId, Inbox>,
    /// Whose branch each scope is.
    callers: BTreeMap<ScopeId, CallId>,
    waiting: BTreeMap<WaiterId, Waiting>,
    rollbacks: BTreeMap<RollbackId, Undo>,
    streams: Streams,
    made: u64,
}

#[derive(Default)]
struct Inbox {
    instructions: VecDeque<Instruction>,
    waker: Option<Waker>,
}

struct Waiting {
    scope: ScopeId,
    is_over: Option<Result<(), TreeError>>,
    waker: Option<Waker>,
}

/// What is done without the lock: it runs code of others.
#[derive(Default)]
struct Outside {
    undone: Vec<Undo>,
    /// What is never to be undone: dropping it is code of the program as well.
    kept: Vec<Undo>,
    wakers: Vec<Waker>,
    /// Streams that are aborted by dropping them.
    streams: Vec<Control>,
    commits: Vec<oneshot::Sender<()>>,
}

impl Outside {
    /// Undoes first: whoever is woken may have its effects where something is undone.
    fn carry_out(self) {
        self.undone.into_iter().for_each(|undo| undo());
        drop(self.kept);
        drop(self.streams);
        // A stream that was lost has said so at its end.
        for commit in self.commits {
            let _ = commit.send(());
        }
        self.wakers.into_iter().for_each(Waker::wake);
    }
}

impl State {
    fn route(&mut self, effect: Effect, outside: &mut Outside) {
        match effect {
            Effect::Send {
                call,
                speculative,
                budget,
            } => {
                let caller = match speculative {
                    true => Caller::Speculative,
                    false => Caller::Correct,
                };
                let former = self.streams.send(call, Offer { caller, budget });
                outside.streams.extend(former);
                self.instruct(call, Instruction::Send, outside);
            }
            Effect::Cancel(call) => {
                outside.streams.extend(self.streams.remove(call));
                self.instruct(call, Instruction::Cancel, outside);
            }
            Effect::Commit(call) => {
                let runs = self.inboxes.contains_key(&call);
                outside.commits.extend(self.streams.commit(call, runs));
            }
            Effect::Foresee(branch) => {
                if let Some(call) = self.callers.get(&branch) {
                    self.instruct(*call, Instruction::Foresee(branch), outside);
                }
            }
            Effect::Start { call, branch } => {
                self.callers.insert(branch, call);
                self.instruct(call, Instruction::Start(branch), outside);
            }
            Effect::Return { call, branch } => {
                self.callers.remove(&branch);
                self.instruct(call, Instruction::Return(branch), outside);
            }
            Effect::Fail(call) => self.instruct(call, Instruction::Fail, outside),
            Effect::Discard(scope) => self.discard(scope, outside),
            Effect::Wake(waiter) => self.end_wait(waiter, Ok(()), outside),
            Effect::Rollback(rollback) => outside.undone.extend(self.rollbacks.remove(&rollback)),
            Effect::Forget(rollback) => outside.kept.extend(self.rollbacks.remove(&rollback)),
        }
    }

    fn instruct(&mut self, call: CallId, instruction: Instruction, outside: &mut Outside) {
        // A call that is cancelled may have been discarded, and its future be gone.
        let inbox = match instruction {
            Instruction::Send => self.inboxes.entry(call).or_default(),
            _ => match self.inboxes.get_mut(&call) {
                Some(inbox) => inbox,
                None => return,
            },
        };
        inbox.instructions.push_back(instruction);
        outside.wakers.extend(inbox.waker.take());
    }

    fn discard(&mut self, scope: ScopeId, outside: &mut Outside) {
        if let Some(call) = self.callers.remove(&scope) {
            self.instruct(call, Instruction::Discard(scope), outside);
        }
        let waiting = self.waiting.iter().filter(|(_, one)| one.scope == scope);
        for waiter in waiting.map(|(waiter, _)| *waiter).collect::<Vec<_>>() {
            self.end_wait(waiter, Err(TreeError::UnknownScope(scope)), outside);
        }
    }

    fn end_wait(&mut self, waiter: WaiterId, over: Result<(), TreeError>, outside: &mut Outside) {
        if let Some(waiting) = self.waiting.get_mut(&waiter) {
            waiting.is_over = Some(over);
            outside.wakers.extend(mem::take(&mut waiting.waker));
        }
    }

    fn fresh(&mut self) -> u64 {
        self.made += 1;
        self.made
    }
}

impl fmt::Debug for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is kept for each of these is closures and wakers, which show nothing.
        let mut shown = formatter.debug_struct("State");
        shown.field("inboxes", &self.inboxes.len());
        shown.field("callers", &self.callers);
        shown.field("waiting", &self.waiting.len());
        shown.field("rollbacks", &self.rollbacks.len());
        shown.field("tree", &self.tree).finish_non_exhaustive()
    }
}
