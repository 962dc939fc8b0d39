//! The kinds of assumption, sets of them, their owners and their decisions.

use std::fmt;

use crate::id::{TaskId, Volume};

/// What an assumption claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A person will agree. At most one is undecided.
    Consent,
    /// A guessed result is right.
    Prediction,
    /// All changes of a volume up to now are durable. Affirming one affirms all earlier ones of
    /// its volume. Never denied.
    Epoch(Volume),
}

/// Who decides an assumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// The person whom the domain belongs to: owns consents, and only these. Decides whenever they
    /// like, so nothing inside may wait for it.
    Person,
    /// A task of the domain: decides only if it can run.
    Task(TaskId),
    /// A server, a device, a supervisor: decides soon, whatever happens in the domain.
    Outside,
}

/// What an owner says of its assumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It holds.
    Affirm,
    /// It does not.
    Deny,
}

/// A set of kinds; an epoch's volume does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kinds {
    /// Whether consent is in the set.
    pub consent: bool,
    /// Whether predictions are.
    pub predictions: bool,
    /// Whether epochs are.
    pub epochs: bool,
}

impl Kinds {
    /// Every kind: what gates a held channel.
    pub const ALL: Self = Self {
        consent: true,
        predictions: true,
        epochs: true,
    };

    /// What gates the person's own terminal, and a channel that they have allowed.
    pub const ALL_BUT_CONSENT: Self = Self {
        consent: false,
        ..Self::ALL
    };

    /// What keeps a call waiting that may not meet undecided state.
    pub const PREDICTIONS: Self = Self {
        consent: false,
        predictions: true,
        epochs: false,
    };

    /// What keeps a caller waiting who asks for durability.
    pub const EPOCHS: Self = Self {
        consent: false,
        predictions: false,
        epochs: true,
    };

    /// Whether `kind` is in the set.
    pub const fn has(self, kind: Kind) -> bool {
        match kind {
            Kind::Consent => self.consent,
            Kind::Prediction => self.predictions,
            Kind::Epoch(_) => self.epochs,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Consent => formatter.write_str("consent"),
            Self::Prediction => formatter.write_str("prediction"),
            Self::Epoch(volume) => write!(formatter, "epoch of {volume}"),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person => formatter.write_str("the person"),
            Self::Task(task) => task.fmt(formatter),
            Self::Outside => formatter.write_str("somebody outside"),
        }
    }
}
