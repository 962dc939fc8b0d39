//! How a domain gets on without its caller: one role after the other lets go of the caller.

use super::Effects;
use super::effect::Effect;
use crate::message::{Order, RelayOrder, ViewOrder};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    No,
    /// The relay process lets go of the caller's streams.
    Streams,
    /// The view lets go of standard error.
    View,
    /// pid 1 is told that its parent will change.
    Parent,
    Done,
}

impl Leaving {
    /// Whether the caller is there, and stays.
    pub(super) fn has_caller(self) -> bool {
        self == Self::No
    }

    /// Whether the roles are busy with it.
    pub(super) fn is_under_way(self) -> bool {
        !matches!(self, Self::No | Self::Done)
    }

    pub(super) fn begin<V>(&mut self, effects: &mut Effects<V>) {
        *self = Self::Streams;
        effects.push(Effect::Relay(RelayOrder::Detach));
    }

    /// The relay process has let go.
    pub(super) fn streams_are_let_go<V>(&mut self, effects: &mut Effects<V>) {
        if *self == Self::Streams {
            *self = Self::View;
            effects.push(Effect::View(ViewOrder::LetGo));
        }
    }

    /// Whether the next answer of pid 1 or the view is for this.
    pub(super) fn waits_for_answer(self) -> bool {
        matches!(self, Self::View | Self::Parent)
    }

    /// The answer is there.
    pub(super) fn goes_on<V>(&mut self, effects: &mut Effects<V>) {
        match self {
            Self::View => {
                *self = Self::Parent;
                effects.push(Effect::Init(Order::Adopt));
            }
            Self::Parent => *self = Self::Done,
            Self::No | Self::Streams | Self::Done => {}
        }
    }
}
