//! Tasks and objects, and how dependencies spread among them.

use crate::assumptions::Assumptions;
use crate::deps::{Deps, Tracked};
use crate::effect::{Access, Answer, Effect};
use crate::error::EngineError;
use crate::groups::Groups;
use crate::id::{CkptId, GroupId, Id, Node, ObjectId, TaskId, UndoId};
use crate::kind::{Kind, Kinds};
use crate::objects::Objects;
use crate::outputs::Outputs;
use crate::reliance::Reliance;
use crate::timeline::Act;
use crate::undo::Undos;

/// All that can depend on assumptions.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    pub groups: Groups,
    pub objects: Objects,
    pub undos: Undos,
}

/// How an access went.
pub(crate) struct Accessed {
    pub answer: Answer,
    /// Whether the group may have come to depend on more.
    pub gains: bool,
}

impl From<Answer> for Accessed {
    fn from(answer: Answer) -> Self {
        let gains = false;
        Self { answer, gains }
    }
}

impl Nodes {
    /// Makes a node depend on an undecided assumption.
    pub fn depend(
        &mut self,
        node: Node,
        id: Id,
        kind: Kind,
        assumptions: &mut Assumptions,
    ) -> Result<Answer, EngineError> {
        match node {
            Node::Object(object) => {
                self.objects
                    .depend(object, id, kind, &mut self.undos, assumptions)?;
            }
            Node::Task(task) => {
                let own = self.groups.open_of(task)?;
                let group = self.groups.open(own)?;
                if kind != Kind::Prediction {
                    group.tracked.add(id, kind, assumptions);
                } else if !group.tracked.predictions.contains(id) {
                    if !group.timeline.may_gain() {
                        return Ok(Answer::CheckpointFirst(own));
                    }
                    group.gain_one(own, id, assumptions);
                }
            }
        }
        Ok(Answer::Go)
    }

    /// A task meets an object. See [`crate::Engine::access`].
    pub fn access(
        &mut self,
        task: TaskId,
        object: ObjectId,
        access: Access,
        assumptions: &mut Assumptions,
        effects: &mut Vec<Effect>,
    ) -> Result<Accessed, EngineError> {
        let (modifies, undo) = match access {
            Access::Observe => (false, None),
            Access::Modify(undo) | Access::Both(undo) | Access::Commute(undo) => (true, undo),
        };
        let own = self.groups.open_of(task)?;
        self.objects.check_open(object)?;
        self.undos.check(undo)?;
        let group = self.groups.open(own)?;
        let none = Reliance::default();
        let found = self.objects.get(object);
        let reliance = found.map_or(&none, |found| &found.reliance);
        let (observed, taken) = (&reliance.tracked, reliance.predictions_for(access));
        let known = &group.tracked.predictions;
        let gained = known.missing(taken, assumptions.predictions());
        if !gained.is_empty() && !group.timeline.may_gain() {
            return Ok(Answer::CheckpointFirst(own).into());
        }
        let speculates = !gained.is_empty() || group.speculates(assumptions);
        if modifies && speculates && undo.is_none() {
            return Ok(Answer::UndoFirst.into());
        }
        let gains = !gained.is_empty() || !observed.epochs.is_empty();
        if matches!(access, Access::Observe | Access::Both(_)) {
            group.tracked.take(observed, assumptions);
        }
        if !gained.is_empty() {
            let undecided = assumptions.predictions();
            group.tracked.predictions.union(&gained, undecided);
            group.timeline.gain(own, &gained, assumptions);
            let groups = &self.groups;
            let speculates = |taker| groups.speculates(taker, assumptions);
            self.objects.entry(object).taken(own, speculates);
        }
        if modifies {
            let undo = undo.filter(|&undo| {
                if !speculates {
                    effects.push(Effect::DiscardUndo(undo));
                }
                speculates
            });
            let commutes = matches!(access, Access::Commute(_));
            self.modify(task, object, commutes, undo, assumptions)?;
        }
        self.objects.tidy(object);
        let answer = Answer::Go;
        Ok(Accessed { answer, gains })
    }

    /// A task modifies an object, of which it has the predictions that the access takes. With an inverse record, it speculates.
    fn modify(
        &mut self,
        task: TaskId,
        object: ObjectId,
        commutes: bool,
        undo: Option<UndoId>,
        assumptions: &mut Assumptions,
    ) -> Result<(), EngineError> {
        let own = self.groups.open_of(task)?;
        let group = self.groups.open(own)?;
        group.timeline.spend();
        if let Some(undo) = undo {
            let modified = self.objects.entry(object);
            let seq = self.undos.add(undo);
            modified.log.tidy(assumptions);
            if commutes {
                let before = modified.reliance.commute(&group.tracked, assumptions);
                let by = group.tracked.clone();
                modified.log.commuted(seq, undo, by, before);
            } else {
                let before = modified.reliance.modify(&group.tracked, assumptions);
                modified.log.modified(seq, undo, before);
            }
            group.act(own, Act::Modified { object, undo, seq }, assumptions);
        } else if !group.tracked.is_empty() {
            let modified = self.objects.entry(object);
            modified.modify_for_good(&group.tracked, &mut self.undos, assumptions);
        }
        Ok(())
    }

    /// What a node depends on of these kinds.
    pub fn deps(
        &self,
        node: Node,
        kinds: Kinds,
        assumptions: &Assumptions,
    ) -> Result<Deps, EngineError> {
        let tracked = self.tracked(node)?;
        let none = Tracked::default();
        Ok(tracked.unwrap_or(&none).exact(kinds, assumptions))
    }

    /// What is remembered of a node: nothing for most objects.
    pub fn tracked(&self, node: Node) -> Result<Option<&Tracked>, EngineError> {
        match node {
            Node::Task(task) => self.groups.tracked(task).map(Some),
            Node::Object(object) => {
                let found = self.objects.get(object);
                Ok(found.map(|found| &found.reliance.tracked))
            }
        }
    }

    /// Whether a node is known and takes events.
    pub fn check_open(&self, node: Node) -> Result<(), EngineError> {
        match node {
            Node::Task(task) => self.groups.open_of(task).map(drop),
            Node::Object(object) => self.objects.check_open(object),
        }
    }

    /// All tasks of a group have ended. Returns the group's checkpoints, with their places.
    pub fn end_group(&mut self, id: GroupId, assumptions: &mut Assumptions) -> Vec<(u64, CkptId)> {
        let Some(group) = self.groups.get_mut(id) else {
            return Vec::new();
        };
        let needless = group.timeline.give_up(id, assumptions);
        if group.timeline.is_settled() {
            self.groups.remove(id);
        }
        needless
    }

    /// The object is no more. Returns its undo records, with their places.
    pub fn forget(
        &mut self,
        object: ObjectId,
        outputs: &Outputs,
        assumptions: &Assumptions,
    ) -> Vec<(u64, UndoId)> {
        let mut records = self.objects.forget(object);
        let groups = &self.groups;
        self.objects.weed(
            |taker| groups.speculates(taker, assumptions),
            |channel, arrival| outputs.is_held(channel, arrival),
        );
        records.retain(|&(seq, undo)| self.undos.take(undo, seq));
        records
    }

    /// Forgets what a group did that nothing can undo any more. Returns the undo records of that,
    /// with their places.
    pub fn settle(&mut self, id: GroupId, assumptions: &mut Assumptions) -> Vec<(u64, UndoId)> {
        let Some(group) = self.groups.get_mut(id) else {
            return Vec::new();
        };
        let settled = group.timeline.settle(id, &group.tracked, assumptions);
        let is_past = group.tasks.is_empty() && group.timeline.is_settled();
        let mut records = Vec::new();
        for act in settled {
            let Act::Modified { object, undo, seq } = act else {
                continue;
            };
            if self.undos.take(undo, seq) {
                records.push((seq, undo));
                self.objects.entry(object).log.settle(seq, assumptions);
                self.objects.tidy(object);
            }
        }
        if is_past {
            self.groups.remove(id);
        }
        records
    }

    pub fn is_live(&self, task: TaskId) -> bool {
        self.groups.of(task).is_ok()
    }

    /// The live tasks, rising.
    pub fn tasks(&self) -> impl ExactSizeIterator<Item = TaskId> + '_ {
        self.groups.tasks()
    }
}
