//! Objects: what they depend on, and who took something from them.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use crate::assumptions::{Assumptions, Dependent};
use crate::deps::Tracked;
use crate::error::EngineError;
use crate::id::{ChannelId, GroupId, Id, Node, ObjectId, PlanId, UndoId};
use crate::kind::Kind;
use crate::reliance::Reliance;
use crate::undo::{UndoLog, Undos};

/// The objects that have something to remember. There may be a million; their order is never
/// looked at.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    objects: HashMap<ObjectId, Object, BuildHasherDefault<DefaultHasher>>,
    /// Forgotten ones that are still ways by which predictions went.
    forgotten: VecDeque<ObjectId>,
}

/// An object; one that equals the default is as good as absent.
#[derive(Debug, Default)]
pub(crate) struct Object {
    pub reliance: Reliance,
    pub log: UndoLog,
    /// The newest plan that concerns it and is not yet carried out.
    pub closed: Option<PlanId>,
    /// The one group that has met it since its undo log was empty: all records in the log are that group's.
    pub sole: Option<GroupId>,
    /// Where its predictions went; most objects are met by one group only.
    spread: Option<Box<Spread>>,
}

/// Where the predictions of an object went.
#[derive(Debug, Default)]
struct Spread {
    /// The groups that came to depend on predictions by way of it, perhaps long ago.
    takers: Crowd<GroupId>,
    /// What was put out in its name while it depended on predictions; likewise.
    outputs: Crowd<(ChannelId, u64)>,
}

/// Members that mean nothing after a while. They are weeded out as often as their number doubles.
#[derive(Debug)]
struct Crowd<T> {
    members: BTreeSet<T>,
    weed_at: usize,
}

impl<T> Default for Crowd<T> {
    fn default() -> Self {
        Self {
            members: BTreeSet::new(),
            weed_at: 8,
        }
    }
}

impl<T: Ord> Crowd<T> {
    fn add(&mut self, member: T, means_something: impl Fn(&T) -> bool) {
        if self.members.len() >= self.weed_at {
            self.members.retain(means_something);
            self.weed_at = (2 * self.members.len()).max(8);
        }
        self.members.insert(member);
    }
}

impl Objects {
    pub fn get(&self, object: ObjectId) -> Option<&Object> {
        self.objects.get(&object)
    }

    pub fn get_mut(&mut self, object: ObjectId) -> Option<&mut Object> {
        self.objects.get_mut(&object)
    }

    pub fn entry(&mut self, object: ObjectId) -> &mut Object {
        self.objects.entry(object).or_default()
    }

    /// Whether the object takes events.
    pub fn check_open(&self, object: ObjectId) -> Result<(), EngineError> {
        match self.objects.get(&object).and_then(|found| found.closed) {
            None => Ok(()),
            Some(plan) => Err(EngineError::RollingBack {
                node: Node::Object(object),
                plan,
            }),
        }
    }

    /// Looks at a few forgotten objects, and lets go of those whose ways mean nothing any more: as
    /// often as one is forgotten, so that they do not pile up.
    pub fn weed(
        &mut self,
        speculates: impl Fn(GroupId) -> bool,
        is_held: impl Fn(ChannelId, u64) -> bool,
    ) {
        for _ in 0..2 {
            let Some(object) = self.forgotten.pop_front() else {
                return;
            };
            if let Some(found) = self.objects.get_mut(&object)
                && let Some(spread) = &mut found.spread
            {
                let (takers, outputs) = (&mut spread.takers.members, &mut spread.outputs.members);
                takers.retain(|&taker| speculates(taker));
                outputs.retain(|&(channel, arrival)| is_held(channel, arrival));
                if takers.is_empty() && outputs.is_empty() {
                    found.spread = None;
                } else {
                    self.forgotten.push_back(object);
                }
            }
            self.tidy(object);
        }
    }

    /// The object is no more. Returns its undo records, oldest first. Who took something from it
    /// still depends on that.
    pub fn forget(&mut self, object: ObjectId) -> Vec<(u64, UndoId)> {
        let Some(found) = self.objects.get_mut(&object) else {
            return Vec::new();
        };
        let records = found.log.clear();
        if found.spread.is_some() {
            self.forgotten.push_back(object);
        }
        *found = Object {
            spread: found.spread.take(),
            ..Object::default()
        };
        self.tidy(object);
        records
    }

    /// Makes an object depend on an undecided assumption by itself.
    pub fn depend(
        &mut self,
        object: ObjectId,
        id: Id,
        kind: Kind,
        undos: &mut Undos,
        assumptions: &mut Assumptions,
    ) -> Result<(), EngineError> {
        self.check_open(object)?;
        let own = self.entry(object);
        own.sole = None;
        own.log.tidy(assumptions);
        if kind == Kind::Prediction || !own.log.is_empty() {
            own.log.given(undos.next(), id, kind, own.reliance.clone());
        }
        if kind == Kind::Prediction {
            assumptions.note_dependent(id, Dependent::Object(object));
        }
        own.reliance.add(id, kind, assumptions);
        self.tidy(object);
        Ok(())
    }

    /// Forgets an object that has nothing to remember.
    pub fn tidy(&mut self, object: ObjectId) {
        let is_blank = |found: &Object| {
            found.reliance.tracked.is_empty()
                && found.log.is_empty()
                && found.closed.is_none()
                && found.spread.is_none()
        };
        if self.objects.get(&object).is_some_and(is_blank) {
            self.objects.remove(&object);
        }
    }

    /// A plan is carried out for this object.
    pub fn reopen(&mut self, object: ObjectId, plan: PlanId) {
        if let Some(found) = self.objects.get_mut(&object)
            && found.closed == Some(plan)
        {
            found.closed = None;
        }
        self.tidy(object);
    }
}

impl Object {
    /// A group meets it.
    pub fn met_by(&mut self, group: GroupId) {
        self.sole = self.sole.filter(|&sole| sole == group);
    }

    /// A group is about to add an undo record.
    pub fn records_for(&mut self, group: GroupId, assumptions: &Assumptions) {
        self.log.tidy(assumptions);
        if self.log.is_empty() {
            self.sole = Some(group);
        }
    }

    /// A task that depends on `by`, and on no prediction, modifies it.
    pub fn modify_for_good(&mut self, by: &Tracked, undos: &mut Undos, assumptions: &Assumptions) {
        self.log.tidy(assumptions);
        if self.log.is_empty() {
            self.reliance.tracked.take(by, assumptions);
        } else if self.reliance.tracked.lacks(by, assumptions) {
            // It commutes with what is in the log. Undoing that leaves the epochs that this gives.
            for (&volume, &id) in &by.epochs {
                let (kind, before) = (Kind::Epoch(volume), self.reliance.clone());
                self.log.given(undos.next(), id, kind, before);
                self.reliance.add(id, kind, assumptions);
            }
        }
    }

    /// A group came to depend on predictions by way of this object.
    pub fn taken(&mut self, group: GroupId, speculates: impl Fn(GroupId) -> bool) {
        let spread = self.spread.get_or_insert_default();
        spread.takers.add(group, |&taker| speculates(taker));
    }

    /// Something was put out in its name while it depended on predictions.
    pub fn put_out(
        &mut self,
        channel: ChannelId,
        arrival: u64,
        is_held: impl Fn(ChannelId, u64) -> bool,
    ) {
        let output = (channel, arrival);
        self.sole = None;
        let spread = self.spread.get_or_insert_default();
        spread
            .outputs
            .add(output, |&(channel, arrival)| is_held(channel, arrival));
    }

    pub fn takers(&self) -> impl Iterator<Item = GroupId> + '_ {
        let spread = self.spread.iter();
        spread.flat_map(|spread| &spread.takers.members).copied()
    }

    pub fn outputs(&self) -> impl Iterator<Item = (ChannelId, u64)> + '_ {
        let spread = self.spread.iter();
        spread.flat_map(|spread| &spread.outputs.members).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_keeps_who_means_something_and_not_much_more() {
        let mut crowd = Crowd::default();
        for member in 0..1000 {
            crowd.add(member, |member| member % 50 == 0);
            assert!(crowd.members.len() <= 2 * (member / 50 + 1) + 8);
        }
        let kept: Vec<_> = (0..1000).step_by(50).collect();
        assert!(kept.iter().all(|member| crowd.members.contains(member)));
    }
}
