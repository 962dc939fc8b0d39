//! The model as its rules say it: whole sets, looked through from end to end after every event.

use std::collections::{BTreeMap, BTreeSet};

use surmise_engine::{
    Access, ChannelId, Decision, Effect, EngineError, HoldId, Id, Kind, Kinds, Node, ObjectId, On,
    Owner, TaskId, WaiterId,
};

use crate::event::Event;

/// What an access answers, as plain sets; nothing for other events.
pub type Said = Result<Option<BTreeSet<Id>>, EngineError>;

#[derive(Default)]
pub struct Reference {
    pub assumed: Vec<(Owner, Kind)>,
    pub decided: BTreeMap<Id, Decision>,
    over: bool,
    /// All that each node ever came to depend on, decided or not, but consents.
    relies: BTreeMap<Node, BTreeSet<Id>>,
    pub tasks: BTreeSet<TaskId>,
    carries: BTreeMap<ObjectId, Kinds>,
    /// What gates them, and whether they are closed.
    channels: BTreeMap<ChannelId, (Kinds, bool)>,
    /// Those that are held, in order of arrival.
    outputs: Vec<(HoldId, ChannelId, BTreeSet<Id>)>,
    /// Those that wait, in order of arrival.
    waiters: Vec<(WaiterId, Node, Kinds)>,
    pub edges: BTreeMap<Node, Vec<(On, Option<Id>)>>,
    stalled: bool,
}

impl Reference {
    /// Plays one event; if it is refused, nothing changes.
    pub fn play(&mut self, event: &Event, effects: &mut Vec<Effect>) -> Said {
        let said = match *event {
            Event::Assume(owner, kind) => self.assume(owner, kind),
            Event::Depend(node, id) => self.depend(node, id.id(self.assumed.len())),
            Event::Decide(id, decision) => {
                self.decide(id.id(self.assumed.len()), decision, effects)
            }
            Event::DecideConsent(decision) => {
                self.decide(self.consent().unwrap_or(Id(0)), decision, effects)
            }
            Event::Spawn(parent, child) => self.spawn(parent, child),
            Event::End(task) => self.live(Node::Task(task)).map(|()| {
                self.tasks.remove(&task);
                self.retire(Node::Task(task), effects);
            }),
            Event::Carry(object, kinds) => self.carry(object, kinds),
            Event::Forget(object) => {
                self.carries.remove(&object);
                self.retire(Node::Object(object), effects);
                Ok(())
            }
            Event::Access(task, object, access) => {
                let wait = self.access(task, object, access)?;
                self.settle(effects);
                return Ok(wait);
            }
            _ => self.play_boundary(event, effects),
        };
        said?;
        self.settle(effects);
        Ok(None)
    }

    /// Affirms an undecided assumption.
    pub fn affirm(&mut self, id: Id, effects: &mut Vec<Effect>) {
        self.decide(id, Decision::Affirm, effects).unwrap();
        self.settle(effects);
    }

    fn play_boundary(
        &mut self,
        event: &Event,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        match *event {
            Event::Open(channel, gates) => {
                check_gates(channel, gates)?;
                if self.channels.contains_key(&channel) {
                    return Err(EngineError::ChannelExists(channel));
                }
                self.channels.insert(channel, (gates, false));
            }
            Event::Regate(channel, gates) => {
                check_gates(channel, gates)?;
                let found = self.channels.get_mut(&channel);
                found.ok_or(EngineError::UnknownChannel(channel))?.0 = gates;
            }
            Event::Close(channel) => {
                let found = self.channels.get_mut(&channel);
                let open = found.filter(|(_, closed)| !closed);
                open.ok_or(EngineError::NotOpen(channel))?.1 = true;
            }
            Event::Discard(channel) => {
                let removed = self.channels.remove(&channel);
                removed.ok_or(EngineError::UnknownChannel(channel))?;
                self.drop_outputs(effects, |of| of == channel);
            }
            Event::Output(node, channel, hold) => self.output(node, channel, hold, effects)?,
            Event::Barrier(node, waiter, kinds) => self.barrier(node, waiter, kinds, effects)?,
            Event::Withdraw(waiter) => {
                let found = self.waiters.iter().position(|&(other, ..)| other == waiter);
                let found = found.ok_or(EngineError::UnknownWaiter(waiter))?;
                self.waiters.remove(found);
            }
            Event::Blocked(node, on) => {
                self.live(node)?;
                match on {
                    On::Consent if self.consent().is_none() => {
                        return Err(EngineError::NoConsent(node));
                    }
                    On::Node(other) => self.live(other)?,
                    _ => {}
                }
                let edge = (on, self.consent());
                self.edges.entry(node).or_default().push(edge);
            }
            Event::Unblocked(node) => {
                self.live(node)?;
                self.edges.remove(&node);
            }
            _ => unreachable!("{event:?} is played elsewhere"),
        }
        Ok(())
    }

    fn assume(&mut self, owner: Owner, kind: Kind) -> Result<(), EngineError> {
        if self.over {
            return Err(EngineError::Over);
        }
        if (owner == Owner::Person) != (kind == Kind::Consent) {
            return Err(EngineError::WrongOwner { kind, owner });
        }
        if kind == Kind::Consent
            && let Some(consent) = self.consent()
        {
            return Err(EngineError::ConsentExists(consent));
        }
        self.assumed.push((owner, kind));
        Ok(())
    }

    fn depend(&mut self, node: Node, id: Id) -> Result<(), EngineError> {
        self.undecided(id)?;
        self.live(node)?;
        if let Node::Object(object) = node
            && !self.carries(object).has(self.kind(id))
        {
            return Err(EngineError::CannotCarry { object, id });
        }
        if self.kind(id) != Kind::Consent {
            let all = self.with_older_epochs(id);
            self.relies.entry(node).or_default().extend(all);
        }
        Ok(())
    }

    fn decide(
        &mut self,
        id: Id,
        decision: Decision,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        self.undecided(id)?;
        match (self.kind(id), decision) {
            (Kind::Prediction, Decision::Deny) => return Err(EngineError::Unsupported(id)),
            (Kind::Epoch(_), Decision::Deny) => return Err(EngineError::EpochDenied(id)),
            (_, Decision::Affirm) => {
                for id in self.with_older_epochs(id) {
                    self.decided.insert(id, Decision::Affirm);
                }
            }
            (Kind::Consent, Decision::Deny) => {
                self.decided.insert(id, Decision::Deny);
                self.over = true;
                self.drop_outputs(effects, |_| true);
                self.end_waits(effects, |_| true);
            }
        }
        Ok(())
    }

    fn spawn(&mut self, parent: Option<TaskId>, child: TaskId) -> Result<(), EngineError> {
        let mut inherited = BTreeSet::new();
        if let Some(parent) = parent {
            self.live(Node::Task(parent))?;
            inherited = self.relied(Node::Task(parent));
        }
        if !self.tasks.insert(child) {
            return Err(EngineError::TaskExists(child));
        }
        self.relies.insert(Node::Task(child), inherited);
        Ok(())
    }

    fn carry(&mut self, object: ObjectId, kinds: Kinds) -> Result<(), EngineError> {
        let node = Node::Object(object);
        if !kinds.consent {
            return Err(EngineError::WaitsForConsent(node));
        }
        let mut lost = self.undecided_of(node, kinds.others());
        // Of several, the error names the newest epoch of the first volume, or the newest prediction.
        let volume = |id: &Id| match self.kind(*id) {
            Kind::Epoch(volume) => volume.0,
            _ => u64::MAX,
        };
        let first = lost.iter().map(volume).min();
        lost.retain(|id| Some(volume(id)) == first);
        if let Some(&id) = lost.last() {
            return Err(EngineError::CannotCarry { object, id });
        }
        self.carries.insert(object, kinds);
        Ok(())
    }

    fn access(
        &mut self,
        task: TaskId,
        object: ObjectId,
        access: Access,
    ) -> Result<Option<BTreeSet<Id>>, EngineError> {
        let (task, object, kinds) = (Node::Task(task), Node::Object(object), self.carries(object));
        self.live(task)?;
        let wait = self.undecided_of(task, kinds.others());
        if access != Access::Observe && !wait.is_empty() {
            return Ok(Some(wait));
        }
        if access != Access::Modify {
            let observed = self.relied(object);
            self.relies.entry(task).or_default().extend(observed);
        }
        if access != Access::Observe {
            let given = self.relied(task);
            self.relies.entry(object).or_default().extend(given);
        }
        Ok(Some(BTreeSet::new()))
    }

    fn output(
        &mut self,
        node: Node,
        channel: ChannelId,
        hold: HoldId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        self.live(node)?;
        if self.outputs.iter().any(|&(held, ..)| held == hold) {
            return Err(EngineError::HoldExists(hold));
        }
        let found = self.channels.get(&channel);
        if found.is_none_or(|&(_, closed)| closed) {
            return Err(EngineError::NotOpen(channel));
        }
        if self.over {
            effects.push(Effect::Drop(hold));
            return Ok(());
        }
        self.outputs
            .push((hold, channel, self.undecided_of(node, Kinds::ALL)));
        Ok(())
    }

    fn barrier(
        &mut self,
        node: Node,
        waiter: WaiterId,
        kinds: Kinds,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        self.live(node)?;
        if kinds.consent && matches!(node, Node::Task(_)) {
            return Err(EngineError::WaitsForConsent(node));
        }
        if self.waiters.iter().any(|&(other, ..)| other == waiter) {
            return Err(EngineError::WaiterExists(waiter));
        }
        if self.over {
            effects.push(Effect::Wake { waiter, ok: false });
        } else {
            self.waiters.push((waiter, node, kinds));
        }
        Ok(())
    }

    /// What follows from how things are now.
    fn settle(&mut self, effects: &mut Vec<Effect>) {
        let mut kept: Vec<(HoldId, ChannelId, BTreeSet<Id>)> = Vec::new();
        for (hold, channel, relied) in std::mem::take(&mut self.outputs) {
            let gates = self.channels[&channel].0;
            let is_first = kept.iter().all(|&(_, other, _)| other != channel);
            let is_free = relied
                .iter()
                .all(|&id| self.decided.contains_key(&id) || !gates.has(self.kind(id)));
            if is_first && is_free {
                effects.push(Effect::Release(hold));
            } else {
                kept.push((hold, channel, relied));
            }
        }
        let holds = |channel| kept.iter().any(|&(_, other, _)| other == channel);
        self.channels
            .retain(|&channel, &mut (_, closed)| !closed || holds(channel));
        self.outputs = kept;

        for (waiter, node, kinds) in std::mem::take(&mut self.waiters) {
            if self.undecided_of(node, kinds).is_empty() {
                effects.push(Effect::Wake { waiter, ok: true });
            } else {
                self.waiters.push((waiter, node, kinds));
            }
        }

        let stalled = crate::stall::is_stalled(self);
        match (self.stalled, self.consent()) {
            (false, Some(on)) if stalled => {
                let tasks = self.tasks.iter().copied().collect();
                effects.push(Effect::Stalled { tasks, on });
            }
            (true, _) if !stalled => effects.push(Effect::Unstalled),
            _ => {}
        }
        self.stalled = stalled;
    }

    fn retire(&mut self, node: Node, effects: &mut Vec<Effect>) {
        self.relies.remove(&node);
        self.edges.remove(&node);
        self.end_waits(effects, |of| of == node);
    }

    fn drop_outputs(&mut self, effects: &mut Vec<Effect>, is_of: impl Fn(ChannelId) -> bool) {
        self.outputs.retain(|&(hold, channel, _)| {
            if is_of(channel) {
                effects.push(Effect::Drop(hold));
            }
            !is_of(channel)
        });
    }

    fn end_waits(&mut self, effects: &mut Vec<Effect>, is_of: impl Fn(Node) -> bool) {
        self.waiters.retain(|&(waiter, node, _)| {
            if is_of(node) {
                effects.push(Effect::Wake { waiter, ok: false });
            }
            !is_of(node)
        });
    }

    /// The undecided consent.
    pub fn consent(&self) -> Option<Id> {
        self.ids()
            .find(|&id| self.kind(id) == Kind::Consent && !self.decided.contains_key(&id))
    }

    /// The undecided assumptions of these kinds that a node depends on.
    pub fn undecided_of(&self, node: Node, kinds: Kinds) -> BTreeSet<Id> {
        let mut relied = self.relied(node);
        relied.extend(self.consent());
        relied.retain(|id| !self.decided.contains_key(id) && kinds.has(self.kind(*id)));
        relied
    }

    /// What a task waits for at barriers.
    pub fn awaited(&self, task: TaskId) -> BTreeSet<Id> {
        let node = Node::Task(task);
        let own = self.waiters.iter().filter(|&&(_, of, _)| of == node);
        own.flat_map(|&(.., kinds)| self.undecided_of(node, kinds))
            .collect()
    }

    pub fn kind(&self, id: Id) -> Kind {
        self.assumed[id.0 as usize - 1].1
    }

    pub fn ids(&self) -> impl Iterator<Item = Id> + use<> {
        (1..=self.assumed.len() as u64).map(Id)
    }

    pub fn with_older_epochs(&self, id: Id) -> BTreeSet<Id> {
        let kind = self.kind(id);
        let is_older = |&other: &Id| {
            other == id || other < id && matches!(kind, Kind::Epoch(_)) && self.kind(other) == kind
        };
        self.ids().filter(is_older).collect()
    }

    fn relied(&self, node: Node) -> BTreeSet<Id> {
        self.relies.get(&node).cloned().unwrap_or_default()
    }

    fn carries(&self, object: ObjectId) -> Kinds {
        self.carries.get(&object).copied().unwrap_or(Kinds::ALL)
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

    fn live(&self, node: Node) -> Result<(), EngineError> {
        match node {
            Node::Task(task) if !self.tasks.contains(&task) => Err(EngineError::UnknownTask(task)),
            _ => Ok(()),
        }
    }
}

fn check_gates(channel: ChannelId, gates: Kinds) -> Result<(), EngineError> {
    if gates.predictions && gates.epochs {
        Ok(())
    } else {
        Err(EngineError::RunsAhead(channel))
    }
}
