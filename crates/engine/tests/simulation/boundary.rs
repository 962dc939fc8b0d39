//! Output and waits in the model.

use std::collections::BTreeSet;

use surmise_engine::{ChannelId, Effect, EngineError, HoldId, Id, Kinds, Node, On, WaiterId};

use crate::event::Event;
use crate::history::What;
use crate::reference::{Reference, Waiter};

/// An output that is held.
pub struct Held {
    pub hold: HoldId,
    pub channel: ChannelId,
    pub relied: BTreeSet<Id>,
    /// The entry that tells of it.
    pub entry: usize,
}

impl Reference {
    pub fn play_boundary(
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
                self.channels.insert(channel, gates);
            }
            Event::Close(channel) => {
                if !self.channels.contains_key(&channel) {
                    return Err(EngineError::UnknownChannel(channel));
                }
                if self.outputs.iter().any(|held| held.channel == channel) {
                    return Err(EngineError::ChannelHolds(channel));
                }
                self.channels.remove(&channel);
            }
            Event::Output(node, channel, hold) => self.output(node, channel, hold, effects)?,
            Event::Barrier(node, waiter, kinds) => self.barrier(node, waiter, kinds, effects)?,
            Event::Withdraw(waiter) => {
                let found = self.waiters.iter().position(|other| other.id == waiter);
                let found = found.ok_or(EngineError::UnknownWaiter(waiter))?;
                self.waiters.remove(found);
            }
            Event::Blocked(node, on) => {
                self.open(node)?;
                match on {
                    On::Consent if self.consent().is_none() => {
                        return Err(EngineError::NoConsent(node));
                    }
                    On::Node(Node::Task(other)) => drop(self.group_of(other)?),
                    _ => {}
                }
                let edge = (on, self.consent());
                self.edges.entry(node).or_default().push(edge);
            }
            Event::Unblocked(node) => {
                self.open(node)?;
                self.edges.remove(&node);
            }
            _ => unreachable!("{event:?} is played elsewhere"),
        }
        Ok(())
    }

    fn output(
        &mut self,
        node: Node,
        channel: ChannelId,
        hold: HoldId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        self.open(node)?;
        if self.outputs.iter().any(|held| held.hold == hold) {
            return Err(EngineError::HoldExists(hold));
        }
        if !self.channels.contains_key(&channel) {
            return Err(EngineError::UnknownChannel(channel));
        }
        if self.over {
            effects.push(Effect::Drop(hold));
            return Ok(());
        }
        self.outputs.push(Held {
            hold,
            channel,
            relied: self.undecided_of(node, Kinds::ALL),
            entry: self.history.len(),
        });
        let by = match node {
            Node::Task(task) => self.state.of(task),
            Node::Object(_) => None,
        };
        if let Node::Object(object) = node
            && !self.undecided_of(node, Kinds::PREDICTIONS).is_empty()
        {
            self.sole.remove(&object);
        }
        self.note(by, What::PutOut);
        Ok(())
    }

    fn barrier(
        &mut self,
        node: Node,
        waiter: WaiterId,
        kinds: Kinds,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        if let Node::Task(_) = node {
            self.open(node)?;
        }
        if kinds.consent && matches!(node, Node::Task(_)) {
            return Err(EngineError::WaitsForConsent(node));
        }
        if self.waiters.iter().any(|other| other.id == waiter) {
            return Err(EngineError::WaiterExists(waiter));
        }
        if self.over {
            effects.push(Effect::Wake { waiter, ok: false });
        } else {
            let until = self.undecided_of(node, Kinds::EPOCHS);
            self.waiters.push(Waiter {
                id: waiter,
                node,
                kinds,
                until,
            });
        }
        Ok(())
    }

    /// What is decided lets go what waited for it.
    pub fn let_go(&mut self, effects: &mut Vec<Effect>) {
        let mut kept: Vec<Held> = Vec::new();
        for held in std::mem::take(&mut self.outputs) {
            let gates = self.channels[&held.channel];
            let is_first = kept.iter().all(|other| other.channel != held.channel);
            let is_free = held
                .relied
                .iter()
                .all(|&id| self.decided.contains_key(&id) || !gates.has(self.kind(id)));
            if is_first && is_free {
                effects.push(Effect::Release(held.hold));
            } else {
                kept.push(held);
            }
        }
        self.outputs = kept;

        for waiter in std::mem::take(&mut self.waiters) {
            let node = waiter.node;
            let is_closed = matches!(node, Node::Object(_)) && self.open(node).is_err();
            if !is_closed && self.obstacles(&waiter).is_empty() {
                let waiter = waiter.id;
                effects.push(Effect::Wake { waiter, ok: true });
            } else {
                self.waiters.push(waiter);
            }
        }
        self.discard_needless(effects);
    }

    pub fn end_waits(&mut self, effects: &mut Vec<Effect>, is_of: impl Fn(Node) -> bool) {
        self.waiters.retain(|waiter| {
            if is_of(waiter.node) {
                let waiter = waiter.id;
                effects.push(Effect::Wake { waiter, ok: false });
            }
            !is_of(waiter.node)
        });
    }
}

fn check_gates(channel: ChannelId, gates: Kinds) -> Result<(), EngineError> {
    if gates.predictions && gates.epochs {
        Ok(())
    } else {
        Err(EngineError::RunsAhead(channel))
    }
}
