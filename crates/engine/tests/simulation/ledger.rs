//! The promises of the model, checked on what the engine did, without the reference's sets: what a
//! node depends on is found by walking back through the history.

use std::collections::{BTreeMap, BTreeSet};

use surmise_engine::{
    Access, ChannelId, Decision, Effect, GroupId, HoldId, Id, Kind, Kinds, Node, ObjectId, WaiterId,
};

use crate::event::Event;
use crate::history::What;
use crate::reference::Reference;

/// Where every output is, and who waits.
#[derive(Default)]
pub struct Ledger {
    waits: BTreeMap<WaiterId, Wait>,
    /// How many waits ended while their object depended on an epoch that came later.
    pub ahead: usize,
    gates: BTreeMap<ChannelId, Kinds>,
    held: Vec<Held>,
}

#[derive(Debug, PartialEq, Eq)]
struct Wait {
    node: Node,
    kinds: Kinds,
    /// What an object rested on when the wait began.
    then: BTreeSet<Id>,
}

struct Held {
    hold: HoldId,
    channel: ChannelId,
    sources: BTreeSet<Id>,
}

/// What has dependencies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Carrier {
    Group(GroupId),
    Object(ObjectId),
    /// Of the object, what a commuting access takes.
    Ordered(ObjectId),
}

impl Ledger {
    /// Writes down an event that was not refused, and checks its effects. `model` knows the
    /// decisions.
    pub fn note(&mut self, event: &Event, effects: &[Effect], model: &Reference) {
        match *event {
            Event::Open(channel, gates) => {
                self.gates.insert(channel, gates);
            }
            Event::Close(channel) => {
                let is_empty = self.held.iter().all(|held| held.channel != channel);
                assert!(is_empty, "what {channel:?} holds is forgotten");
                self.gates.remove(&channel);
            }
            Event::Output(node, channel, hold) => {
                let sources = self.sources(node, model);
                let held = Held {
                    hold,
                    channel,
                    sources,
                };
                self.held.push(held);
            }
            Event::Barrier(node, waiter, kinds) => {
                let then = match node {
                    Node::Task(_) => BTreeSet::new(),
                    Node::Object(_) => self.sources(node, model),
                };
                let other = self.waits.insert(waiter, Wait { node, kinds, then });
                assert_eq!(other, None, "{waiter} was never woken");
            }
            Event::Withdraw(waiter) => drop(self.waits.remove(&waiter)),
            _ => {}
        }
        for effect in effects {
            if let Effect::Wake { waiter, ok: false } = *effect
                && let Some(Node::Object(object)) = self.waits.get(&waiter).map(|wait| wait.node)
            {
                let is_forgotten = matches!(event, Event::Forget(of) if *of == object);
                assert!(is_forgotten || model.over, "{waiter} is woken for nothing");
            }
        }
        self.note_effects(effects, model);
    }

    /// Checks what left, and that the rest stays for a reason.
    pub fn note_effects(&mut self, effects: &[Effect], model: &Reference) {
        for effect in effects {
            match *effect {
                Effect::Release(hold) => self.leave(hold, model),
                Effect::Drop(hold) => {
                    let found = self.held.iter().position(|held| held.hold == hold);
                    self.held
                        .remove(found.expect("an output is dropped that is not held"));
                }
                Effect::Wake { waiter, ok } => self.wake(waiter, ok, model),
                _ => {}
            }
        }
        self.check_held(model);
    }

    /// The undecided assumptions that the state of a node rests on.
    pub fn sources(&self, node: Node, model: &Reference) -> BTreeSet<Id> {
        let carrier = |node| match node {
            Node::Task(task) => Carrier::Group(model.state.of(task).expect("a live task")),
            Node::Object(object) => Carrier::Object(object),
        };
        // Of what is only overwritten, no epoch is taken.
        let mut concerned = BTreeMap::from([(carrier(node), true)]);
        let mut sources = BTreeSet::new();
        for entry in model.history.iter().rev().filter(|entry| !entry.undone) {
            let own = entry.by.map(Carrier::Group);
            // What its group gains is gained by these, too.
            let unseen = entry.unseen.iter().any(|&(_, object)| {
                let carriers = [Carrier::Object(object), Carrier::Ordered(object)];
                carriers.iter().any(|one| concerned.contains_key(one))
            });
            let is_concerned = |own| concerned.contains_key(&own);
            match entry.what {
                What::Guessed(id) if unseen || own.is_some_and(is_concerned) => {
                    sources.insert(id);
                }
                What::Depended(Node::Task(_), id)
                    if unseen && model.kind(id) == Kind::Prediction =>
                {
                    sources.insert(id);
                }
                What::Depended(to, id) => {
                    let to = match to {
                        Node::Task(_) => vec![own.expect("a task's group")],
                        Node::Object(of) => vec![Carrier::Object(of), Carrier::Ordered(of)],
                    };
                    for with_epochs in to.iter().filter_map(|to| concerned.get(to)) {
                        if *with_epochs || model.kind(id) == Kind::Prediction {
                            sources.extend(model.assumed.with_older_epochs(id));
                        }
                    }
                }
                What::Accessed { object, access, .. } => {
                    concern_access(own.expect("a task's group"), object, access, &mut concerned);
                    if unseen {
                        concerned.entry(taken_from(object, access)).or_default();
                    }
                }
                What::Born { group, .. } => {
                    if let Some(epochs) = concerned.remove(&Carrier::Group(group))
                        && let Some(parent) = own
                    {
                        *concerned.entry(parent).or_default() |= epochs;
                    }
                }
                What::Merged { into, from } => {
                    if let Some(&epochs) = concerned.get(&Carrier::Group(into)) {
                        *concerned.entry(Carrier::Group(from)).or_default() |= epochs;
                    }
                }
                What::Forgot(object) => {
                    concerned.remove(&Carrier::Object(object));
                    concerned.remove(&Carrier::Ordered(object));
                }
                _ => {}
            }
        }
        sources.extend(model.consent());
        sources.retain(|id| !model.decided.contains_key(id));
        // Old consents are named by events, and rest on nobody.
        sources.retain(|&id| model.kind(id) != Kind::Consent || model.consent() == Some(id));
        sources
    }

    /// Nothing may be left that could leave, once everything is affirmed.
    pub fn check_empty(&self) {
        assert!(
            self.held.is_empty(),
            "an output was neither released nor dropped"
        );
        assert_eq!(self.waits, BTreeMap::new(), "a waiter was never woken");
    }

    /// A waiter is woken, once. One of an object finds it as it is to be: nothing undecided that it
    /// waited for is in it, and no plan has anything left to do to it.
    fn wake(&mut self, waiter: WaiterId, ok: bool, model: &Reference) {
        let found = self.waits.remove(&waiter);
        let Wait { node, kinds, then } = found.expect("a waiter is woken that does not wait");
        let (Node::Object(object), true) = (node, ok) else {
            return;
        };
        // Another prediction may be denied by the same event, which this waiter did not wait for.
        let is_closed = kinds.predictions && model.closed_objects.contains_key(&object);
        assert!(
            !is_closed,
            "{waiter} is woken while {object} is rolled back"
        );
        let mut sources = self.sources(node, model);
        sources.retain(|&id| kinds.has(model.kind(id)));
        let count = sources.len();
        // Epochs that came later are no business of the waiter's.
        let is_epoch = |id| matches!(model.kind(id), Kind::Epoch(_));
        sources.retain(|&id| !is_epoch(id) || then.contains(&id));
        self.ahead += usize::from(sources.len() < count);
        assert_eq!(sources, BTreeSet::new(), "{waiter} is woken too early");
    }

    /// An output is released: once, in its channel's order, and after all it rests on.
    fn leave(&mut self, hold: HoldId, model: &Reference) {
        let found = self.held.iter().position(|held| held.hold == hold);
        let found = found.expect("an output is released that is not held");
        let held = self.held.remove(found);
        let is_first = self.held[..found]
            .iter()
            .all(|before| before.channel != held.channel);
        assert!(is_first, "{hold} overtook its channel");
        let gates = self.gates[&held.channel];
        for id in held
            .sources
            .into_iter()
            .filter(|&id| gates.has(model.kind(id)))
        {
            let decision = model.decided.get(&id);
            assert_eq!(decision, Some(&Decision::Affirm), "{hold} is ahead of {id}");
        }
    }

    /// The first output of a channel is held because of something.
    fn check_held(&self, model: &Reference) {
        let mut seen = BTreeSet::new();
        for held in self.held.iter().filter(|held| seen.insert(held.channel)) {
            let gates = self.gates[&held.channel];
            let is_held = |&id: &Id| gates.has(model.kind(id)) && !model.decided.contains_key(&id);
            assert!(
                held.sources.iter().any(is_held),
                "{} is held for nothing",
                held.hold
            );
        }
    }
}

/// Whose state a task's meeting with an object has to do with, if that of these after it matters.
fn concern_access(
    own: Carrier,
    object: ObjectId,
    access: Access,
    concerned: &mut BTreeMap<Carrier, bool>,
) {
    let from = taken_from(object, access);
    let (object, ordered) = (Carrier::Object(object), Carrier::Ordered(object));
    if let Access::Modify(_) | Access::Both(_) = access
        && let Some(epochs) = concerned.remove(&ordered)
    {
        *concerned.entry(object).or_default() |= epochs;
    }
    let object_epochs = concerned.get(&object).copied();
    // First the object took, then the task: backwards it is the other way round.
    if let Some(epochs) = object_epochs.filter(|_| access != Access::Observe) {
        *concerned.entry(own).or_default() |= epochs;
    }
    if concerned.contains_key(&own) {
        let takes_epochs = matches!(access, Access::Observe | Access::Both(_));
        let epochs = takes_epochs && concerned[&own];
        *concerned.entry(from).or_default() |= epochs;
    }
}

fn taken_from(object: ObjectId, access: Access) -> Carrier {
    match access {
        Access::Commute(_) => Carrier::Ordered(object),
        _ => Carrier::Object(object),
    }
}
