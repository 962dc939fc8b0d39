//! The promises of the model, checked on what the engine did, without the reference's sets: what a
//! node depends on is found by walking back through the history.

use std::collections::{BTreeMap, BTreeSet};

use surmise_engine::{Access, ChannelId, Decision, Effect, HoldId, Id, Kind, Kinds, Node};

use crate::event::Event;
use crate::reference::Reference;

/// Everything that happened, and where every output is.
#[derive(Default)]
pub struct Ledger {
    happened: Vec<Happened>,
    gates: BTreeMap<ChannelId, Kinds>,
    held: Vec<Held>,
}

struct Held {
    hold: HoldId,
    channel: ChannelId,
    sources: BTreeSet<Id>,
}

/// What matters of an event for who depends on what.
enum Happened {
    Depended(Node, Id),
    Flowed { from: Node, to: Node },
    Replaced { by: Node, node: Node },
    New(Node),
}

impl Ledger {
    /// Writes down an event that was not refused, and checks its effects. `model` knows the
    /// decisions; `waited` tells whether it was an access that must wait.
    pub fn note(&mut self, event: &Event, waited: bool, effects: &[Effect], model: &Reference) {
        match *event {
            Event::Depend(node, id) => {
                let id = id.id(model.assumed.len());
                self.happened.push(Happened::Depended(node, id));
            }
            Event::Spawn(None, child) => self.happened.push(Happened::New(Node::Task(child))),
            Event::Spawn(Some(parent), child) => self.happened.push(Happened::Replaced {
                by: Node::Task(parent),
                node: Node::Task(child),
            }),
            Event::Forget(object) => self.happened.push(Happened::New(Node::Object(object))),
            Event::Access(task, object, access) if !waited => {
                let (task, object) = (Node::Task(task), Node::Object(object));
                let mut flow = |from, to| self.happened.push(Happened::Flowed { from, to });
                if access != Access::Modify {
                    flow(object, task);
                }
                if access != Access::Observe {
                    flow(task, object);
                }
            }
            Event::Open(channel, gates) | Event::Regate(channel, gates) => {
                self.gates.insert(channel, gates);
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
            _ => {}
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
                _ => {}
            }
        }
        self.check_held(model);
    }

    /// The undecided assumptions that the state of a node rests on.
    pub fn sources(&self, node: Node, model: &Reference) -> BTreeSet<Id> {
        let mut concerned = BTreeSet::from([node]);
        let mut sources: BTreeSet<_> = model.consent().into_iter().collect();
        for happened in self.happened.iter().rev() {
            match *happened {
                Happened::Depended(node, id) if concerned.contains(&node) => {
                    sources.extend(model.with_older_epochs(id));
                }
                Happened::Flowed { from, to } if concerned.contains(&to) => {
                    concerned.insert(from);
                }
                Happened::Replaced { by, node } if concerned.remove(&node) => {
                    concerned.insert(by);
                }
                Happened::New(node) => {
                    concerned.remove(&node);
                }
                _ => {}
            }
        }
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
