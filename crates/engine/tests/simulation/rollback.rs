//! What a denial takes back, in the model.

use std::collections::{BTreeMap, BTreeSet};

use surmise_engine::{
    Decision, Effect, GroupId, Id, Node, ObjectId, Plan, PlanId, Step, TaskId, UndoId,
};

use crate::history::{What, replay};
use crate::reference::Reference;

/// A group that is taken back, with its tasks until then.
type Victim = (GroupId, BTreeSet<TaskId>);

/// What a denial takes back.
#[derive(Default)]
struct Taken {
    /// The denied one, and those that are withdrawn.
    denied: BTreeSet<Id>,
    /// Where each dependent group is taken back to.
    cuts: BTreeMap<GroupId, usize>,
}

impl Reference {
    /// Takes back all that depends on a prediction, until nothing is left that does.
    pub fn deny(&mut self, id: Id, effects: &mut Vec<Effect>) {
        let taken = self.taken(id);
        self.check_taken(&taken);
        self.drop_undone(&taken, effects);

        let before = self.state.clone();
        let live: Vec<_> = before
            .groups
            .iter()
            .filter(|(_, found)| !found.tasks.is_empty())
            .map(|(&group, found)| (group, found.tasks.clone()))
            .collect();
        let undone: Vec<_> = (0..self.history.len())
            .filter(|&at| self.is_taken(at, &taken))
            .collect();
        for &at in &undone {
            self.history[at].undone = true;
        }
        let objects = self.undone_objects(&undone, &taken);
        let undos: BTreeMap<_, _> = undone
            .iter()
            .filter_map(|&at| {
                let undo = self.history[at].what.undo()?;
                (self.undos.get(&undo) == Some(&at)).then_some((at, undo))
            })
            .collect();
        self.undos.retain(|_, entry| !undos.contains_key(entry));
        for &id in &taken.denied {
            self.set_decided(id, Decision::Deny);
        }
        self.state = replay(&self.history, &self.assumed);
        let victims: Vec<_> = live
            .into_iter()
            .filter(|(group, _)| taken.cuts.contains_key(group))
            .collect();
        self.end_waits_of(&victims, effects);
        for &id in taken.denied.iter().filter(|&&other| other != id) {
            self.withdrawn.insert(id);
            effects.push(Effect::Withdrawn(id));
        }
        self.plan(&victims, &objects, undos, &taken, effects);
        self.check_seen();
    }

    /// Whom a denial takes back, and how far: found by trying again until nothing changes.
    fn taken(&self, id: Id) -> Taken {
        let mut taken = Taken {
            denied: BTreeSet::from([id]),
            ..Taken::default()
        };
        loop {
            let mut grown = taken.denied.clone();
            for (&group, found) in &self.state.groups {
                let gained = found.gained.iter();
                let first = gained
                    .filter(|(_, id)| taken.denied.contains(id))
                    .map(|&(at, _)| at)
                    .min();
                if let Some(first) = first {
                    let own = self.checkpoints.iter().filter(|ckpt| ckpt.group == group);
                    let before = own
                        .map(|ckpt| ckpt.entry)
                        .filter(|&entry| entry < first)
                        .max();
                    // Without a checkpoint it was born so.
                    taken.cuts.insert(group, before.unwrap_or(0));
                }
            }
            for (at, entry) in self.history.iter().enumerate() {
                if let What::Assumed(id) | What::Guessed(id) = entry.what
                    && self.is_taken(at, &taken)
                    && self.is_open_prediction(id)
                {
                    grown.insert(id);
                }
            }
            if grown == taken.denied {
                return taken;
            }
            taken.denied = grown;
        }
    }

    fn is_taken(&self, at: usize, taken: &Taken) -> bool {
        let entry = &self.history[at];
        let cut = entry.by.and_then(|by| taken.cuts.get(&by));
        // A task that has ended stays so.
        let is_final = matches!(entry.what, What::Ended(_));
        !entry.undone && !is_final && cut.is_some_and(|&cut| cut <= at)
    }

    /// What others can see is undone if it depends on what is denied, and only then.
    fn check_taken(&self, taken: &Taken) {
        for (at, entry) in self
            .history
            .iter()
            .enumerate()
            .filter(|(_, entry)| !entry.undone)
        {
            if let (true, Some(relied)) = (entry.what.is_visible(), self.state.relied.get(&at)) {
                let depends = !relied.is_disjoint(&taken.denied);
                assert_eq!(depends, self.is_taken(at, taken), "{at}: {entry:?}");
            }
        }
    }

    /// Nobody who is not undone has seen what is.
    fn check_seen(&self) {
        for entry in self.history.iter().filter(|entry| !entry.undone) {
            if let What::Accessed { saw, .. } = &entry.what {
                let is_undone = saw.iter().any(|&saw| self.history[saw].undone);
                assert!(!is_undone, "{entry:?} saw what is undone");
            }
        }
    }

    fn drop_undone(&mut self, taken: &Taken, effects: &mut Vec<Effect>) {
        let outputs = std::mem::take(&mut self.outputs);
        for held in outputs {
            let depends = !held.relied.is_disjoint(&taken.denied);
            let by_task = self.history[held.entry].by.is_some();
            assert!(!by_task || depends == self.is_taken(held.entry, taken));
            if depends {
                effects.push(Effect::Drop(held.hold));
            } else {
                self.outputs.push(held);
            }
        }
    }

    /// The objects of which something is undone.
    fn undone_objects(&self, undone: &[usize], taken: &Taken) -> BTreeSet<ObjectId> {
        let mut objects = BTreeSet::new();
        for (at, entry) in self.history.iter().enumerate() {
            match entry.what {
                What::Forgot(object) => drop(objects.remove(&object)),
                What::Accessed { object, .. }
                    if undone.contains(&at) && entry.what.undo().is_some() =>
                {
                    objects.insert(object);
                }
                What::Depended(Node::Object(object), id) if taken.denied.contains(&id) => {
                    objects.insert(object);
                }
                _ => {}
            }
        }
        objects
    }

    fn end_waits_of(&mut self, victims: &[Victim], effects: &mut Vec<Effect>) {
        let is_victim = |node| match node {
            Node::Task(task) => victims.iter().any(|(_, tasks)| tasks.contains(&task)),
            Node::Object(_) => false,
        };
        self.edges.retain(|&node, _| !is_victim(node));
        self.end_waits(effects, is_victim);
    }

    fn is_alive(&self, group: GroupId) -> bool {
        let found = self.state.groups.get(&group);
        found.is_some_and(|found| !found.tasks.is_empty())
    }

    fn plan(
        &mut self,
        victims: &[Victim],
        objects: &BTreeSet<ObjectId>,
        undos: BTreeMap<usize, UndoId>,
        taken: &Taken,
        effects: &mut Vec<Effect>,
    ) {
        let restored = || victims.iter().filter(|(group, _)| self.is_alive(*group));
        let destroyed = || victims.iter().filter(|(group, _)| !self.is_alive(*group));
        let youngest = destroyed().rev();
        let mut steps: Vec<_> = youngest.map(|&(group, _)| Step::Destroy(group)).collect();
        steps.extend(restored().map(|&(group, _)| Step::Stop(group)));
        steps.extend(undos.into_values().rev().map(Step::Undo));
        let mut used = BTreeSet::new();
        for &(group, _) in restored() {
            let cut = taken.cuts[&group];
            let to = self
                .checkpoints
                .iter()
                .find(|ckpt| ckpt.group == group && ckpt.entry == cut);
            let to = to.expect("a group is restored to a checkpoint").id;
            used.insert(to);
            steps.push(Step::Restore { group, to });
        }
        steps.extend(restored().map(|&(group, _)| Step::Resume(group)));
        if !steps.is_empty() {
            let leaving: Vec<_> = destroyed().flat_map(|(_, tasks)| tasks.clone()).collect();
            self.plans_made += 1;
            let plan = PlanId(self.plans_made);
            self.plans.insert(plan);
            self.leaving
                .extend(leaving.into_iter().map(|task| (task, plan)));
            self.closed_groups
                .extend(victims.iter().map(|&(group, _)| (group, plan)));
            self.closed_objects
                .extend(objects.iter().map(|&object| (object, plan)));
            effects.push(Effect::Plan(Plan { id: plan, steps }));
        }
        let history = &self.history;
        self.checkpoints.retain(|ckpt| {
            let is_undone = history[ckpt.entry].undone;
            if is_undone && ckpt.is_live && !used.contains(&ckpt.id) {
                effects.push(Effect::DiscardCheckpoint(ckpt.id));
            }
            !is_undone
        });
    }
}
