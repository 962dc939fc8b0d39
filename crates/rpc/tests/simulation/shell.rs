//! A shell whose transport is a list: it carries out the effects of a tree, and what may happen next
//! happens in random order.

use std::collections::BTreeMap;
use std::rc::Rc;

use fastrand::Rng;
use surmise_rpc::{
    CallId, Caller, Effect, Limits, Order, Predictions, Request, RollbackId, Safety, ScopeId,
    Stamp, Standing, Tree, WaiterId,
};

use crate::program::{Body, Call, Outcome, Stays, Step, answer, join, mix};

pub struct Shell {
    pub tree: Tree,
    pub order: Order,
    pub frames: BTreeMap<ScopeId, Frame>,
    pub calls: BTreeMap<CallId, Open>,
    /// What aware servers keep back.
    pub tentative: BTreeMap<CallId, Stays>,
    /// What rollbacks would undo.
    pub locals: BTreeMap<RollbackId, Stays>,
    pub stays: Vec<Stays>,
    /// What travelled ahead, and the scope that it would have to be discarded with.
    pub foreseen: BTreeMap<ScopeId, Outcome>,
    /// The store that all methods read; others write it.
    pub version: u64,
    /// How likely a message comes before anything runs.
    pub haste: f64,
    pub counts: BTreeMap<&'static str, usize>,
    waiters: BTreeMap<WaiterId, ScopeId>,
    fresh: u64,
}

/// A scope as it runs.
pub struct Frame {
    body: Rc<Body>,
    next: usize,
    known: u64,
    waiting: Waiting,
    pub outcome: Option<Outcome>,
    /// The stamps of the answers that it rests on and has got, in the order of the program.
    pub read: Vec<u64>,
}

enum Waiting {
    No,
    ForCalls(Vec<CallId>, BTreeMap<CallId, (Outcome, Vec<u64>)>),
    AtBarrier,
}

/// A call under way.
pub struct Open {
    scope: ScopeId,
    call: Rc<Call>,
    argument: u64,
    predictions: Predictions<u64>,
    /// None before it is sent; then what the server read, once it has.
    served: Option<Option<u64>>,
    answered: Option<u64>,
    failed: Option<u64>,
}

/// What may happen next.
#[derive(Clone, Copy)]
enum Next {
    Step(ScopeId),
    Predict(CallId),
    Serve(CallId),
    Answer(CallId),
    Write,
    Commit,
}

impl Shell {
    pub fn new(body: Rc<Body>, known: u64, caller: Caller, order: Order, limits: Limits) -> Self {
        Self {
            tree: Tree::new(caller, limits),
            order,
            frames: BTreeMap::from([(ScopeId::ROOT, Frame::new(body, known))]),
            calls: BTreeMap::new(),
            tentative: BTreeMap::new(),
            locals: BTreeMap::new(),
            stays: Vec::new(),
            foreseen: BTreeMap::new(),
            version: 0,
            haste: 1.0,
            counts: BTreeMap::new(),
            waiters: BTreeMap::new(),
            fresh: 0,
        }
    }

    /// Has one thing happen; false if nothing is left.
    pub fn happen(&mut self, rng: &mut Rng, is_right: f64) -> bool {
        let mut next: Vec<_> = self.frames.iter().filter_map(Next::step).collect();
        let is_correct = self.tree.standing(ScopeId::ROOT) == Ok(Standing::Correct);
        if next.is_empty() && self.calls.is_empty() && is_correct {
            return false;
        }
        let mut messages = self.messages();
        if !is_correct {
            messages.push(Next::Commit);
        }
        // Answers take longer than what is predicted of them, or there is nothing to be gained.
        let haste = self.haste;
        let in_time: Vec<_> = messages.extract_if(.., |_| rng.f64() < haste).collect();
        next.extend(in_time);
        if next.is_empty() {
            next = messages;
        }
        let next = rng.choice(next).expect("something has to happen");
        self.do_next(next, rng, is_right);
        true
    }

    /// What may come from elsewhere.
    fn messages(&self) -> Vec<Next> {
        let mut messages = Vec::new();
        for (call, open) in &self.calls {
            match open.served {
                _ if open.answered.is_some() => continue,
                None => {}
                Some(None) => messages.push(Next::Serve(*call)),
                Some(Some(_)) => messages.push(Next::Answer(*call)),
            }
            messages.push(Next::Predict(*call));
        }
        if self.order != Order::None || self.version > 0 {
            messages.push(Next::Write);
        }
        messages
    }

    pub fn abort(&mut self) {
        let mut effects = Vec::new();
        self.tree.abort(&mut effects).expect("the root is there");
        self.carry_out(effects);
    }

    fn do_next(&mut self, next: Next, rng: &mut Rng, is_right: f64) {
        match next {
            Next::Step(scope) => {
                self.step(scope);
                // The caller's own predictions come with the call.
                if let Some(Frame {
                    waiting: Waiting::ForCalls(calls, _),
                    ..
                }) = self.frames.get(&scope)
                {
                    for call in calls.clone() {
                        self.predict(call, rng, is_right);
                    }
                }
            }
            Next::Predict(call) => self.predict(call, rng, is_right),
            Next::Serve(call) => self.open(call).served = Some(Some(self.version)),
            Next::Answer(call) => self.answer(call),
            Next::Write => self.version += 1,
            Next::Commit => {
                let mut effects = Vec::new();
                self.tree.commit(&mut effects).expect("it is not correct");
                self.carry_out(effects);
            }
        }
    }

    fn step(&mut self, scope: ScopeId) {
        let frame = self.frames.get_mut(&scope).expect("it is to run");
        let body = frame.body.clone();
        let Some(step) = body.steps.get(frame.next) else {
            let known = frame.known;
            return self.finish(scope, Ok(known));
        };
        let known = frame.known;
        let mut effects = Vec::new();
        self.fresh += 1;
        match step {
            Step::Local(what) => {
                let rollback = RollbackId(self.fresh);
                self.locals.insert(rollback, Stays::Local(*what, known));
                let said = self.tree.on_abort(scope, rollback, &mut effects);
                said.expect("it runs");
                frame.next += 1;
            }
            Step::Output(_) => {
                let waiter = WaiterId(self.fresh);
                frame.waiting = Waiting::AtBarrier;
                self.waiters.insert(waiter, scope);
                let said = self.tree.barrier(scope, waiter, &mut effects);
                said.expect("it runs");
            }
            Step::Calls(calls) => {
                let ids = calls.iter().map(|call| {
                    let request = Request {
                        safety: call.safety,
                        peer: call.peer,
                        order: self.order,
                        is_tail: call.is_tail,
                    };
                    let id = self.tree.call(scope, request, &mut effects);
                    let id = id.expect("it runs");
                    self.calls.insert(id, Open::new(scope, call.clone(), known));
                    id
                });
                frame.waiting = Waiting::ForCalls(ids.collect(), BTreeMap::new());
            }
        }
        self.carry_out(effects);
    }

    fn finish(&mut self, scope: ScopeId, outcome: Outcome) {
        let frame = self.frames.get_mut(&scope).expect("it runs");
        frame.outcome = Some(outcome);
        if scope != ScopeId::ROOT {
            let mut effects = Vec::new();
            self.tree.finish(scope, &mut effects).expect("it runs");
            self.carry_out(effects);
        }
    }

    fn predict(&mut self, call: CallId, rng: &mut Rng, is_right: f64) {
        let open = &self.calls[&call];
        let actual = answer(open.call.method, open.argument);
        let value = match actual {
            Ok(value) if rng.f64() < is_right => value,
            _ => rng.u64(..4),
        };
        if self.open(call).predictions.branch(&value).is_some() {
            return;
        }
        match self.tree.predict(call).expect("it is open") {
            Some(branch) => self.start(call, branch, value),
            None => self.count("a prediction over a limit"),
        }
    }

    fn answer(&mut self, call: CallId) {
        let open = &self.calls[&call];
        let actual = answer(open.call.method, open.argument);
        let served = open.served.flatten().expect("it was served");
        let stamp = actual.is_ok().then_some(Stamp {
            clock: 1,
            at: served,
        });
        let verdict = open.predictions.verdict(&actual);
        let open = self.open(call);
        open.answered = actual.is_ok().then_some(served);
        open.failed = actual.err();
        let mut effects = Vec::new();
        let said = self.tree.answer(call, verdict, stamp, &mut effects);
        said.expect("it was sent");
        self.carry_out(effects);
    }

    fn start(&mut self, call: CallId, branch: ScopeId, value: u64) {
        let open = self.calls.get_mut(&call).expect("it is open");
        open.predictions.insert(branch, value);
        let known = mix(open.argument, value);
        let frame = Frame::new(open.call.then.clone(), known);
        self.frames.insert(branch, frame);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.count_effect(&effect);
            match effect {
                Effect::Send {
                    call, speculative, ..
                } => self.send(call, speculative),
                Effect::Commit(call) => self.stays.extend(self.tentative.remove(&call)),
                Effect::Cancel(call) => {
                    self.tentative.remove(&call);
                }
                Effect::Start { call, branch } => {
                    let open = &self.calls[&call];
                    let value = answer(open.call.method, open.argument);
                    self.start(call, branch, value.expect("it has a value"));
                }
                Effect::Return { call, branch, .. } => {
                    let frame = self.frames.remove(&branch).expect("it has finished");
                    let outcome = frame.outcome.expect("it has finished");
                    if let Some(foreseen) = self.foreseen.remove(&branch) {
                        self.foreseen.insert(self.calls[&call].scope, foreseen);
                    }
                    self.come_to(call, outcome, frame.read);
                }
                Effect::Fail(call) => {
                    let error = self.calls[&call].failed.expect("it failed");
                    self.come_to(call, Err(error), Vec::new());
                }
                Effect::Foresee(branch) => {
                    let outcome = self.frames[&branch].outcome.expect("it has finished");
                    self.foreseen.insert(branch, outcome);
                }
                Effect::Wake(waiter) => self.wake(waiter),
                Effect::Rollback(rollback) => {
                    let undone = self.locals.remove(&rollback);
                    undone.expect("it is undone once");
                }
                Effect::Forget(rollback) => {
                    let stays = self.locals.remove(&rollback);
                    self.stays.push(stays.expect("it is forgotten once"));
                }
                Effect::Vanish(call) => {
                    self.calls.remove(&call).expect("it vanishes once");
                }
                Effect::Discard(scope) => self.discard(scope),
            }
        }
    }

    fn send(&mut self, call: CallId, speculative: bool) {
        let open = self.calls.get_mut(&call).expect("it is open");
        let scope = self.tree.standing(open.scope).expect("it has a call");
        let safety = open.call.safety.toward(open.call.peer);
        assert!(!(speculative && safety == Safety::Unsafe), "{call} is sent");
        assert!(speculative || scope == Standing::Correct);
        open.served = Some(None);
        (open.answered, open.failed) = (None, None);
        let effect = Stays::Called(open.call.method, open.argument);
        match safety {
            Safety::Safe => {}
            Safety::Aware | Safety::Unsafe if !speculative => self.stays.push(effect),
            Safety::Aware | Safety::Unsafe => {
                self.tentative.insert(call, effect);
            }
        }
    }

    /// A call has come to something. The body goes on when all those beside it have, too.
    fn come_to(&mut self, call: CallId, outcome: Outcome, inner: Vec<u64>) {
        let open = self.calls.remove(&call).expect("it was open");
        let read = open.answered.into_iter().chain(inner).collect();
        let frame = self.frames.get_mut(&open.scope).expect("it has a call");
        let Waiting::ForCalls(waited, had) = &mut frame.waiting else {
            panic!("{call} was not waited for");
        };
        had.insert(call, (outcome, read));
        if had.len() < waited.len() {
            return;
        }
        let outcomes: Vec<_> = waited.iter().map(|call| had[call].0).collect();
        let read = waited.iter().flat_map(|call| had[call].1.clone());
        frame.read.extend(read.collect::<Vec<_>>());
        frame.waiting = Waiting::No;
        let body = frame.body.clone();
        let Step::Calls(calls) = &body.steps[frame.next] else {
            panic!("no calls were made");
        };
        frame.next += 1;
        match join(frame.known, calls, &outcomes) {
            Ok(known) => frame.known = known,
            Err(error) => self.finish(open.scope, Err(error)),
        }
    }

    fn wake(&mut self, waiter: WaiterId) {
        let scope = self.waiters.remove(&waiter).expect("it wakes once");
        let frame = self.frames.get_mut(&scope).expect("it waits");
        assert_eq!(self.tree.standing(scope), Ok(Standing::Correct));
        let Step::Output(what) = frame.body.steps[frame.next] else {
            panic!("it is not at a barrier");
        };
        self.stays.push(Stays::Output(what, frame.known));
        frame.waiting = Waiting::No;
        frame.next += 1;
    }

    fn discard(&mut self, scope: ScopeId) {
        self.frames.remove(&scope).expect("it is discarded once");
        self.foreseen.remove(&scope);
        assert!(self.calls.values().all(|open| open.scope != scope));
        for open in self.calls.values_mut() {
            open.predictions.remove(scope);
        }
    }

    fn open(&mut self, call: CallId) -> &mut Open {
        self.calls.get_mut(&call).expect("it is open")
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn count_effect(&mut self, effect: &Effect) {
        self.count(match effect {
            Effect::Send {
                speculative: true, ..
            } => "send speculatively",
            Effect::Send { .. } => "send",
            Effect::Commit(_) => "commit",
            Effect::Cancel(_) => "cancel",
            Effect::Start { .. } => "start",
            Effect::Return { .. } => "return",
            Effect::Fail(_) => "fail",
            Effect::Foresee(_) => "foresee",
            Effect::Wake(_) => "wake",
            Effect::Rollback(_) => "rollback",
            Effect::Forget(_) => "forget",
            Effect::Vanish(_) => "vanish",
            Effect::Discard(_) => "discard",
        });
    }
}

impl Next {
    fn step((scope, frame): (&ScopeId, &Frame)) -> Option<Self> {
        let runs = matches!(frame.waiting, Waiting::No) && frame.outcome.is_none();
        runs.then_some(Self::Step(*scope))
    }
}

impl Frame {
    fn new(body: Rc<Body>, known: u64) -> Self {
        Self {
            body,
            next: 0,
            known,
            waiting: Waiting::No,
            outcome: None,
            read: Vec::new(),
        }
    }
}

impl Open {
    fn new(scope: ScopeId, call: Rc<Call>, argument: u64) -> Self {
        Self {
            scope,
            call,
            argument,
            predictions: Predictions::new(),
            served: None,
            answered: None,
            failed: None,
        }
    }
}
