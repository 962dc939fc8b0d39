//! The model as its rules say it: after a denial, all that has happened is played again without what
//! that undid; and whole sets are looked through from end to end after every event.

use std::collections::{BTreeMap, BTreeSet};

use surmise_engine::{
    Access, ChannelId, Decision, Effect, EngineError, GroupId, Id, Kind, Kinds, Node, ObjectId, On,
    Owner, PlanId, TaskId, UndoId, WaiterId,
};

use crate::boundary::Held;
use crate::event::Event;
use crate::history::{Assumed, Entry, State, What, play};
use crate::speculate::Checkpoint;

/// What an event is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Done,
    Go,
    Guess(Id),
    CheckpointFirst(GroupId),
    UndoFirst,
    Merged(GroupId),
    WaitFirst(TaskId),
}

/// Somebody who waits at a barrier.
pub struct Waiter {
    pub id: WaiterId,
    pub node: Node,
    pub kinds: Kinds,
    /// The epochs that its node depended on when the wait began.
    pub until: BTreeSet<Id>,
}

pub type Said = Result<Reply, EngineError>;

pub struct Reference {
    pub assumed: Assumed,
    pub decided: BTreeMap<Id, Decision>,
    pub over: bool,
    pub history: Vec<Entry>,
    pub state: State,
    /// Objects with undo records that all are one group's, and that no other group has met meanwhile.
    pub sole: BTreeMap<ObjectId, GroupId>,
    /// What gates them.
    pub channels: BTreeMap<ChannelId, Kinds>,
    /// In order of arrival.
    pub outputs: Vec<Held>,
    /// Those that wait, in order of arrival.
    pub waiters: Vec<Waiter>,
    pub edges: BTreeMap<Node, Vec<(On, Option<Id>)>>,
    pub stalled: bool,
    pub checkpoints: Vec<Checkpoint>,
    /// The undo records that may be applied, with their entries.
    pub undos: BTreeMap<UndoId, usize>,
    pub groups_born: u64,
    pub plans_made: u64,
    pub plans: BTreeSet<PlanId>,
    pub closed_groups: BTreeMap<GroupId, PlanId>,
    pub closed_objects: BTreeMap<ObjectId, PlanId>,
    pub leaving: BTreeMap<TaskId, PlanId>,
    pub withdrawn: BTreeSet<Id>,
}

impl Reference {
    pub fn new() -> Self {
        Self {
            assumed: Assumed::default(),
            decided: BTreeMap::new(),
            over: false,
            history: Vec::new(),
            state: State::default(),
            sole: BTreeMap::new(),
            channels: BTreeMap::new(),
            outputs: Vec::new(),
            waiters: Vec::new(),
            edges: BTreeMap::new(),
            stalled: false,
            checkpoints: Vec::new(),
            undos: BTreeMap::new(),
            groups_born: 0,
            plans_made: 0,
            plans: BTreeSet::new(),
            closed_groups: BTreeMap::new(),
            closed_objects: BTreeMap::new(),
            leaving: BTreeMap::new(),
            withdrawn: BTreeSet::new(),
        }
    }

    /// Plays one event; if it is refused, nothing changes.
    pub fn play(&mut self, event: &Event, effects: &mut Vec<Effect>) -> Said {
        let mut reply = Reply::Done;
        match *event {
            Event::Assume(owner, kind) => self.assume(owner, kind)?,
            Event::Depend(node, id) => reply = self.depend(node, id.id(self.assumed.all.len()))?,
            Event::Decide(id, decision) => {
                self.decide(id.id(self.assumed.all.len()), decision, effects)?;
            }
            Event::DecideConsent(decision) => {
                self.decide(self.consent().unwrap_or(Id(0)), decision, effects)?;
            }
            Event::Spawn(parent, child) => self.spawn(parent, child)?,
            Event::End(task) => self.end(task, effects)?,
            Event::Merge(one, other) => reply = self.merge(one, other, effects)?,
            Event::Predict(task, owner, may_share) => {
                reply = self.predict(task, owner, may_share)?;
            }
            Event::Checkpointed(group, ckpt) => self.checkpointed(group, ckpt, effects)?,
            Event::RolledBack(plan) => self.rolled_back(plan)?,
            Event::Forget(object) => self.forget(object, effects),
            Event::Access(task, object, access) => {
                reply = self.access(task, object, access, effects)?;
            }
            _ => self.play_boundary(event, effects)?,
        }
        self.settle(effects);
        Ok(reply)
    }

    /// Affirms an undecided assumption.
    pub fn affirm(&mut self, id: Id, effects: &mut Vec<Effect>) {
        self.decide(id, Decision::Affirm, effects).unwrap();
        self.settle(effects);
    }

    /// Something has happened.
    pub fn note(&mut self, by: Option<GroupId>, what: What) {
        let unseen = by.map(|by| self.unseen(by));
        let entry = Entry {
            what,
            by,
            unseen: unseen.unwrap_or_default(),
            undone: false,
        };
        play(self.history.len(), &entry, &self.assumed, &mut self.state);
        self.history.push(entry);
    }

    fn assume(&mut self, owner: Owner, kind: Kind) -> Result<(), EngineError> {
        if self.over {
            return Err(EngineError::Over);
        }
        let maker = match (owner, kind) {
            (Owner::Task(task), Kind::Prediction) => match self.open_group(task) {
                Err(EngineError::UnknownTask(_)) => None,
                found => Some(found?),
            },
            _ => None,
        };
        if (owner == Owner::Person) != (kind == Kind::Consent) {
            return Err(EngineError::WrongOwner { kind, owner });
        }
        if kind == Kind::Consent
            && let Some(consent) = self.consent()
        {
            return Err(EngineError::ConsentExists(consent));
        }
        self.assumed.all.push((owner, kind));
        if maker.is_some() {
            let id = Id(self.assumed.all.len() as u64);
            self.note(maker, What::Assumed(id));
        }
        Ok(())
    }

    fn depend(&mut self, node: Node, id: Id) -> Result<Reply, EngineError> {
        self.undecided(id)?;
        self.open(node)?;
        let kind = self.assumed.kind(id);
        let by = match node {
            Node::Object(_) => None,
            Node::Task(task) => Some(self.open_group(task)?),
        };
        if let Some(group) = by.filter(|_| kind == Kind::Prediction) {
            if self.undecided_of(node, Kinds::ALL).contains(&id) {
                return Ok(Reply::Go);
            }
            if !self.may_gain(group) {
                return Ok(Reply::CheckpointFirst(group));
            }
        }
        if let Node::Object(object) = node {
            self.sole.remove(&object);
        }
        if kind != Kind::Consent {
            self.note(by, What::Depended(node, id));
        }
        Ok(Reply::Go)
    }

    fn decide(
        &mut self,
        id: Id,
        decision: Decision,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        if self.withdrawn.remove(&id) {
            return Ok(());
        }
        self.undecided(id)?;
        let (owner, kind) = self.assumed.all[id.0 as usize - 1];
        if let (Kind::Epoch(_), Decision::Deny) = (kind, decision) {
            return Err(EngineError::EpochDenied(id));
        }
        if let (Owner::Task(owner), Kind::Prediction) = (owner, kind)
            && let Some(group) = self.state.of(owner)
        {
            if decision == Decision::Affirm && self.speculates(group) {
                return Err(EngineError::OwnerSpeculates { id, owner });
            }
            self.note(Some(group), What::Decided);
        }
        match (kind, decision) {
            (_, Decision::Affirm) => {
                for id in self.assumed.with_older_epochs(id) {
                    self.set_decided(id, Decision::Affirm);
                }
            }
            (Kind::Consent, Decision::Deny) => {
                self.set_decided(id, Decision::Deny);
                self.over = true;
                let dropped = self.outputs.drain(..);
                effects.extend(dropped.map(|held| Effect::Drop(held.hold)));
                self.end_waits(effects, |_| true);
            }
            (_, Decision::Deny) => self.deny(id, effects),
        }
        Ok(())
    }

    pub fn set_decided(&mut self, id: Id, decision: Decision) {
        if self.decided.insert(id, decision).is_none() {
            self.assumed.decided_at.insert(id, self.history.len());
        }
    }

    fn spawn(&mut self, parent: Option<TaskId>, task: TaskId) -> Result<(), EngineError> {
        let parent = parent.map(|parent| self.open_group(parent)).transpose()?;
        self.check_new(task)?;
        self.groups_born += 1;
        let group = GroupId(self.groups_born);
        self.note(parent, What::Born { group, task });
        Ok(())
    }

    fn access(
        &mut self,
        task: TaskId,
        object: ObjectId,
        access: Access,
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, EngineError> {
        let group = self.open_group(task)?;
        self.open(Node::Object(object))?;
        let modifies = access != Access::Observe;
        let undo = match access {
            Access::Observe => None,
            Access::Modify(undo) | Access::Both(undo) | Access::Commute(undo) => undo,
        };
        if let Some(undo) = undo.filter(|undo| self.undos.contains_key(undo)) {
            return Err(EngineError::UndoExists(undo));
        }
        let known = self.undecided_of(Node::Task(task), Kinds::PREDICTIONS);
        let mut observed = self.undecided_of(Node::Object(object), Kinds::PREDICTIONS);
        let found = self.state.objects.get(&object);
        if let (Access::Commute(_), Some(found)) = (access, found) {
            observed.retain(|id| found.ordered.contains(id));
        }
        if !observed.is_subset(&known) && !self.may_gain(group) {
            return Ok(Reply::CheckpointFirst(group));
        }
        let speculates = !observed.is_empty() || !known.is_empty();
        if modifies && speculates && undo.is_none() {
            return Ok(Reply::UndoFirst);
        }
        let has_records = self.has_records(object);
        match undo {
            Some(_) if speculates && !has_records => drop(self.sole.insert(object, group)),
            _ if self.sole.get(&object) != Some(&group) => drop(self.sole.remove(&object)),
            _ => {}
        }
        match undo {
            Some(undo) if speculates => drop(self.undos.insert(undo, self.history.len())),
            Some(undo) => effects.push(Effect::DiscardUndo(undo)),
            None => {}
        }
        let saw = found.map(|found| found.value.seen_by(access));
        let saw = saw.unwrap_or_default();
        let what = What::Accessed {
            object,
            access,
            saw,
        };
        self.note(Some(group), what);
        Ok(Reply::Go)
    }

    /// What follows from how things are now.
    fn settle(&mut self, effects: &mut Vec<Effect>) {
        self.let_go(effects);
        while let Some(id) = crate::stall::cycle(self) {
            effects.push(Effect::DeniedForCycle(id));
            self.withdrawn.insert(id);
            self.deny(id, effects);
            self.let_go(effects);
        }
        let stalled = crate::stall::is_stalled(self);
        match (self.stalled, self.consent()) {
            (false, Some(on)) if stalled => {
                let tasks = self.tasks().into_iter().collect();
                effects.push(Effect::Stalled { tasks, on });
            }
            (true, _) if !stalled => effects.push(Effect::Unstalled),
            _ => {}
        }
        self.stalled = stalled;
    }

    pub fn retire(&mut self, node: Node, effects: &mut Vec<Effect>) {
        self.edges.remove(&node);
        self.end_waits(effects, |of| of == node);
    }

    fn forget(&mut self, object: ObjectId, effects: &mut Vec<Effect>) {
        self.closed_objects.remove(&object);
        self.retire(Node::Object(object), effects);
        let of_object = |entry: &usize| matches!(self.history[*entry].what, What::Accessed { object: of, .. } if of == object);
        let mut records: Vec<_> = self
            .undos
            .iter()
            .map(|(&undo, &entry)| (entry, undo))
            .collect();
        records.retain(|(entry, _)| of_object(entry));
        records.sort_unstable();
        for (_, undo) in records {
            self.undos.remove(&undo);
            effects.push(Effect::DiscardUndo(undo));
        }
        self.sole.remove(&object);
        self.note(None, What::Forgot(object));
    }

    /// The undecided consent.
    pub fn consent(&self) -> Option<Id> {
        self.ids()
            .find(|&id| self.kind(id) == Kind::Consent && !self.decided.contains_key(&id))
    }

    /// The undecided assumptions of these kinds that a node depends on.
    pub fn undecided_of(&self, node: Node, kinds: Kinds) -> BTreeSet<Id> {
        let relied = match node {
            Node::Task(task) => {
                let group = self.state.of(task);
                group.map(|group| &self.state.groups[&group].relies)
            }
            Node::Object(object) => self.state.objects.get(&object).map(|found| &found.relies),
        };
        let mut relied = relied.cloned().unwrap_or_default();
        relied.extend(self.consent());
        relied.retain(|id| !self.decided.contains_key(id) && kinds.has(self.kind(*id)));
        relied
    }

    /// What a task waits for at barriers.
    pub fn awaited(&self, task: TaskId) -> BTreeSet<Id> {
        let node = Node::Task(task);
        let own = self.waiters.iter().filter(|waiter| waiter.node == node);
        own.flat_map(|waiter| self.undecided_of(node, waiter.kinds))
            .collect()
    }

    /// What keeps a waiter waiting.
    pub fn obstacles(&self, waiter: &Waiter) -> BTreeSet<Id> {
        let mut all = self.undecided_of(waiter.node, waiter.kinds);
        if let Node::Object(_) = waiter.node {
            let is_epoch = |id| matches!(self.kind(id), Kind::Epoch(_));
            all.retain(|&id| !is_epoch(id) || waiter.until.contains(&id));
        }
        all
    }

    /// The live tasks.
    pub fn tasks(&self) -> BTreeSet<TaskId> {
        let groups = self.state.groups.values();
        groups.flat_map(|group| &group.tasks).copied().collect()
    }

    pub fn kind(&self, id: Id) -> Kind {
        self.assumed.kind(id)
    }

    pub fn ids(&self) -> impl Iterator<Item = Id> + use<> {
        self.assumed.ids()
    }

    fn undecided(&self, id: Id) -> Result<(), EngineError> {
        if !self.ids().any(|known| known == id) {
            return Err(EngineError::UnknownAssumption(id));
        }
        let decided = self.decided.contains_key(&id);
        (!decided)
            .then_some(())
            .ok_or(EngineError::AlreadyDecided(id))
    }
}
