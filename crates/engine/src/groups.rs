//! Groups: the lives of tasks, each with its memory, and what they depend on. A group has one task, or several that share
//! what nobody tracks.

use std::collections::{BTreeMap, BTreeSet};

use crate::assumptions::{Assumptions, Dependent};
use crate::deps::Tracked;
use crate::effect::Merged;
use crate::error::EngineError;
use crate::extents::Extents;
use crate::id::{CkptId, GroupId, Id, Node, PlanId, TaskId};
use crate::kind::Kind;
use crate::timeline::{Act, Segment, Timeline};

/// The groups of live tasks, and those that have ended and left something that may be undone.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    next: u64,
    groups: BTreeMap<GroupId, Group>,
    tasks: BTreeMap<TaskId, GroupId>,
    /// Tasks that a plan which is not yet carried out ends.
    leaving: BTreeMap<TaskId, PlanId>,
}

#[derive(Debug)]
pub(crate) struct Group {
    /// Its live tasks; none once all have ended. Nothing brings them back.
    pub tasks: BTreeSet<TaskId>,
    pub tracked: Tracked,
    pub timeline: Timeline,
    /// The newest plan that concerns it and is not yet carried out.
    pub closed: Option<PlanId>,
}

impl Group {
    /// Whether it depends on an undecided prediction.
    pub fn speculates(&self, assumptions: &Assumptions) -> bool {
        self.tracked.has_prediction(assumptions)
    }

    /// It comes to depend on a prediction not by way of an object; its timeline may gain.
    pub fn gain_one(&mut self, own: GroupId, id: Id, assumptions: &mut Assumptions) {
        let mut gained = Extents::default();
        gained.add(id, assumptions.predictions());
        self.tracked.add(id, Kind::Prediction, assumptions);
        self.timeline.gain(own, &gained, assumptions);
        assumptions.note_dependent(id, Dependent::Group(own));
    }

    /// It does something, while it speculates, that a rollback takes back.
    pub fn act(&mut self, id: GroupId, act: Act, assumptions: &mut Assumptions) {
        self.timeline.act(act);
        if self.timeline.is_unwatched() {
            let settled = self.timeline.settle(id, &self.tracked, assumptions);
            assert!(
                settled.is_empty(),
                "an act that depends on something is settled"
            );
        }
    }
}

impl Groups {
    /// A new task, and its group.
    pub fn spawn(
        &mut self,
        parent: Option<TaskId>,
        child: TaskId,
        assumptions: &mut Assumptions,
    ) -> Result<(), EngineError> {
        let parent = parent.map(|parent| self.open_of(parent)).transpose()?;
        self.check_new(child)?;
        self.next += 1;
        let id = GroupId(self.next);
        let mut tracked = Tracked::default();
        if let Some(parent) = parent {
            let born_of = self.groups.get_mut(&parent).expect("a live task's group");
            tracked.take(&born_of.tracked, assumptions);
            born_of.timeline.spend();
            if !tracked.predictions.is_empty() {
                born_of.act(parent, Act::Bore(id), assumptions);
            }
        }
        let timeline = Timeline::new(&tracked.predictions);
        let group = Group {
            tasks: BTreeSet::from([child]),
            tracked,
            timeline,
            closed: None,
        };
        self.groups.insert(id, group);
        self.tasks.insert(child, id);
        Ok(())
    }

    /// A task has ended. Returns its group if that ends with it. If a plan has ended the group already, it does not.
    pub fn end(&mut self, task: TaskId) -> Result<Option<GroupId>, EngineError> {
        if self.leaving.remove(&task).is_some() {
            return Ok(None);
        }
        let id = self.tasks.remove(&task);
        let id = id.ok_or(EngineError::UnknownTask(task))?;
        if let Some(group) = self.groups.get_mut(&id) {
            group.tasks.remove(&task);
            if !group.tasks.is_empty() {
                // No checkpoint of before brings the task back.
                group.timeline.spend_all();
                return Ok(None);
            }
        }
        Ok(Some(id))
    }

    /// Makes the groups of two tasks one, if neither depends on an undecided prediction. Returns the checkpoints that
    /// nothing needs any more, with their places.
    pub fn merge(
        &mut self,
        one: TaskId,
        other: TaskId,
        assumptions: &mut Assumptions,
    ) -> Result<(Merged, Vec<(u64, CkptId)>), EngineError> {
        let tasks = [(one, self.open_of(one)?), (other, self.open_of(other)?)];
        let [own, gone] = tasks.map(|(_, group)| group);
        if own == gone {
            return Ok((Merged::Go(own), Vec::new()));
        }
        let waited = tasks
            .iter()
            .find(|&&(_, id)| self.speculates(id, assumptions));
        if let Some(&(task, _)) = waited {
            return Ok((Merged::WaitFirst(task), Vec::new()));
        }
        let (own, gone) = (own.min(gone), own.max(gone));
        let mut from = self.groups.remove(&gone).expect("a live task's group");
        let into = self.groups.get_mut(&own).expect("a live task's group");
        let mut needless = into.timeline.give_up(own, assumptions);
        needless.extend(from.timeline.give_up(gone, assumptions));
        needless.sort_unstable();
        assert!(
            into.timeline.is_settled() && from.timeline.is_settled(),
            "a group that depends on nothing has acts that may be undone"
        );
        into.timeline = Timeline::new(&Extents::default());
        into.tracked.take(&from.tracked, assumptions);
        for &task in &from.tasks {
            self.tasks.insert(task, own);
        }
        into.tasks.append(&mut from.tasks);
        Ok((Merged::Go(own), needless))
    }

    /// Forgets a group.
    pub fn remove(&mut self, id: GroupId) -> Option<Group> {
        self.groups.remove(&id)
    }

    /// A plan destroys a task, and with it its group.
    pub fn leave(&mut self, task: TaskId, plan: PlanId) {
        self.tasks.remove(&task);
        self.leaving.insert(task, plan);
    }

    /// A plan is carried out for this group.
    pub fn reopen(&mut self, id: GroupId, plan: PlanId) {
        if let Some(group) = self.groups.get_mut(&id)
            && group.closed == Some(plan)
        {
            group.closed = None;
        }
    }

    /// All that a plan ends has ended.
    pub fn left(&mut self, task: TaskId, plan: PlanId) {
        if self.leaving.get(&task) == Some(&plan) {
            self.leaving.remove(&task);
        }
    }

    pub fn get(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(&id)
    }

    pub fn get_mut(&mut self, id: GroupId) -> Option<&mut Group> {
        self.groups.get_mut(&id)
    }

    /// Whether there is such a group, and it depends on an undecided prediction.
    pub fn speculates(&self, id: GroupId, assumptions: &Assumptions) -> bool {
        let found = self.groups.get(&id);
        found.is_some_and(|found| found.speculates(assumptions))
    }

    /// The group of a live task, if it takes events.
    pub fn open(&mut self, id: GroupId) -> Result<&mut Group, EngineError> {
        let unknown = EngineError::UnknownGroup(id);
        let group = self.groups.get_mut(&id).ok_or(unknown)?;
        let node = Node::Task(*group.tasks.first().ok_or(unknown)?);
        match group.closed {
            None => Ok(group),
            Some(plan) => Err(EngineError::RollingBack { node, plan }),
        }
    }

    /// The group of a live task, whether it takes events or not.
    pub fn of(&self, task: TaskId) -> Result<GroupId, EngineError> {
        let found = self.tasks.get(&task).copied();
        found.ok_or(match self.leaving.get(&task) {
            Some(&plan) => EngineError::RollingBack {
                node: Node::Task(task),
                plan,
            },
            None => EngineError::UnknownTask(task),
        })
    }

    /// The group of a live task that takes events.
    pub fn open_of(&self, task: TaskId) -> Result<GroupId, EngineError> {
        let id = self.of(task)?;
        match self.groups[&id].closed {
            None => Ok(id),
            Some(plan) => Err(EngineError::RollingBack {
                node: Node::Task(task),
                plan,
            }),
        }
    }

    /// What a live task depends on.
    pub fn tracked(&self, task: TaskId) -> Result<&Tracked, EngineError> {
        Ok(&self.groups[&self.of(task)?].tracked)
    }

    /// The live tasks, rising.
    pub fn tasks(&self) -> impl ExactSizeIterator<Item = TaskId> + '_ {
        self.tasks.keys().copied()
    }

    fn check_new(&self, task: TaskId) -> Result<(), EngineError> {
        if self.tasks.contains_key(&task) || self.leaving.contains_key(&task) {
            return Err(EngineError::TaskExists(task));
        }
        Ok(())
    }
}

/// What checkpoints a group has.
impl Groups {
    /// The group has a new checkpoint. Returns the one before, if nothing ever needed it.
    pub fn checkpointed(
        &mut self,
        id: GroupId,
        ckpt: CkptId,
        serial: u64,
        assumptions: &Assumptions,
    ) -> Result<Option<CkptId>, EngineError> {
        let group = self.open(id)?;
        let mut before = Tracked::default();
        before.take(&group.tracked, assumptions);
        let segment = Segment::new(serial, ckpt, before);
        Ok(group.timeline.begin(segment))
    }
}
