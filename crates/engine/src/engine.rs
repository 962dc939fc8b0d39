//! The events of a domain, one method each; here those of assumptions and their decisions.

mod output;
mod speculating;
mod tasks;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};

use crate::assumptions::{Assumptions, Watcher};
use crate::barriers::{Barriers, Ended};
use crate::blocking::Blocking;
use crate::effect::{Answer, Effect};
use crate::error::EngineError;
use crate::id::{CkptId, Id, Node, TaskId, UndoId};
use crate::kind::{Decision, Kind, Owner};
use crate::nodes::Nodes;
use crate::outputs::{Leaving, Outputs};
use crate::timeline::Act;

use speculating::Plans;

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
    /// Whether who waits for whom has changed since cycles were looked for.
    waits_changed: bool,
    /// Whether [`Effect::Stalled`] is the last that was said of it.
    stalled: bool,
    /// Whether consent was denied.
    over: bool,
    plans: Plans,
}

/// Assumptions and their decisions.
impl Engine {
    /// A domain without tasks, channels and assumptions.
    pub fn new() -> Self {
        Self::default()
    }

    /// A new undecided assumption. On a consent the whole domain depends at once; on others, what
    /// [`Self::depend`] names. A domain that goes on after its consent was affirmed does so under a
    /// new one, assumed before its tasks run again. A prediction that a live task owns is of that
    /// task's making: if the task is rolled back to before, it is withdrawn.
    ///
    /// # Errors
    ///
    /// A consent is a person's and nothing else is; one consent is undecided at a time; nothing is
    /// assumed after a denied consent, nor by a task that is being rolled back.
    pub fn assume(&mut self, owner: Owner, kind: Kind) -> Result<Id, EngineError> {
        if self.over {
            return Err(EngineError::Over);
        }
        let maker = match (owner, kind) {
            (Owner::Task(task), Kind::Prediction) => match self.nodes.groups.open_of(task) {
                Ok(maker) => Some(maker),
                Err(EngineError::UnknownTask(_)) => None,
                Err(error) => return Err(error),
            },
            _ => None,
        };
        let id = self.assumptions.assume(owner, kind)?;
        self.waits_changed = true;
        if let Some(maker) = maker {
            let group = self.nodes.groups.open(maker)?;
            group.timeline.spend();
            if group.speculates(&self.assumptions) {
                group.act(maker, Act::Assumed(id), &mut self.assumptions);
            }
        }
        Ok(id)
    }

    /// Makes a node depend on an assumption that it does not meet by an access: a guessed result
    /// that it was given, an epoch that has its change. Does nothing for a consent. A task needs a
    /// checkpoint before it depends on a prediction; an object is what its undo records say when
    /// the prediction is denied.
    ///
    /// # Errors
    ///
    /// The task or the assumption is unknown, the assumption is decided, or the node is being rolled
    /// back.
    pub fn depend(
        &mut self,
        node: Node,
        id: Id,
        effects: &mut Vec<Effect>,
    ) -> Result<Answer, EngineError> {
        let kind = self.undecided(id)?;
        let answer = self.nodes.depend(node, id, kind, &mut self.assumptions)?;
        self.waits_changed = true;
        self.tell_waits(effects);
        Ok(answer)
    }

    /// The owner's decision.
    ///
    /// Affirmed: releases what waited for it alone, then wakes waiters, then tells which
    /// checkpoints and undo records are needless. A prediction denied: drops the output that
    /// depends on it, ends the waits of the tasks that are rolled back, not ok, says what is
    /// withdrawn and what is to be done, and goes on as if affirmed. A consent denied ends the
    /// domain: drops all that is held, on whatever channel, since all of it depends on the consent;
    /// wakes all waiters, not ok; and from then on drops every output and lets nobody wait.
    ///
    /// Nothing happens, once, if the prediction was withdrawn or denied for a cycle meanwhile.
    ///
    /// # Errors
    ///
    /// The assumption is unknown or decided. An epoch is never denied. A task does not affirm what
    /// would stay affirmed if it were rolled back.
    pub fn decide(
        &mut self,
        id: Id,
        decision: Decision,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        if self.assumptions.is_needless(id) {
            return Ok(());
        }
        let kind = self.undecided(id)?;
        match (kind, decision) {
            (Kind::Epoch(_), Decision::Deny) => return Err(EngineError::EpochDenied(id)),
            (Kind::Prediction, _) => self.check_owner(id, decision)?,
            _ => {}
        }
        self.waits_changed = true;
        match (kind, decision) {
            (_, Decision::Affirm) => self.affirm(id, effects),
            (Kind::Prediction, Decision::Deny) => self.deny(id, effects),
            (_, Decision::Deny) => self.finish(effects),
        }
        self.tell_waits(effects);
        Ok(())
    }

    /// A decision that a task makes is an act of its group.
    fn check_owner(&mut self, id: Id, decision: Decision) -> Result<(), EngineError> {
        let found = self.assumptions.find(id)?.map(|found| found.owner);
        let Some(Owner::Task(owner)) = found else {
            return Ok(());
        };
        let Ok(group) = self.nodes.groups.of(owner) else {
            return Ok(());
        };
        let Some(group) = self.nodes.groups.get_mut(group) else {
            return Ok(());
        };
        if decision == Decision::Affirm && group.speculates(&self.assumptions) {
            return Err(EngineError::OwnerSpeculates { id, owner });
        }
        group.timeline.spend();
        Ok(())
    }

    fn affirm(&mut self, id: Id, effects: &mut Vec<Effect>) {
        let mut decided = Decided::default();
        for watcher in self.assumptions.affirm(id) {
            self.look_again(watcher, &mut decided);
        }
        self.tell_decided(decided, effects);
    }

    /// Somebody watched an assumption that is decided.
    fn look_again(&mut self, watcher: Watcher, decided: &mut Decided) {
        let assumptions = &mut self.assumptions;
        match watcher {
            Watcher::Head(channel) => {
                self.outputs
                    .advance(channel, assumptions, &mut decided.leaving);
            }
            Watcher::Barrier(waiter) => {
                self.barriers
                    .look_again(waiter, &self.nodes, assumptions, &mut decided.ended);
            }
            Watcher::Segment(group, serial) => {
                if let Some(found) = self.nodes.groups.get_mut(group)
                    && let Some(ckpt) = found.timeline.review(group, serial, assumptions)
                {
                    decided.checkpoints.insert(serial, ckpt);
                }
            }
            Watcher::Acts(group) => {
                let settled = self.nodes.settle(group, assumptions);
                decided.undos.extend(settled);
            }
        }
    }

    fn tell_decided(&mut self, decided: Decided, effects: &mut Vec<Effect>) {
        effects.extend(decided.leaving.in_order().map(Effect::Release));
        self.wake(decided.ended, true, effects);
        self.discard_checkpoints(decided.checkpoints, effects);
        let undos = decided.undos.into_values();
        effects.extend(undos.map(Effect::DiscardUndo));
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

/// What a decision lets go.
#[derive(Debug, Default)]
struct Decided {
    leaving: Leaving,
    ended: Ended,
    /// By their places.
    checkpoints: BTreeMap<u64, CkptId>,
    undos: BTreeMap<u64, UndoId>,
}
