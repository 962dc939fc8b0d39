//! Tasks and objects, and how dependencies spread among them.

use crate::assumptions::Assumptions;
use crate::deps::{Deps, Tracked};
use crate::effect::{Access, Answer, Effect};
use crate::error::EngineError;
use crate::extents::Extents;
use crate::groups::Groups;
use crate::id::{CkptId, GroupId, Id, Node, ObjectId, TaskId, UndoId};
use crate::kind::{Kind, Kinds};
use crate::objects::Objects;
use crate::outputs::Outputs;
use crate::reliance::Reliance;
use crate::timeline::{Act, Record};
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
                } else if !group.tracked.predictions.contains(id)
                    && !self.gain_one(own, id, assumptions)
                {
                    return Ok(Answer::CheckpointFirst(own));
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
        if !gained.is_empty() && !self.may_gain(own) {
            return Ok(Answer::CheckpointFirst(own).into());
        }
        let group = self.groups.open(own)?;
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
            self.spread_to_modified(own, &gained, assumptions);
            let groups = &self.groups;
            let speculates = |taker| groups.speculates(taker, assumptions);
            self.objects.entry(object).taken(own, speculates);
        }
        if let Some(met) = self.objects.get_mut(object) {
            met.met_by(own);
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
        if let Some(undo) = undo {
            let modified = self.objects.entry(object);
            let seq = self.undos.add(undo);
            modified.records_for(own, assumptions);
            if commutes {
                // Others may commute with it without taking its predictions. So the segment may gain nothing more.
                group.timeline.spend();
                let before = modified.reliance.commute(&group.tracked, assumptions);
                let by = group.tracked.clone();
                modified.log.commuted(seq, undo, by, before);
            } else {
                group.timeline.modify(object, Record { undo, seq });
                let before = modified.reliance.modify(&group.tracked, assumptions);
                modified.log.modified(seq, undo, before);
            }
            group.act(own, Act::Modified { object, undo, seq }, assumptions);
        } else {
            group.timeline.spend();
            if !group.tracked.is_empty() {
                let modified = self.objects.entry(object);
                modified.modify_for_good(&group.tracked, &mut self.undos, assumptions);
            }
        }
        Ok(())
    }

    /// Whether a group may come to depend on further predictions before its next checkpoint: nobody has seen anything of
    /// it since the last one.
    pub fn may_gain(&self, id: GroupId) -> bool {
        let is_unseen = |(object, record): (ObjectId, Record)| {
            let found = self.objects.get(object);
            // Where nothing undoes it any more, a rollback may not reach behind it.
            found.is_some_and(|found| found.sole == Some(id))
                && self.undos.has(record.undo, record.seq)
        };
        let group = self.groups.get(id);
        group.is_some_and(|group| {
            group.timeline.may_gain() && group.timeline.modified().all(is_unseen)
        })
    }

    /// A group comes to depend on a prediction not by way of an object. False if it may not before its next checkpoint.
    pub fn gain_one(&mut self, id: GroupId, prediction: Id, assumptions: &mut Assumptions) -> bool {
        if !self.may_gain(id) {
            return false;
        }
        if let Some(group) = self.groups.get_mut(id) {
            group.gain_one(id, prediction, assumptions);
        }
        let mut gained = Extents::default();
        gained.add(prediction, assumptions.predictions());
        self.spread_to_modified(id, &gained, assumptions);
        true
    }

    /// What a group has modified since its newest checkpoint takes what the group gains: as if it had been modified after
    /// that, for nobody else has seen it.
    fn spread_to_modified(&mut self, id: GroupId, gained: &Extents, assumptions: &Assumptions) {
        let group = self.groups.get(id).into_iter();
        for (object, record) in group.flat_map(|group| group.timeline.modified()) {
            if let Some(found) = self.objects.get_mut(object) {
                found.log.gives(record.seq, &found.reliance);
                found.reliance.gain(gained, assumptions);
            }
        }
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
