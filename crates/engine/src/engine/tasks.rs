//! Tasks come and go, and meet objects.

use super::Engine;
use crate::barriers::Ended;
use crate::deps::Deps;
use crate::effect::{Access, Answer, Effect, Merged};
use crate::error::EngineError;
use crate::id::{Id, Node, ObjectId, TaskId};
use crate::kind::Kinds;

/// Tasks and objects.
impl Engine {
    /// A new live task, in a group of its own. It depends on what its parent depends on; without a
    /// parent, on nothing but the consent. If a prediction is denied that its parent had depended on
    /// before, it is destroyed.
    ///
    /// # Errors
    ///
    /// The parent is not alive or is being rolled back; the child is alive.
    pub fn spawn(
        &mut self,
        parent: Option<TaskId>,
        child: TaskId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        let groups = &mut self.nodes.groups;
        groups.spawn(parent, child, &mut self.assumptions)?;
        self.refresh(Node::Task(child));
        self.tell_waits(effects);
        Ok(())
    }

    /// A task has ended. What it put out stays held; its waiters are woken, not ok. What its end
    /// tells others, such as its exit status, is an object that it modifies before.
    ///
    /// Its group ends with it, for good: its checkpoints are discarded, though what it did may still
    /// be undone. So an end that may have to be undone is held by the shell, and told when the task
    /// depends on no prediction any more.
    ///
    /// Only the last task of a group ends the group. When another one of them ends, what the group depends on stays
    /// theirs whose group it is; and since no checkpoint from before brings that task back, none of them is used for
    /// further predictions.
    ///
    /// A task may end while it is being rolled back. If the plan destroys it, its end means nothing.
    ///
    /// # Errors
    ///
    /// The task is not alive.
    pub fn end(&mut self, task: TaskId, effects: &mut Vec<Effect>) -> Result<(), EngineError> {
        let ended = self.nodes.groups.end(task)?;
        self.retire(Node::Task(task), effects);
        if let Some(group) = ended {
            let needless = self.nodes.end_group(group, &mut self.assumptions);
            self.discard_checkpoints(needless, effects);
        }
        self.tell_waits(effects);
        Ok(())
    }

    /// Two tasks are to share what nobody tracks, such as memory: from now on they have one group, which is
    /// checkpointed and rolled back as a whole. The older of their groups takes in the other. The shell stops all
    /// tasks of both groups before this, and lets them go on after it.
    ///
    /// With [`Merged::Go`] all their checkpoints are discarded. So the next prediction asks for a new checkpoint, the
    /// first of both. Groups that depend on predictions are not merged: their checkpoints are of different moments,
    /// and no denial could take both back to one. If they have the same group already, nothing happens.
    ///
    /// # Errors
    ///
    /// One of the tasks is not alive or is being rolled back.
    pub fn merge(
        &mut self,
        one: TaskId,
        other: TaskId,
        effects: &mut Vec<Effect>,
    ) -> Result<Merged, EngineError> {
        let groups = &mut self.nodes.groups;
        let (merged, needless) = groups.merge(one, other, &mut self.assumptions)?;
        self.discard_checkpoints(needless, effects);
        self.waits_changed = true;
        self.tell_waits(effects);
        Ok(merged)
    }

    /// The object is no more: its dependencies and what it is blocked on are
    /// forgotten, its waiters are woken, not ok, and its undo records are discarded. An object whose
    /// end may have to be undone is forgotten when it depends on no prediction any more.
    pub fn forget(&mut self, object: ObjectId, effects: &mut Vec<Effect>) {
        let records = self.nodes.forget(object, &self.outputs, &self.assumptions);
        self.retire(Node::Object(object), effects);
        let records = records.into_iter();
        effects.extend(records.map(|(_, undo)| Effect::DiscardUndo(undo)));
        self.tell_waits(effects);
    }

    /// A task is about to observe or modify an object.
    ///
    /// # Errors
    ///
    /// The task is not alive, the task or the object is being rolled back, or there is such an undo
    /// record.
    pub fn access(
        &mut self,
        task: TaskId,
        object: ObjectId,
        access: Access,
        effects: &mut Vec<Effect>,
    ) -> Result<Answer, EngineError> {
        let assumptions = &mut self.assumptions;
        let accessed = self
            .nodes
            .access(task, object, access, assumptions, effects)?;
        // If the task waits, it is stuck in more cycles.
        self.waits_changed |= accessed.gains;
        // And so is who waits for an object that has gained.
        self.waits_changed |= self.barriers.is_waiting(Node::Object(object));
        self.tell_waits(effects);
        Ok(accessed.answer)
    }

    /// What a node depends on, exactly; an object that was never met depends on the consent.
    ///
    /// # Errors
    ///
    /// The task is not alive.
    pub fn deps(&self, node: Node) -> Result<Deps, EngineError> {
        self.nodes.deps(node, Kinds::ALL, &self.assumptions)
    }

    /// Whether a node depends on an undecided prediction. Unlike [`Self::deps`], it looks at one prediction and no more.
    ///
    /// # Errors
    ///
    /// The task is not alive.
    pub fn speculates(&self, node: Node) -> Result<bool, EngineError> {
        let tracked = self.nodes.tracked(node)?;
        Ok(tracked.is_some_and(|tracked| tracked.has_prediction(&self.assumptions)))
    }

    /// Whether a node depends on this undecided prediction.
    ///
    /// # Errors
    ///
    /// The task is not alive.
    pub fn depends_on(&self, node: Node, prediction: Id) -> Result<bool, EngineError> {
        let is_undecided = self.assumptions.predictions().contains(&prediction);
        let tracked = self.nodes.tracked(node)?;
        let depends = tracked.is_some_and(|tracked| tracked.predictions.contains(prediction));
        Ok(is_undecided && depends)
    }

    fn retire(&mut self, node: Node, effects: &mut Vec<Effect>) {
        let mut ended = Ended::default();
        self.blocking.clear(node);
        self.barriers
            .finish_node(node, &mut self.assumptions, &mut ended);
        self.wake(ended, false, effects);
        self.refresh(node);
    }
}
