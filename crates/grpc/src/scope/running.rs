//! A call under way: its stream, its predictors and its branches, as one future.
//!
//! Branches are polled by the call that they follow, and are not tasks of their own. So to drop the
//! call is to drop all that follows it: no stream or task is left of a branch that was denied.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use surmise_rpc::{CallId, Predictions, ScopeId, Stamp, Verdict};
use tonic::Status;

use crate::client::line::Line;
use crate::client::not_begun::Tries;
use crate::scope::Scope;
use crate::scope::call::{Foreseeing, Learning};
use crate::scope::shared::{Instruction, Shared};
use crate::telemetry::{Ahead, late};

/// How the reply of a call, and predictions of it, come to be known.
pub struct Watched<T, S> {
    /// What the program calls the method.
    pub name: Option<&'static str>,
    pub send: S,
    /// Of a call to a server that may be aware.
    pub line: Option<Arc<Line<T>>>,
    pub stamp: fn(&T) -> Option<Stamp>,
    pub predictors: Vec<Foreseeing<T>>,
    pub learn: Vec<Learning<T>>,
}

impl<T, S> Watched<T, S> {
    /// The method's full name, where it is known.
    fn method(&self) -> Option<&str> {
        let of_line = || self.line.as_ref().map(|line| line.method());
        self.name.or_else(of_line)
    }
}

/// What is done with what a branch comes to that may be what the root comes to.
pub type Foresee<'a, R, E> = &'a (dyn Fn(&Result<R, E>) + Sync);

/// `F` waits for the reply, `B` is what follows it.
pub struct Running<T, S, F, B: Future> {
    /// First, so that it is dropped first: rollbacks run before branches are dropped.
    ended: Leave,
    watched: Watched<T, S>,
    reply: Option<Pin<Box<F>>>,
    actual: Option<Result<T, Status>>,
    tries: Tries,
    predictions: Predictions<T>,
    branches: Vec<Branch<B>>,
}

/// What follows the call, with one value.
struct Branch<B: Future> {
    id: ScopeId,
    future: Pin<Box<B>>,
    /// What it came to, once it has finished.
    outcome: Option<B::Output>,
    /// If it was started before the reply came.
    ahead: Option<Ahead>,
}

/// Tells the tree that the call's future is gone.
struct Leave {
    shared: Arc<Shared>,
    call: CallId,
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.shared.leave_call(self.call);
    }
}

// Everything that is pinned is pinned by its own allocation.
impl<T, S, F, B: Future> Unpin for Running<T, S, F, B> {}

impl<T, S, F, B, R, E> Running<T, S, F, B>
where
    T: Clone,
    S: FnMut() -> F,
    F: Future<Output = Result<T, Status>>,
    B: Future<Output = Result<R, E>>,
    E: From<Status>,
{
    pub fn new(
        shared: Arc<Shared>,
        call: CallId,
        watched: Watched<T, S>,
        same: fn(&T, &T) -> bool,
    ) -> Self {
        Self {
            ended: Leave { shared, call },
            watched,
            reply: None,
            actual: None,
            tries: Tries::default(),
            predictions: Predictions::by(same),
            branches: Vec::new(),
        }
    }

    /// Starts branches for values that are predicted from the beginning.
    pub fn predict_all(&mut self, values: Vec<T>, follow: &impl Fn(Scope, T) -> B) {
        for value in values {
            self.predict(value, follow);
        }
    }

    /// Goes on as far as it can. The reply is looked at first, since it may make the rest needless,
    /// and since the call has to be sent before what follows it can take its time.
    pub fn poll(
        &mut self,
        context: &mut Context<'_>,
        follow: &impl Fn(Scope, T) -> B,
        foresee: Option<Foresee<'_, R, E>>,
    ) -> Poll<Result<R, E>> {
        loop {
            while let Poll::Ready(said) = self.shared().poll_instruction(self.ended.call, context) {
                if let Some(outcome) = self.obey(said, follow, foresee) {
                    return Poll::Ready(outcome);
                }
            }
            let went_on = self.poll_reply(context)
                || self.poll_predictors(context, follow)
                || self.poll_branches(context);
            if !went_on {
                return Poll::Pending;
            }
        }
    }

    /// Follows an instruction. Returns what the call came to, if it has.
    fn obey(
        &mut self,
        said: Instruction,
        follow: &impl Fn(Scope, T) -> B,
        foresee: Option<Foresee<'_, R, E>>,
    ) -> Option<Result<R, E>> {
        match said {
            Instruction::Send => {
                if let Some(line) = &self.watched.line {
                    line.renew();
                }
                self.send();
            }
            Instruction::Foresee(branch) => {
                let branch = self.branches.iter().find(|one| one.id == branch);
                let outcome = branch.and_then(|branch| branch.outcome.as_ref());
                if let (Some(foresee), Some(outcome)) = (foresee, outcome) {
                    foresee(outcome);
                }
            }
            Instruction::Cancel => self.reply = None,
            Instruction::Start(branch) => {
                if let Some(Ok(value)) = &self.actual {
                    self.start(branch, value.clone(), follow);
                }
            }
            Instruction::Discard(branch) => {
                self.predictions.remove(branch);
                if let Some(at) = self.branches.iter().position(|one| one.id == branch) {
                    let discarded = self.branches.remove(at);
                    discarded.ahead.into_iter().for_each(Ahead::miss);
                }
            }
            Instruction::Return(branch) => {
                let branch = self.branches.iter_mut().find(|one| one.id == branch);
                return branch.and_then(|branch| branch.outcome.take());
            }
            Instruction::Vanish => {
                let gone = Status::cancelled("what this code rested on was denied");
                return Some(Err(gone.into()));
            }
            Instruction::Fail => {
                let failed = self.actual.take().and_then(Result::err);
                return failed.map(|status| Err(status.into()));
            }
        }
        None
    }

    fn send(&mut self) {
        let call = self.ended.call;
        if let Some(line) = &self.watched.line {
            self.shared().open_stream(call, |offer| line.open(offer));
        }
        self.reply = Some(Box::pin((self.watched.send)()));
    }

    fn poll_reply(&mut self, context: &mut Context<'_>) -> bool {
        let Some(reply) = &mut self.reply else {
            return false;
        };
        let Poll::Ready(actual) = reply.as_mut().poll(context) else {
            return false;
        };
        if self.tries.again(&actual) {
            self.send();
            return true;
        }
        self.reply = None;
        let verdict = self.predictions.verdict(&actual);
        if let Verdict::Affirms(right) = verdict {
            let mut branches = self.branches.iter_mut();
            let right = branches.find(|branch| branch.id == right);
            right
                .and_then(|branch| branch.ahead.as_mut())
                .into_iter()
                .for_each(Ahead::hit);
        }
        late(self.watched.predictors.len(), self.watched.method());
        let said = self.watched.line.as_ref().and_then(|line| line.stamp());
        let stamp = said.or_else(|| actual.as_ref().ok().and_then(self.watched.stamp));
        if let Ok(value) = &actual {
            for learn in self.watched.learn.drain(..) {
                learn(value);
            }
        }
        self.actual = Some(actual);
        let call = self.ended.call;
        // The call may have been discarded just now, by another task: then this is about to be
        // dropped.
        let _ = self
            .shared()
            .tell(|tree, effects| tree.answer(call, verdict, stamp, effects));
        true
    }

    fn poll_predictors(
        &mut self,
        context: &mut Context<'_>,
        follow: &impl Fn(Scope, T) -> B,
    ) -> bool {
        let line = self.watched.line.as_ref();
        let said = line.map(|line| line.take_predictions());
        let mut came: Vec<_> = said.into_iter().flatten().collect();
        self.watched.predictors.retain_mut(|predictor| {
            match predictor.as_mut().poll(context) {
                Poll::Ready(value) => came.extend(value),
                Poll::Pending => return true,
            }
            false
        });
        let is_any = !came.is_empty();
        self.predict_all(came, follow);
        is_any
    }

    fn poll_branches(&mut self, context: &mut Context<'_>) -> bool {
        for branch in &mut self.branches {
            if branch.outcome.is_some() {
                continue;
            }
            if let Poll::Ready(outcome) = branch.future.as_mut().poll(context) {
                branch.outcome = Some(outcome);
                let id = branch.id;
                let _ = self.shared().tell(|tree, effects| tree.finish(id, effects));
                return true;
            }
        }
        false
    }

    fn predict(&mut self, value: T, follow: &impl Fn(Scope, T) -> B) {
        if self.predictions.branch(&value).is_some() {
            return;
        }
        if let Some(branch) = self.shared().predict(self.ended.call) {
            self.start(branch, value, follow);
        }
    }

    fn start(&mut self, id: ScopeId, value: T, follow: &impl Fn(Scope, T) -> B) {
        self.predictions.insert(id, value.clone());
        let shared = self.ended.shared.clone();
        let name = shared.name(id);
        let future = Box::pin(follow(Scope { shared, name }, value));
        self.branches.push(Branch {
            id,
            future,
            outcome: None,
            ahead: self
                .actual
                .is_none()
                .then(|| Ahead::begin(self.watched.method())),
        });
    }

    fn shared(&self) -> &Shared {
        &self.ended.shared
    }
}
