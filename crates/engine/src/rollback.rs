//! What one denial takes back: everybody who depends on it, found by the ways that it spread.
//!
//! A prediction begins with the group that it was made for and with whom [`crate::Engine::depend`]
//! named. From a group it went to the objects that it modified, the groups that it bore and what it
//! put out since; from an object, to the groups that took something from it. Each way is walked
//! only where the denied prediction went, so bystanders cost nothing. What undone code had assumed
//! in turn is withdrawn, and followed alike.

use std::collections::{BTreeMap, BTreeSet};

use crate::assumptions::{Assumptions, Dependent};
use crate::id::{ChannelId, CkptId, GroupId, Id, Node, ObjectId, PlanId, TaskId, UndoId};
use crate::nodes::Nodes;
use crate::outputs::{Leaving, Outputs};
use crate::plan::Step;
use crate::timeline::{Act, Undone};

/// All that one denial takes back.
#[derive(Debug, Default)]
pub(crate) struct Cascade {
    /// The denied prediction, and those that are withdrawn by that.
    pub predictions: BTreeSet<Id>,
    pub groups: BTreeMap<GroupId, Fate>,
    /// The objects of which something is undone, with the place of the first of it.
    pub objects: BTreeMap<ObjectId, u64>,
    /// The records to be applied, by their places.
    pub undos: BTreeMap<u64, UndoId>,
    pub dropped: Leaving,
    /// The channels of what is dropped.
    pub channels: BTreeSet<ChannelId>,
    /// The checkpoints of undone code, by their places.
    pub needless: BTreeMap<u64, CkptId>,
}

/// What becomes of the group of live tasks.
#[derive(Debug)]
pub(crate) struct Fate {
    /// The checkpoint to be restored, with its place; none if the group is destroyed.
    pub to: Option<(u64, CkptId)>,
    /// Its tasks.
    pub tasks: Vec<TaskId>,
}

/// Takes back all that depends on an undecided prediction, which stays undecided for now.
pub(crate) fn cascade(
    denied: Id,
    nodes: &mut Nodes,
    outputs: &mut Outputs,
    assumptions: &mut Assumptions,
) -> Cascade {
    let mut walk = Walk {
        nodes,
        outputs,
        assumptions,
        cascade: Cascade::default(),
        due: vec![denied],
    };
    while let Some(id) = walk.due.pop() {
        if walk.cascade.predictions.insert(id) {
            walk.follow(id);
        }
    }
    let Walk { cascade, .. } = walk;
    for (&object, &first) in &cascade.objects {
        let found = nodes.objects.entry(object);
        if let Some(reliance) = found.log.restore(first, assumptions) {
            found.reliance = reliance;
        }
        nodes.objects.tidy(object);
    }
    cascade
}

struct Walk<'a> {
    nodes: &'a mut Nodes,
    outputs: &'a mut Outputs,
    assumptions: &'a mut Assumptions,
    cascade: Cascade,
    /// Predictions to follow.
    due: Vec<Id>,
}

impl Walk<'_> {
    fn follow(&mut self, id: Id) {
        let mut open: Vec<_> = self.assumptions.dependents(id).collect();
        for &dependent in &open {
            if let Dependent::Object(object) = dependent
                && let Some(found) = self.nodes.objects.get_mut(object)
                && let Some(seq) = found.log.ungive(id)
            {
                self.note_undone(object, seq);
            }
        }
        let mut met = BTreeSet::new();
        while let Some(dependent) = open.pop() {
            match dependent {
                Dependent::Group(group) => self.undo_group(group, id, &mut open),
                Dependent::Object(object) if met.insert(object) => {
                    self.visit_object(object, id, &mut open);
                }
                Dependent::Object(_) => {}
            }
        }
    }

    /// Takes a group back to where it did not depend on `id`.
    fn undo_group(&mut self, id: GroupId, denied: Id, open: &mut Vec<Dependent>) {
        let Some(group) = self.nodes.groups.get_mut(id) else {
            return;
        };
        if !group.tracked.predictions.contains(denied) {
            return;
        }
        let Undone { to, needless, acts } = group.timeline.undo(id, denied, self.assumptions);
        self.cascade.needless.extend(needless);
        group.tracked = to.before;
        for act in acts {
            self.undo_act(act, open);
        }
        let Some(group) = self.nodes.groups.get(id) else {
            return;
        };
        if group.tasks.is_empty() {
            if group.timeline.is_settled() {
                self.nodes.groups.remove(id);
            }
            return;
        }
        let tasks = group.tasks.iter().copied().collect();
        let fate = Fate { to: None, tasks };
        let fate = self.cascade.groups.entry(id).or_insert(fate);
        // One that is taken back again, further, needs only the older checkpoint.
        let to = to.ckpt.map(|ckpt| (to.serial, ckpt));
        let before = std::mem::replace(&mut fate.to, to);
        self.cascade.needless.extend(before);
    }

    fn undo_act(&mut self, act: Act, open: &mut Vec<Dependent>) {
        match act {
            Act::Modified { object, undo, seq } => {
                // The record is gone if the object was forgotten; its takers are not.
                if self.nodes.undos.take(undo, seq) {
                    self.cascade.undos.insert(seq, undo);
                    self.nodes.objects.entry(object).log.undo(seq);
                    self.note_undone(object, seq);
                }
                open.push(Dependent::Object(object));
            }
            Act::Output { channel, arrival } => self.drop_output(channel, arrival),
            Act::Bore(child) => open.push(Dependent::Group(child)),
            Act::Assumed(id) if self.assumptions.predictions().contains(&id) => self.due.push(id),
            Act::Assumed(_) => {}
        }
    }

    fn visit_object(&mut self, object: ObjectId, denied: Id, open: &mut Vec<Dependent>) {
        let Some(found) = self.nodes.objects.get(object) else {
            return;
        };
        open.extend(found.takers().map(Dependent::Group));
        let outputs: Vec<_> = found.outputs().collect();
        for (channel, arrival) in outputs {
            if self.outputs.depends(channel, arrival, denied) {
                self.drop_output(channel, arrival);
            }
        }
    }

    fn note_undone(&mut self, object: ObjectId, seq: u64) {
        let first = self.cascade.objects.entry(object).or_insert(seq);
        *first = seq.min(*first);
    }

    fn drop_output(&mut self, channel: ChannelId, arrival: u64) {
        let dropped = &mut self.cascade.dropped;
        self.outputs.drop_held(channel, arrival, dropped);
        self.cascade.channels.insert(channel);
    }
}

impl Cascade {
    /// Makes the groups what they are after the plan, and closes them and the objects. Returns the
    /// steps, and the tasks that the plan ends.
    pub fn carry_out(&self, plan: PlanId, nodes: &mut Nodes) -> (Vec<Step>, Vec<TaskId>) {
        let mut leaving = Vec::new();
        let destroyed = self
            .groups
            .iter()
            .rev()
            .filter(|(_, fate)| fate.to.is_none());
        let mut steps: Vec<_> = destroyed.map(|(&id, _)| Step::Destroy(id)).collect();
        let restored = || {
            let restored = self.groups.iter();
            restored.filter_map(|(&id, fate)| Some((id, fate.to?.1)))
        };
        steps.extend(restored().map(|(id, _)| Step::Stop(id)));
        steps.extend(self.undos.values().rev().map(|&undo| Step::Undo(undo)));
        steps.extend(restored().map(|(group, to)| Step::Restore { group, to }));
        steps.extend(restored().map(|(id, _)| Step::Resume(id)));
        if steps.is_empty() {
            return (steps, leaving);
        }
        for (&id, fate) in &self.groups {
            match (fate.to, nodes.groups.get_mut(id)) {
                (Some(_), Some(group)) => group.closed = Some(plan),
                _ => {
                    for &task in &fate.tasks {
                        nodes.groups.leave(task, plan);
                        leaving.push(task);
                    }
                    nodes.groups.remove(id);
                }
            }
        }
        for &object in self.objects.keys() {
            nodes.objects.entry(object).closed = Some(plan);
        }
        (steps, leaving)
    }

    /// The tasks whose waits end.
    pub fn tasks(&self) -> impl Iterator<Item = Node> + '_ {
        let tasks = self.groups.values().flat_map(|fate| &fate.tasks);
        tasks.copied().map(Node::Task)
    }
}
