//! What is known of one root, and what effects of its tree change in that.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::mem;
use std::task::Waker;

use surmise_rpc::{
    CallId, Caller, Effect, Limits, Offer, RollbackId, ScopeId, Tree, TreeError, WaiterId,
};
use tokio::sync::oneshot;

use crate::client::conversation::Control;
use crate::client::streams::Streams;
use crate::scope::names::Names;

/// What undoes something that a scope did.
pub type Undo = Box<dyn FnOnce() + Send>;

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
    /// To whoever waits for it elsewhere than in what was dropped.
    Vanish,
}

pub struct State {
    pub tree: Tree,
    /// Of the calls whose futures are there.
    pub inboxes: BTreeMap<CallId, Inbox>,
    pub names: Names,
    /// Whose branch each scope is.
    pub callers: BTreeMap<ScopeId, CallId>,
    pub waiting: BTreeMap<WaiterId, Waiting>,
    pub rollbacks: BTreeMap<RollbackId, Undo>,
    pub streams: Streams,
    pub made: u64,
}

#[derive(Default)]
pub struct Inbox {
    pub instructions: VecDeque<Instruction>,
    pub waker: Option<Waker>,
}

pub struct Waiting {
    pub scope: ScopeId,
    pub is_over: Option<Result<(), TreeError>>,
    pub waker: Option<Waker>,
}

/// What is done without the lock: it runs code of others.
#[derive(Default)]
pub struct Outside {
    pub undone: Vec<Undo>,
    /// What is never to be undone: dropping it is code of the program as well.
    pub kept: Vec<Undo>,
    pub wakers: Vec<Waker>,
    /// Streams that are aborted by dropping them.
    pub streams: Vec<Control>,
    pub commits: Vec<oneshot::Sender<()>>,
}

impl Outside {
    /// Undoes first: whoever is woken may have its effects where something is undone.
    pub fn carry_out(self) {
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
    pub fn new(caller: Caller, limits: Limits) -> Self {
        Self {
            tree: Tree::new(caller, limits),
            inboxes: BTreeMap::new(),
            names: Names::default(),
            callers: BTreeMap::new(),
            waiting: BTreeMap::new(),
            rollbacks: BTreeMap::new(),
            streams: Streams::default(),
            made: 0,
        }
    }

    pub fn route(&mut self, effect: Effect, outside: &mut Outside) {
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
            Effect::Return { call, branch, into } => {
                self.callers.remove(&branch);
                self.names.merge(branch, into);
                let waiting = self.waiting.values_mut();
                let waiting = waiting.filter(|one| one.scope == branch);
                waiting.for_each(|one| one.scope = into);
                self.instruct(call, Instruction::Return(branch), outside);
            }
            Effect::Fail(call) => self.instruct(call, Instruction::Fail, outside),
            Effect::Vanish(call) => self.instruct(call, Instruction::Vanish, outside),
            Effect::Discard(scope) => self.discard(scope, outside),
            Effect::Wake(waiter) => self.end_wait(waiter, Ok(()), outside),
            Effect::Rollback(rollback) => outside.undone.extend(self.rollbacks.remove(&rollback)),
            Effect::Forget(rollback) => outside.kept.extend(self.rollbacks.remove(&rollback)),
        }
    }

    fn instruct(&mut self, call: CallId, instruction: Instruction, outside: &mut Outside) {
        // A call that is cancelled may have been discarded, and its future be gone.
        let Some(inbox) = self.inboxes.get_mut(&call) else {
            return;
        };
        inbox.instructions.push_back(instruction);
        outside.wakers.extend(inbox.waker.take());
    }

    fn discard(&mut self, scope: ScopeId, outside: &mut Outside) {
        self.names.discard(scope);
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

    pub fn fresh(&mut self) -> u64 {
        self.made += 1;
        self.made
    }
}

impl fmt::Debug for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is kept for each of these is closures and wakers, which show nothing.
        let mut shown = formatter.debug_struct("State");
        shown.field("inboxes", &self.inboxes.len());
        shown.field("names", &self.names.len());
        shown.field("callers", &self.callers);
        shown.field("waiting", &self.waiting.len());
        shown.field("rollbacks", &self.rollbacks.len());
        shown.field("tree", &self.tree).finish_non_exhaustive()
    }
}
