//! What the shell would have: the objects' values, and what the engine's numbers stand for.

use std::collections::{BTreeMap, BTreeSet};

use surmise_engine::{Access, CkptId, Effect, GroupId, ObjectId, Step, UndoId};

use crate::history::Value;
use crate::reference::Reference;

/// What an inverse record does.
#[derive(Debug, PartialEq, Eq)]
enum Inverse {
    /// The object becomes what it was.
    Restore(Value),
    /// What the entry of this number did is taken out of what it is now.
    TakeOut(usize),
}

/// A shell that carries out what it is told, on numbers for values.
#[derive(Default)]
pub struct World {
    values: BTreeMap<ObjectId, Value>,
    records: BTreeMap<UndoId, (ObjectId, Inverse)>,
    checkpoints: BTreeMap<CkptId, GroupId>,
    closed: BTreeSet<GroupId>,
}

impl World {
    /// An access happens, as the entry of this number.
    pub fn access(&mut self, object: ObjectId, access: Access, entry: usize) {
        let value = self.values.entry(object).or_default();
        let (undo, inverse) = match access {
            Access::Observe => return,
            Access::Modify(undo) | Access::Both(undo) => (undo, Inverse::Restore(value.clone())),
            Access::Commute(undo) => (undo, Inverse::TakeOut(entry)),
        };
        value.modify(access, entry);
        if let Some(undo) = undo {
            let other = self.records.insert(undo, (object, inverse));
            assert_eq!(other, None, "{undo} is forgotten");
        }
    }

    pub fn checkpointed(&mut self, group: GroupId, ckpt: CkptId) {
        let other = self.checkpoints.insert(ckpt, group);
        assert_eq!(other, None, "{ckpt} is forgotten");
    }

    pub fn forget(&mut self, object: ObjectId) {
        self.values.remove(&object);
    }

    /// Each checkpoint and undo record is used or discarded once, and a plan is in order.
    pub fn carry_out(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::DiscardCheckpoint(ckpt) => {
                    let found = self.checkpoints.remove(ckpt);
                    assert!(found.is_some(), "{ckpt} is discarded twice");
                }
                Effect::DiscardUndo(undo) => {
                    let found = self.records.remove(undo);
                    assert!(found.is_some(), "{undo} is discarded twice");
                }
                Effect::Plan(plan) => {
                    self.closed.clear();
                    let rank = |step: &Step| match step {
                        Step::Destroy(_) => 0,
                        Step::Stop(_) => 1,
                        Step::Undo(_) => 2,
                        Step::Restore { .. } => 3,
                        Step::Resume(_) => 4,
                    };
                    assert!(plan.steps.is_sorted_by_key(rank), "{plan:?}");
                    plan.steps.iter().for_each(|step| self.take(step));
                    assert!(self.closed.is_empty(), "not all go on: {plan:?}");
                }
                _ => {}
            }
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Destroy(_) => {}
            Step::Stop(group) => assert!(self.closed.insert(*group)),
            Step::Restore { group, to, .. } => {
                assert_eq!(self.checkpoints.remove(to), Some(*group), "{to}");
                assert!(
                    self.closed.contains(group),
                    "{group} runs while it is restored"
                );
            }
            Step::Undo(undo) => {
                let found = self.records.remove(undo);
                let (object, inverse) = found.expect("a record is undone twice");
                let value = self.values.entry(object).or_default();
                match inverse {
                    Inverse::Restore(before) => *value = before,
                    Inverse::TakeOut(entry) => {
                        assert!(value.commuted.remove(&entry), "{undo} finds nothing");
                    }
                }
            }
            Step::Resume(group) => assert!(self.closed.remove(group)),
        }
    }

    /// Every object is as if what is undone had never happened.
    pub fn check(&self, model: &Reference) {
        let objects = self.values.keys().chain(model.state.objects.keys());
        for object in objects {
            let value = self.values.get(object).cloned().unwrap_or_default();
            let found = model.state.objects.get(object);
            let wanted = found.map(|found| found.value.clone()).unwrap_or_default();
            assert_eq!(value, wanted, "{object}");
        }
    }

    /// Nothing is kept for ever.
    pub fn check_empty(&self) {
        assert!(self.records.is_empty(), "left: {:?}", self.records);
        assert!(self.checkpoints.is_empty(), "left: {:?}", self.checkpoints);
    }
}
