//! Who waits, and whether anything could end that.

use super::Engine;
use crate::barriers::Ended;
use crate::blocking::{Edge, On};
use crate::effect::Effect;
use crate::error::EngineError;
use crate::id::{Node, WaiterId};
use crate::kind::Kinds;
use crate::stall;

/// Waiting.
impl Engine {
    /// Somebody waits until a node depends on nothing of these kinds. The wake comes now or later.
    ///
    /// A task waits so itself, and does not run meanwhile. Its wait ends, not ok, when the task ends or
    /// is rolled back: then the call that waited has never happened.
    ///
    /// An object's waiter is somebody else: a bystander that may not meet what is undecided, or the
    /// shell. So a rollback of the object does not end the wait. It ends, ok, once the object is free of
    /// such dependencies *and* no plan that concerns it is left to be carried out: with
    /// [`Self::rolled_back`] at the earliest, and later if the object still depends on something older.
    /// Epochs that the object comes to depend on after the wait began are not waited for: who asks for
    /// durability asks for that of what there is.
    ///
    /// Such a wait may begin during a rollback, too. It ends, not ok, when the object is forgotten. The
    /// engine does not know whose waiter it is: if the bystander is rolled back itself, or ends, the shell
    /// [withdraws](Self::withdraw) its waiter.
    ///
    /// # Errors
    ///
    /// The task is not alive, or is being rolled back; the waiter waits already; a task never waits for
    /// consent.
    pub fn barrier(
        &mut self,
        node: Node,
        waiter: WaiterId,
        kinds: Kinds,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        if let Node::Task(task) = node {
            self.nodes.groups.open_of(task)?;
        }
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
        self.tell_waits(effects);
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
        self.tell_waits(effects);
        Ok(())
    }

    /// A node cannot go on before something happens. Told several times, any one of them is enough;
    /// [`Self::unblocked`] forgets them all. An object is blocked on those that could answer by it.
    /// A node that is not known to be blocked counts as able to act.
    ///
    /// # Errors
    ///
    /// The task is not alive, here or in `on`, or the node is being rolled back; or no consent is
    /// undecided that it could wait for.
    pub fn blocked(
        &mut self,
        node: Node,
        on: On,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        self.nodes.check_open(node)?;
        let edge = match on {
            On::Consent => {
                let consent = self.assumptions.consent();
                Edge::Consent(consent.ok_or(EngineError::NoConsent(node))?)
            }
            On::Node(other) => {
                if let Node::Task(other) = other {
                    self.nodes.groups.of(other)?;
                }
                Edge::Node(other)
            }
            On::Time | On::Person | On::Input => Edge::Outside,
        };
        self.blocking.add(node, edge);
        self.refresh(node);
        self.tell_waits(effects);
        Ok(())
    }

    /// A node goes on, or what it is blocked on is about to be told anew.
    ///
    /// # Errors
    ///
    /// The task is not alive, or the node is being rolled back.
    pub fn unblocked(&mut self, node: Node, effects: &mut Vec<Effect>) -> Result<(), EngineError> {
        self.nodes.check_open(node)?;
        self.blocking.clear(node);
        self.refresh(node);
        self.tell_waits(effects);
        Ok(())
    }

    pub(super) fn wake(&mut self, ended: Ended, ok: bool, effects: &mut Vec<Effect>) {
        for (waiter, node) in ended.in_order() {
            effects.push(Effect::Wake { waiter, ok });
            self.refresh(node);
        }
    }

    /// Finds out anew whether a node is a free task.
    pub(super) fn refresh(&mut self, node: Node) {
        self.waits_changed = true;
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

    /// Denies what would be waited for for ever, and tells what only the person can end.
    pub(super) fn tell_waits(&mut self, effects: &mut Vec<Effect>) {
        self.break_cycles(effects);
        self.tell_stall(effects);
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
