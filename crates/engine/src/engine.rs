//! The events of a domain, one method each.

use std::collections::BTreeSet;

use crate::assumptions::{Assumptions, Watcher};
use crate::barriers::{Barriers, Ended};
use crate::blocking::{Blocking, Edge, On};
use crate::deps::{Deps, Tracked};
use crate::effect::{Access, Answer, Effect};
use crate::error::EngineError;
use crate::id::{ChannelId, HoldId, Id, Node, ObjectId, TaskId, WaiterId};
use crate::kind::{Decision, Kind, Kinds, Owner};
use crate::nodes::Nodes;
use crate::outputs::{Leaving, Outputs};
use crate::stall;

/// One domain. Every event appends its effects to the caller's list; an event that is refused with
/// an error has changed nothing and appends nothing.
#[derive(Debug, Default)]
pub struct Engine {
    assumptions: Assumptions,
    nodes: Nodes,
    outputs: Outputs,
    barriers: Barriers,
    blocking: Blocking,
    /// The live tasks that run, or wait for something outside: any one rules out a stall, and saves
    /// looking for it.
    free: BTreeSet<TaskId>,
    /// Whether [`Effect::Stalled`] is the last that was said of it.
    stalled: bool,
    /// Whether consent was denied.
    over: bool,
}

/// Assumptions and their decisions.
impl Engine {
    /// A domain without tasks, channels and assumptions.
    pub fn new() -> Self {
        Self::default()
    }

    /// A new undecided assumption. On a consent the whole domain depends at once; on others, what
    /// [`Self::depend`] names. A domain that goes on after its consent was affirmed does so under a
    /// new one, assumed before its tasks run again.
    ///
    /// # Errors
    ///
    /// A consent is a person's and nothing else is; one consent is undecided at a time; nothing is
    /// assumed after a denied consent.
    pub fn assume(&mut self, owner: Owner, kind: Kind) -> Result<Id, EngineError> {
        if self.over {
            return Err(EngineError::Over);
        }
        self.assumptions.assume(owner, kind)
    }

    /// Makes a node depend on an assumption that it does not meet by an access: a guessed result
    /// that it was given, an epoch that has its change. Does nothing for a consent.
    ///
    /// # Errors
    ///
    /// The task or the assumption is unknown, the assumption is decided, or the object cannot
    /// carry it.
    pub fn depend(
        &mut self,
        node: Node,
        id: Id,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        let kind = self.undecided(id)?;
        self.nodes.depend(node, id, kind, &self.assumptions)?;
        self.tell_stall(effects);
        Ok(())
    }

    /// The owner's decision.
    ///
    /// Affirmed: releases what waited for it alone, then wakes waiters. A consent denied ends the
    /// domain: drops all that is held, on whatever channel, since all of it depends on the consent;
    /// wakes all waiters, not ok; and from then on drops every output and lets nobody wait.
    ///
    /// # Errors
    ///
    /// The assumption is unknown or decided. An epoch is never denied. A prediction cannot be
    /// denied yet ([`EngineError::Unsupported`]).
    pub fn decide(
        &mut self,
        id: Id,
        decision: Decision,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        match (self.undecided(id)?, decision) {
            (_, Decision::Affirm) => self.affirm(id, effects),
            (Kind::Consent, Decision::Deny) => self.finish(effects),
            (Kind::Prediction, Decision::Deny) => return Err(EngineError::Unsupported(id)),
            (Kind::Epoch(_), Decision::Deny) => return Err(EngineError::EpochDenied(id)),
        }
        self.tell_stall(effects);
        Ok(())
    }

    fn affirm(&mut self, id: Id, effects: &mut Vec<Effect>) {
        let (mut leaving, mut ended) = (Leaving::default(), Ended::default());
        let assumptions = &mut self.assumptions;
        for watcher in assumptions.affirm(id) {
            match watcher {
                Watcher::Head(channel) => self.outputs.advance(channel, assumptions, &mut leaving),
                Watcher::Barrier(waiter) => {
                    self.barriers
                        .look_again(waiter, &self.nodes, assumptions, &mut ended);
                }
            }
        }
        effects.extend(leaving.in_order().map(Effect::Release));
        self.wake(ended, true, effects);
    }

    /// The end of a domain whose consent was denied.
    fn finish(&mut self, effects: &mut Vec<Effect>) {
        let (mut leaving, mut ended) = (Leaving::default(), Ended::default());
        self.over = true;
        self.assumptions.deny_consent();
        self.outputs
            .discard_all(&mut self.assumptions, &mut leaving);
        self.barriers.finish_all(&mut self.assumptions, &mut ended);
        effects.extend(leaving.in_order().map(Effect::Drop));
        self.wake(ended, false, effects);
    }

    fn undecided(&self, id: Id) -> Result<Kind, EngineError> {
        let found = self.assumptions.find(id)?;
        let found = found.ok_or(EngineError::AlreadyDecided(id))?;
        Ok(found.kind)
    }
}

/// Tasks and objects.
impl Engine {
    /// A new live task. It depends on what its parent depends on; without a parent, on nothing but
    /// the consent.
    ///
    /// # Errors
    ///
    /// The parent is not alive, or the child is.
    pub fn spawn(
        &mut self,
        parent: Option<TaskId>,
        child: TaskId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        self.nodes.spawn(parent, child, &self.assumptions)?;
        self.refresh(Node::Task(child));
        self.tell_stall(effects);
        Ok(())
    }

    /// A task has ended. What it put out stays held; its waiters are woken, not ok. What its end
    /// tells others, such as its exit status, is an object that it modifies before.
    ///
    /// # Errors
    ///
    /// The task is not alive.
    pub fn end(&mut self, task: TaskId, effects: &mut Vec<Effect>) -> Result<(), EngineError> {
        self.nodes.end(task)?;
        self.retire(Node::Task(task), effects);
        Ok(())
    }

    /// Says on which kinds an object can carry a dependency; all, unless said. A task that depends
    /// on others waits before it modifies the object.
    ///
    /// # Errors
    ///
    /// Every object carries consent, or a task would wait for it. What the object depends on
    /// already cannot be excluded.
    pub fn carry(&mut self, object: ObjectId, kinds: Kinds) -> Result<(), EngineError> {
        self.nodes.carry(object, kinds, &self.assumptions)
    }

    /// The object is no more: its dependencies, what it carries and what it is blocked on are
    /// forgotten, and its waiters are woken, not ok.
    pub fn forget(&mut self, object: ObjectId, effects: &mut Vec<Effect>) {
        self.nodes.forget(object);
        self.retire(Node::Object(object), effects);
    }

    /// A task is about to observe or modify an object.
    ///
    /// # Errors
    ///
    /// The task is not alive.
    pub fn access(
        &mut self,
        task: TaskId,
        object: ObjectId,
        access: Access,
        effects: &mut Vec<Effect>,
    ) -> Result<Answer, EngineError> {
        let answer = self.nodes.access(task, object, access, &self.assumptions)?;
        self.tell_stall(effects);
        Ok(answer)
    }

    /// What a node depends on, exactly; an object that was never met depends on the consent.
    ///
    /// # Errors
    ///
    /// The task is not alive.
    pub fn deps(&self, node: Node) -> Result<Deps, EngineError> {
        self.nodes.deps(node, Kinds::ALL, &self.assumptions)
    }

    fn retire(&mut self, node: Node, effects: &mut Vec<Effect>) {
        let mut ended = Ended::default();
        self.blocking.clear(node);
        self.barriers
            .finish_node(node, &mut self.assumptions, &mut ended);
        self.wake(ended, false, effects);
        self.refresh(node);
        self.tell_stall(effects);
    }
}

/// Output.
impl Engine {
    /// A new channel, gated by assumptions of these kinds. A channel to the person who decides may
    /// run ahead of consent, and so may one that they have allowed.
    ///
    /// # Errors
    ///
    /// The channel exists, or it would run ahead of predictions or epochs.
    pub fn open(&mut self, channel: ChannelId, gates: Kinds) -> Result<(), EngineError> {
        self.outputs.open(channel, gates)
    }

    /// Changes what gates a channel, closed or not. Releases held output that now may leave.
    ///
    /// # Errors
    ///
    /// There is no such channel, or it would run ahead of predictions or epochs.
    pub fn regate(
        &mut self,
        channel: ChannelId,
        gates: Kinds,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        let mut leaving = Leaving::default();
        self.outputs
            .regate(channel, gates, &mut self.assumptions, &mut leaving)?;
        effects.extend(leaving.in_order().map(Effect::Release));
        Ok(())
    }

    /// No more output comes by this channel. What it holds stays held; the channel is forgotten
    /// once it holds nothing.
    ///
    /// # Errors
    ///
    /// There is no such channel, or it is closed.
    pub fn close(&mut self, channel: ChannelId) -> Result<(), EngineError> {
        self.outputs.close(channel)
    }

    /// Forgets a channel, closed or not, and drops what it holds.
    ///
    /// # Errors
    ///
    /// There is no such channel.
    pub fn discard(
        &mut self,
        channel: ChannelId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        let mut dropped = Leaving::default();
        self.outputs
            .discard(channel, &mut self.assumptions, &mut dropped)?;
        effects.extend(dropped.in_order().map(Effect::Drop));
        Ok(())
    }

    /// Output of a node, which depends on what the node depends on now. It is released at once, or
    /// held; an id that was released or dropped may be used again.
    ///
    /// # Errors
    ///
    /// The task, or an open channel, is unknown; or the hold is held.
    pub fn output(
        &mut self,
        node: Node,
        channel: ChannelId,
        hold: HoldId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        let tracked = self.nodes.tracked(node)?;
        self.outputs.check(channel, hold)?;
        if self.over {
            effects.push(Effect::Drop(hold));
            return Ok(());
        }
        let mut now = Tracked::default();
        if let Some(tracked) = tracked {
            now.take(tracked, &self.assumptions);
        }
        let mut leaving = Leaving::default();
        self.outputs
            .push(channel, hold, now, &mut self.assumptions, &mut leaving);
        effects.extend(leaving.in_order().map(Effect::Release));
        Ok(())
    }
}

/// Waiting.
impl Engine {
    /// Somebody waits until a node depends on nothing of these kinds; a task waits so itself, and
    /// does not run meanwhile. The wake comes now or later.
    ///
    /// # Errors
    ///
    /// The task is not alive; the waiter waits already; a task never waits for consent.
    pub fn barrier(
        &mut self,
        node: Node,
        waiter: WaiterId,
        kinds: Kinds,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        self.nodes.tracked(node)?;
        self.barriers.check(node, waiter, kinds)?;
        let waits = !self.over
            && self
                .barriers
                .begin(node, waiter, kinds, &self.nodes, &mut self.assumptions)?;
        if !waits {
            let ok = !self.over;
            effects.push(Effect::Wake { waiter, ok });
        }
        self.refresh(node);
        self.tell_stall(effects);
        Ok(())
    }

    /// The waiter gave up, interrupted by a signal perhaps. No wake comes.
    ///
    /// # Errors
    ///
    /// It does not wait.
    pub fn withdraw(
        &mut self,
        waiter: WaiterId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        let mut ended = Ended::default();
        if !self
            .barriers
            .finish(waiter, &mut self.assumptions, &mut ended)
        {
            return Err(EngineError::UnknownWaiter(waiter));
        }
        for (_, node) in ended.in_order() {
            self.refresh(node);
        }
        self.tell_stall(effects);
        Ok(())
    }

    /// A node cannot go on before something happens. Told several times, any one of them is enough;
    /// [`Self::unblocked`] forgets them all. An object is blocked on whoever could answer by it.
    /// A node that is not known to be blocked counts as able to act.
    ///
    /// # Errors
    ///
    /// The task is not alive, here or in `on`; or no consent is undecided that it could wait for.
    pub fn blocked(
        &mut self,
        node: Node,
        on: On,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        self.nodes.tracked(node)?;
        let edge = match on {
            On::Consent => {
                let consent = self.assumptions.consent();
                Edge::Consent(consent.ok_or(EngineError::NoConsent(node))?)
            }
            On::Node(other) => {
                self.nodes.tracked(other)?;
                Edge::Node(other)
            }
            On::Time | On::Person | On::Input => Edge::Outside,
        };
        self.blocking.add(node, edge);
        self.refresh(node);
        self.tell_stall(effects);
        Ok(())
    }

    /// A node goes on, or what it is blocked on is about to be told anew.
    ///
    /// # Errors
    ///
    /// The task is not alive.
    pub fn unblocked(&mut self, node: Node, effects: &mut Vec<Effect>) -> Result<(), EngineError> {
        self.nodes.tracked(node)?;
        self.blocking.clear(node);
        self.refresh(node);
        self.tell_stall(effects);
        Ok(())
    }

    fn wake(&mut self, ended: Ended, ok: bool, effects: &mut Vec<Effect>) {
        for (waiter, node) in ended.in_order() {
            effects.push(Effect::Wake { waiter, ok });
            self.refresh(node);
        }
    }

    /// Finds out anew whether a node is a free task.
    fn refresh(&mut self, node: Node) {
        let Node::Task(task) = node else {
            return;
        };
        let is_live = self.nodes.tracked(node).is_ok();
        let runs = !self.blocking.is_blocked(node) || self.blocking.is_outside(node);
        if is_live && runs && !self.barriers.is_waiting(node) {
            self.free.insert(task);
        } else {
            self.free.remove(&task);
        }
    }

    /// Tells whether the domain has stalled, if that is new.
    fn tell_stall(&mut self, effects: &mut Vec<Effect>) {
        let consent = self.assumptions.consent().filter(|_| self.free.is_empty());
        let stalled_on = consent.filter(|_| {
            stall::is_stalled(
                &self.nodes,
                &self.blocking,
                &self.barriers,
                &self.assumptions,
            )
        });
        match (self.stalled, stalled_on) {
            (false, Some(on)) => {
                let tasks = self.nodes.tasks().collect();
                effects.push(Effect::Stalled { tasks, on });
            }
            (true, None) => effects.push(Effect::Unstalled),
            _ => {}
        }
        self.stalled = stalled_on.is_some();
    }
}
