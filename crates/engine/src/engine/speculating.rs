//! Predictions: guesses, checkpoints, and the way of a rollback.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;

use super::{Decided, Engine};
use crate::barriers::Ended;
use crate::cycle;
use crate::deps::Deps;
use crate::effect::{Effect, Guess};
use crate::error::EngineError;
use crate::id::{CkptId, GroupId, Id, Node, ObjectId, PlanId, TaskId};
use crate::kind::{Kind, Owner};
use crate::plan::Plan;
use crate::rollback;
use crate::timeline::Act;

/// How many predictions may be undecided: as many as the paper on Speculator allows, lest speculation
/// use up memory.
const UNDECIDED_MAX: usize = 2000;

/// What checkpoints there are, and which plans are not yet carried out.
#[derive(Debug, Default)]
pub(super) struct Plans {
    /// How many checkpoints and plans there have been.
    checkpoints_taken: u64,
    plans_made: u64,
    checkpoints: HashMap<CkptId, GroupId, BuildHasherDefault<DefaultHasher>>,
    open: BTreeMap<PlanId, Concerned>,
}

/// What a plan concerns.
#[derive(Debug)]
struct Concerned {
    groups: Vec<GroupId>,
    objects: Vec<ObjectId>,
    leaving: Vec<TaskId>,
}

/// Predictions that tasks are given, and what takes them back.
impl Engine {
    /// A task is about to be given a guessed result. With [`Guess::Go`] there is a prediction that
    /// `owner` decides, and the task's group depends on it: if it is denied, the group goes back to
    /// its newest checkpoint. The newest is shared with earlier predictions only if `may_share`, and
    /// if others could have seen nothing of the group since: it has put out nothing, spawned no group, assumed and decided
    /// nothing, and no other group has met an object that it has modified. Such an object depends on the prediction, too. So after
    /// [`Guess::CheckpointFirst`] and [`Self::checkpointed`] the call is repeated with `may_share`.
    ///
    /// At most 2000 predictions are undecided; with more there is a [`Guess::Wait`].
    ///
    /// If a group is rolled back to before it was given a guess, that prediction is withdrawn.
    ///
    /// # Errors
    ///
    /// The task is not alive or is being rolled back; a person owns no prediction; the domain is
    /// over.
    pub fn predict(
        &mut self,
        task: TaskId,
        owner: Owner,
        may_share: bool,
        effects: &mut Vec<Effect>,
    ) -> Result<Guess, EngineError> {
        if self.over {
            return Err(EngineError::Over);
        }
        let kind = Kind::Prediction;
        if owner == Owner::Person {
            return Err(EngineError::WrongOwner { kind, owner });
        }
        let own = self.nodes.groups.open_of(task)?;
        let undecided = self.assumptions.predictions();
        if undecided.len() >= UNDECIDED_MAX {
            let mut deps = Deps::default();
            if let Some(&oldest) = undecided.first() {
                deps.predictions.add(oldest, undecided);
            }
            return Ok(Guess::Wait(deps));
        }
        if !may_share || !self.nodes.may_gain(own) {
            return Ok(Guess::CheckpointFirst(own));
        }
        let id = self.assumptions.assume(owner, kind)?;
        self.nodes.gain_one(own, id, &mut self.assumptions);
        let group = self.nodes.groups.open(own)?;
        group.act(own, Act::Assumed(id), &mut self.assumptions);
        self.waits_changed = true;
        self.tell_waits(effects);
        Ok(Guess::Go(id))
    }

    /// The group has a new checkpoint, of this moment: no event of the group comes between the image
    /// and this. What its task does from now on is undone by restoring it. It may be taken at any
    /// time, asked for or not; one that no prediction ever needs is discarded when the next comes.
    ///
    /// # Errors
    ///
    /// There is no such group, it is being rolled back, or there is such a checkpoint. Then the
    /// shell throws the image away itself.
    pub fn checkpointed(
        &mut self,
        group: GroupId,
        ckpt: CkptId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        if self.plans.checkpoints.contains_key(&ckpt) {
            return Err(EngineError::CheckpointExists(ckpt));
        }
        let serial = self.plans.checkpoints_taken + 1;
        let groups = &mut self.nodes.groups;
        let needless = groups.checkpointed(group, ckpt, serial, &self.assumptions)?;
        self.plans.checkpoints_taken = serial;
        self.plans.checkpoints.insert(ckpt, group);
        self.discard_checkpoints(needless.map(|needless| (0, needless)), effects);
        Ok(())
    }

    /// A plan is carried out: what it concerns takes events again, unless a later plan concerns it,
    /// too. Wakes who waited for an object of the plan that is free now.
    ///
    /// # Errors
    ///
    /// There is no such plan, or it was said already.
    pub fn rolled_back(
        &mut self,
        plan: PlanId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        let concerned = self.plans.open.remove(&plan);
        let concerned = concerned.ok_or(EngineError::UnknownPlan(plan))?;
        for group in concerned.groups {
            self.nodes.groups.reopen(group, plan);
        }
        let mut ended = Ended::default();
        for object in concerned.objects {
            self.nodes.objects.reopen(object, plan);
            self.look_at_waits(Node::Object(object), &mut ended);
        }
        for task in concerned.leaving {
            self.nodes.groups.left(task, plan);
        }
        self.wake(ended, true, effects);
        self.tell_waits(effects);
        Ok(())
    }

    /// The group that a live task belongs to.
    ///
    /// # Errors
    ///
    /// The task is not alive.
    pub fn group(&self, task: TaskId) -> Result<GroupId, EngineError> {
        self.nodes.groups.of(task)
    }

    /// A prediction whose denial takes a live task's group back to a checkpoint, or further; none if all are decided that
    /// would.
    ///
    /// # Errors
    ///
    /// The task is not alive.
    pub fn prediction_behind(&self, task: TaskId, ckpt: CkptId) -> Result<Option<Id>, EngineError> {
        let group = self.nodes.groups.of(task)?;
        let group = self.nodes.groups.get(group);
        Ok(group.and_then(|group| group.timeline.gained_at(ckpt, &self.assumptions)))
    }

    /// Takes back all that depends on an undecided prediction.
    pub(super) fn deny(&mut self, denied: Id, effects: &mut Vec<Effect>) {
        let Self {
            nodes,
            outputs,
            assumptions,
            ..
        } = self;
        let mut cascade = rollback::cascade(denied, nodes, outputs, assumptions);
        let plan = PlanId(self.plans.plans_made + 1);
        let (steps, leaving) = cascade.carry_out(plan, &mut self.nodes);

        let dropped = std::mem::take(&mut cascade.dropped);
        effects.extend(dropped.in_order().map(Effect::Drop));
        let mut ended = Ended::default();
        let tasks: Vec<_> = cascade.tasks().collect();
        for &task in &tasks {
            self.blocking.clear(task);
            self.barriers
                .finish_node(task, &mut self.assumptions, &mut ended);
        }
        self.wake(ended, false, effects);
        let withdrawn = cascade.predictions.iter().filter(|&&id| id != denied);
        for &id in withdrawn {
            self.assumptions.withdraw(id);
            effects.push(Effect::Withdrawn(id));
        }
        if !steps.is_empty() {
            self.plans.plans_made = plan.0;
            let concerned = Concerned {
                groups: cascade.groups.keys().copied().collect(),
                objects: cascade.objects.keys().copied().collect(),
                leaving,
            };
            self.plans.open.insert(plan, concerned);
            effects.push(Effect::Plan(Plan { id: plan, steps }));
        }
        for fate in cascade.groups.values() {
            if let Some((_, used)) = fate.to {
                self.plans.checkpoints.remove(&used);
            }
        }
        self.discard_checkpoints(std::mem::take(&mut cascade.needless), effects);
        for task in tasks {
            self.refresh(task);
        }
        self.go_on_without(&cascade, effects);
    }

    /// What follows from there being no such predictions and no such state.
    fn go_on_without(&mut self, cascade: &rollback::Cascade, effects: &mut Vec<Effect>) {
        let mut decided = Decided::default();
        for &id in &cascade.predictions {
            for watcher in self.assumptions.deny(id) {
                self.look_again(watcher, &mut decided);
            }
        }
        for &channel in &cascade.channels {
            self.outputs
                .advance(channel, &mut self.assumptions, &mut decided.leaving);
        }
        for &object in cascade.objects.keys() {
            self.look_at_waits(Node::Object(object), &mut decided.ended);
        }
        self.tell_decided(decided, effects);
    }

    fn look_at_waits(&mut self, node: Node, ended: &mut Ended) {
        let (nodes, assumptions) = (&self.nodes, &mut self.assumptions);
        self.barriers.look_afresh(node, nodes, assumptions, ended);
    }

    /// Tells that checkpoints are needless, in the order of their places.
    pub(super) fn discard_checkpoints(
        &mut self,
        needless: impl IntoIterator<Item = (u64, CkptId)>,
        effects: &mut Vec<Effect>,
    ) {
        for (_, ckpt) in needless {
            self.plans.checkpoints.remove(&ckpt);
            effects.push(Effect::DiscardCheckpoint(ckpt));
        }
    }

    /// Denies predictions whose owners wait, in however many steps, for those who depend on them.
    pub(super) fn break_cycles(&mut self, effects: &mut Vec<Effect>) {
        while std::mem::take(&mut self.waits_changed) {
            let mut owners = self.assumptions.owned().keys();
            if owners.all(|owner| self.free.contains(owner)) {
                return;
            }
            let found = cycle::find(
                &self.nodes,
                &self.blocking,
                &self.barriers,
                &self.assumptions,
            );
            if let Some(id) = found {
                effects.push(Effect::DeniedForCycle(id));
                self.assumptions.withdraw(id);
                self.deny(id, effects);
                self.waits_changed = true;
            }
        }
    }
}
