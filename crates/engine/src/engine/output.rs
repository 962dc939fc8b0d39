//! Output is held, and leaves.

use super::Engine;
use crate::deps::Tracked;
use crate::effect::Effect;
use crate::error::EngineError;
use crate::id::{ChannelId, HoldId, Node};
use crate::kind::Kinds;
use crate::outputs::Leaving;
use crate::timeline::Act;

/// Output.
impl Engine {
    /// A new channel, gated by assumptions of these kinds. A channel to the person who decides may
    /// run ahead of consent, and so may one that they have allowed.
    ///
    /// # Errors
    ///
    /// The channel exists, or it would run ahead of predictions or epochs.
    pub fn open(&mut self, channel: ChannelId, gates: Kinds) -> Result<(), EngineError> {
        self.outputs.open(channel, gates)
    }

    /// Forgets a channel: no more output comes by it.
    ///
    /// # Errors
    ///
    /// There is no such channel, or it still holds output.
    pub fn close(&mut self, channel: ChannelId) -> Result<(), EngineError> {
        self.outputs.close(channel)
    }

    /// Output of a node, which depends on what the node depends on now. It is released at once, or
    /// held; an id that was released or dropped may be used again.
    ///
    /// # Errors
    ///
    /// The task or the channel is unknown; the hold is held; or the node is being rolled back.
    pub fn output(
        &mut self,
        node: Node,
        channel: ChannelId,
        hold: HoldId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        self.nodes.check_open(node)?;
        let tracked = self.nodes.tracked(node)?;
        self.outputs.check(channel, hold)?;
        if self.over {
            effects.push(Effect::Drop(hold));
            return Ok(());
        }
        let mut now = Tracked::default();
        if let Some(tracked) = tracked {
            now.take(tracked, &self.assumptions);
        }
        let mut leaving = Leaving::default();
        let arrival = self
            .outputs
            .push(channel, hold, now, &mut self.assumptions, &mut leaving);
        effects.extend(leaving.in_order().map(Effect::Release));
        self.note_output(node, channel, arrival)
    }

    /// Notes where a rollback finds an output, if one may concern it.
    fn note_output(
        &mut self,
        node: Node,
        channel: ChannelId,
        arrival: u64,
    ) -> Result<(), EngineError> {
        match node {
            Node::Task(task) => {
                let own = self.nodes.groups.open_of(task)?;
                let group = self.nodes.groups.open(own)?;
                group.timeline.spend();
                if group.speculates(&self.assumptions) {
                    let act = Act::Output { channel, arrival };
                    group.act(own, act, &mut self.assumptions);
                }
            }
            Node::Object(object) => {
                let undecided = self.assumptions.predictions();
                let outputs = &self.outputs;
                let is_held = |channel, arrival| outputs.is_held(channel, arrival);
                if let Some(found) = self.nodes.objects.get_mut(object)
                    && found
                        .reliance
                        .tracked
                        .predictions
                        .newest(undecided)
                        .is_some()
                {
                    found.put_out(channel, arrival, is_held);
                }
            }
        }
        Ok(())
    }
}
