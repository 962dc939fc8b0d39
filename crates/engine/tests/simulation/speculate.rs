//! Predictions in the model: what may be guessed, and what a denial takes back.

use std::collections::BTreeSet;

use surmise_engine::{
    Access, CkptId, Effect, EngineError, GroupId, Id, Kind, Node, ObjectId, Owner, PlanId, TaskId,
};

use crate::history::{Entry, What};
use crate::reference::{Reference, Reply};

/// A checkpoint that could be restored, or could until its group ended.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    pub id: CkptId,
    pub group: GroupId,
    /// The entry that tells of it.
    pub entry: usize,
    pub is_live: bool,
}

impl Reference {
    pub fn predict(
        &mut self,
        task: TaskId,
        owner: Owner,
        may_share: bool,
    ) -> Result<Reply, EngineError> {
        let kind = Kind::Prediction;
        if self.over {
            return Err(EngineError::Over);
        }
        if owner == Owner::Person {
            return Err(EngineError::WrongOwner { kind, owner });
        }
        let group = self.open_group(task)?;
        if !may_share || !self.may_gain(group) {
            return Ok(Reply::CheckpointFirst(group));
        }
        self.assumed.all.push((owner, kind));
        let id = Id(self.assumed.all.len() as u64);
        self.note(Some(group), What::Guessed(id));
        Ok(Reply::Guess(id))
    }

    pub fn checkpointed(
        &mut self,
        group: GroupId,
        id: CkptId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        let is_same = |other: &Checkpoint| other.is_live && other.id == id;
        if self.checkpoints.iter().any(is_same) {
            return Err(EngineError::CheckpointExists(id));
        }
        let found = self.state.groups.get(&group);
        let task = found.and_then(|found| found.tasks.first().copied());
        let task = task.ok_or(EngineError::UnknownGroup(group))?;
        if let Some(&plan) = self.closed_groups.get(&group) {
            let node = Node::Task(task);
            return Err(EngineError::RollingBack { node, plan });
        }
        if let Some(newest) = self.newest(group)
            && self
                .gained_under(newest)
                .iter()
                .all(|id| self.decided.contains_key(id))
        {
            effects.push(Effect::DiscardCheckpoint(self.checkpoints[newest].id));
            self.checkpoints.remove(newest);
        }
        self.checkpoints.push(Checkpoint {
            id,
            group,
            entry: self.history.len(),
            is_live: true,
        });
        self.note(Some(group), What::Checkpointed);
        Ok(())
    }

    pub fn rolled_back(&mut self, plan: PlanId) -> Result<(), EngineError> {
        if !self.plans.remove(&plan) {
            return Err(EngineError::UnknownPlan(plan));
        }
        self.closed_groups.retain(|_, by| *by != plan);
        self.closed_objects.retain(|_, by| *by != plan);
        self.leaving.retain(|_, by| *by != plan);
        Ok(())
    }

    pub fn end(&mut self, task: TaskId, effects: &mut Vec<Effect>) -> Result<(), EngineError> {
        if self.leaving.remove(&task).is_some() {
            self.retire(Node::Task(task), effects);
            return Ok(());
        }
        let group = self.group_of(task)?;
        self.note(Some(group), What::Ended(task));
        self.retire(Node::Task(task), effects);
        if !self.state.groups[&group].tasks.is_empty() {
            return Ok(());
        }
        let own = |ckpt: &&mut Checkpoint| ckpt.group == group;
        for ckpt in self.checkpoints.iter_mut().filter(own) {
            ckpt.is_live = false;
            effects.push(Effect::DiscardCheckpoint(ckpt.id));
        }
        Ok(())
    }

    pub fn merge(
        &mut self,
        one: TaskId,
        other: TaskId,
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, EngineError> {
        let (first, second) = (self.open_group(one)?, self.open_group(other)?);
        if first == second {
            return Ok(Reply::Merged(first));
        }
        for (task, group) in [(one, first), (other, second)] {
            if self.speculates(group) {
                return Ok(Reply::WaitFirst(task));
            }
        }
        let (into, from) = (first.min(second), first.max(second));
        self.checkpoints.retain(|ckpt| {
            let is_theirs = [into, from].contains(&ckpt.group);
            if is_theirs {
                effects.push(Effect::DiscardCheckpoint(ckpt.id));
            }
            !is_theirs
        });
        self.note(None, What::Merged { into, from });
        Ok(Reply::Merged(into))
    }

    /// Whether the group's newest checkpoint may be that of a further prediction: nobody has seen
    /// anything of the group since.
    pub fn may_gain(&self, group: GroupId) -> bool {
        let Some(newest) = self.newest(group) else {
            return false;
        };
        let unseen = self.unseen(group);
        (self.checkpoints[newest].entry..self.history.len()).all(|at| {
            let entry = &self.history[at];
            let spends = entry.what.is_visible() || matches!(entry.what, What::Ended(_));
            let is_unseen = || unseen.iter().any(|&(unseen, _)| unseen == at);
            entry.by != Some(group) || entry.undone || !spends || is_unseen()
        })
    }

    /// The modifications since the group's newest checkpoint that may be undone, of objects that nobody else has met.
    pub fn unseen(&self, group: GroupId) -> Vec<(usize, ObjectId)> {
        let Some(newest) = self.newest(group) else {
            return Vec::new();
        };
        let since = self.checkpoints[newest].entry..self.history.len();
        let of_object = |at: usize| match self.history[at].what {
            What::Accessed {
                object,
                access: Access::Modify(Some(undo)) | Access::Both(Some(undo)),
                ..
            } => (self.undos.get(&undo) == Some(&at)).then_some((at, object)),
            _ => None,
        };
        since
            .filter(|&at| self.history[at].by == Some(group) && !self.history[at].undone)
            .filter_map(of_object)
            .filter(|(_, object)| self.sole.get(object) == Some(&group))
            .collect()
    }

    /// Whether something of an object may be undone.
    pub fn has_records(&self, object: ObjectId) -> bool {
        let mut records = self.undos.values();
        let is_of = |at: &usize| matches!(self.history[*at].what, What::Accessed { object: of, .. } if of == object);
        let forgotten = |entry: &Entry| matches!(entry.what, What::Forgot(of) if of == object);
        let since = self.history.iter().rposition(forgotten).unwrap_or(0);
        let was_given = |entry: &Entry| match entry.what {
            What::Depended(Node::Object(of), id) => of == object && self.is_open_prediction(id),
            _ => false,
        };
        records.any(is_of) || self.history[since..].iter().any(was_given)
    }

    pub fn speculates(&self, group: GroupId) -> bool {
        let mut relies = self.state.groups[&group].relies.iter();
        relies.any(|&id| self.is_open_prediction(id))
    }

    pub fn is_open_prediction(&self, id: Id) -> bool {
        self.kind(id) == Kind::Prediction && !self.decided.contains_key(&id)
    }

    /// The place of the group's newest live checkpoint.
    fn newest(&self, group: GroupId) -> Option<usize> {
        let is_own = |ckpt: &Checkpoint| ckpt.group == group && ckpt.is_live;
        self.checkpoints.iter().rposition(is_own)
    }

    /// The predictions that would restore a checkpoint, decided or not.
    fn gained_under(&self, ckpt: usize) -> BTreeSet<Id> {
        let own = &self.checkpoints[ckpt];
        let mut later = self.checkpoints[ckpt + 1..].iter();
        let next = later.find(|other| other.group == own.group && other.is_live);
        let until = next.map_or(usize::MAX, |next| next.entry);
        let gained = self.state.groups[&own.group].gained.iter();
        let gained = gained
            .filter(|&&(at, id)| own.entry < at && at < until && self.kind(id) == Kind::Prediction);
        gained.map(|&(_, id)| id).collect()
    }

    /// Tells what no undecided prediction needs any more.
    pub fn discard_needless(&mut self, effects: &mut Vec<Effect>) {
        let places = (0..self.checkpoints.len()).filter(|&place| self.checkpoints[place].is_live);
        let needless: BTreeSet<_> = places
            .filter(|&place| {
                let gained = self.gained_under(place);
                !gained.is_empty() && gained.iter().all(|id| self.decided.contains_key(id))
            })
            .map(|place| self.checkpoints[place].id)
            .collect();
        self.checkpoints.retain(|ckpt| {
            let is_needless = ckpt.is_live && needless.contains(&ckpt.id);
            if is_needless {
                effects.push(Effect::DiscardCheckpoint(ckpt.id));
            }
            !is_needless
        });
        let mut records: Vec<_> = self
            .undos
            .iter()
            .map(|(&undo, &entry)| (entry, undo))
            .collect();
        records.sort_unstable();
        for (entry, undo) in records {
            let mut relied = self.state.relied[&entry].iter();
            if !relied.any(|&id| self.is_open_prediction(id)) {
                self.undos.remove(&undo);
                effects.push(Effect::DiscardUndo(undo));
            }
        }
    }
}

/// Who takes events.
impl Reference {
    pub fn group_of(&self, task: TaskId) -> Result<GroupId, EngineError> {
        let node = Node::Task(task);
        self.state.of(task).ok_or(match self.leaving.get(&task) {
            Some(&plan) => EngineError::RollingBack { node, plan },
            None => EngineError::UnknownTask(task),
        })
    }

    pub fn open_group(&self, task: TaskId) -> Result<GroupId, EngineError> {
        let group = self.group_of(task)?;
        let node = Node::Task(task);
        match self.closed_groups.get(&group) {
            Some(&plan) => Err(EngineError::RollingBack { node, plan }),
            None => Ok(group),
        }
    }

    pub fn open(&self, node: Node) -> Result<(), EngineError> {
        match node {
            Node::Task(task) => self.open_group(task).map(drop),
            Node::Object(object) => match self.closed_objects.get(&object) {
                Some(&plan) => Err(EngineError::RollingBack { node, plan }),
                None => Ok(()),
            },
        }
    }

    /// A number is free if no task has it, and no plan is to end one that has.
    pub fn check_new(&self, task: TaskId) -> Result<(), EngineError> {
        let is_known = self.state.of(task).is_some() || self.leaving.contains_key(&task);
        (!is_known)
            .then_some(())
            .ok_or(EngineError::TaskExists(task))
    }
}
