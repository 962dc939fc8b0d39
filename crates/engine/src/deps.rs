//! What a task, an object or an output depends on.

use std::collections::BTreeMap;

use crate::assumptions::Assumptions;
use crate::extents::Extents;
use crate::id::{Id, Volume};
use crate::kind::{Kind, Kinds};

/// A set of undecided assumptions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deps {
    /// The predictions.
    pub predictions: Extents,
    /// The newest epoch of each volume; all earlier undecided ones of that volume are meant, too.
    pub epochs: BTreeMap<Volume, Id>,
    /// The consent.
    pub consent: Option<Id>,
}

impl Deps {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.predictions.is_empty() && self.epochs.is_empty() && self.consent.is_none()
    }
}

/// What is kept with each node: all but consent, which is the domain's. May name decided
/// assumptions, which mean nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracked {
    pub predictions: Extents,
    pub epochs: BTreeMap<Volume, Id>,
}

impl Tracked {
    /// Whether nothing is named; then nothing undecided is, either.
    pub fn is_empty(&self) -> bool {
        self.predictions.is_empty() && self.epochs.is_empty()
    }

    /// Whether an undecided prediction is named.
    pub fn has_prediction(&self, assumptions: &Assumptions) -> bool {
        self.predictions.newest(assumptions.predictions()).is_some()
    }

    /// Adds one assumption; consent is not kept here.
    pub fn add(&mut self, id: Id, kind: Kind, assumptions: &Assumptions) {
        match kind {
            Kind::Consent => {}
            Kind::Prediction => self.predictions.add(id, assumptions.predictions()),
            Kind::Epoch(volume) => self.raise(volume, id),
        }
    }

    /// Adds all that `other` names and is undecided.
    pub fn take(&mut self, other: &Self, assumptions: &Assumptions) {
        self.predictions
            .union(&other.predictions, assumptions.predictions());
        self.epochs
            .retain(|&volume, id| assumptions.is_epoch_undecided(volume, *id));
        for (&volume, &id) in &other.epochs {
            if assumptions.is_epoch_undecided(volume, id) {
                self.raise(volume, id);
            }
        }
    }

    /// Whether `other` names something undecided that this does not.
    pub fn lacks(&self, other: &Self, assumptions: &Assumptions) -> bool {
        let undecided = assumptions.predictions();
        let is_missing = |(&volume, &id): (&Volume, &Id)| {
            assumptions.is_epoch_undecided(volume, id)
                && self.epochs.get(&volume).is_none_or(|&own| own < id)
        };
        !self
            .predictions
            .missing(&other.predictions, undecided)
            .is_empty()
            || other.epochs.iter().any(is_missing)
    }

    fn raise(&mut self, volume: Volume, id: Id) {
        let newest = self.epochs.entry(volume).or_insert(id);
        *newest = id.max(*newest);
    }

    /// The undecided ones of these kinds, exactly.
    pub fn exact(&self, kinds: Kinds, assumptions: &Assumptions) -> Deps {
        let mut deps = Deps::default();
        if kinds.predictions {
            deps.predictions = self.predictions.exact(assumptions.predictions());
        }
        if kinds.epochs {
            let undecided = |(&volume, &id): (&Volume, &Id)| {
                assumptions
                    .is_epoch_undecided(volume, id)
                    .then_some((volume, id))
            };
            deps.epochs = self.epochs.iter().filter_map(undecided).collect();
        }
        if kinds.consent {
            deps.consent = assumptions.consent();
        }
        deps
    }

    /// One undecided assumption of these kinds: the one likely to be decided last. `consent` is the
    /// one that is depended on beside these; of epochs only those `until` these are meant, if given.
    pub fn newest(
        &self,
        consent: Option<Id>,
        kinds: Kinds,
        until: Option<&BTreeMap<Volume, Id>>,
        assumptions: &Assumptions,
    ) -> Option<Id> {
        let consent = consent.filter(|&id| kinds.consent && assumptions.consent() == Some(id));
        let meant = |(&volume, &id): (&Volume, &Id)| match until {
            None => Some((volume, id)),
            Some(until) => until.get(&volume).map(|&until| (volume, id.min(until))),
        };
        let epoch = || {
            let mut epochs = self.epochs.iter().filter(|_| kinds.epochs);
            let mut meant = epochs.by_ref().filter_map(meant);
            meant.find(|&(volume, id)| assumptions.is_epoch_undecided(volume, id))
        };
        let prediction = || {
            let predictions = kinds.predictions.then_some(&self.predictions)?;
            predictions.newest(assumptions.predictions())
        };
        consent
            .or_else(|| epoch().map(|(_, id)| id))
            .or_else(prediction)
    }
}
