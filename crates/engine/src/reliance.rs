//! What an object depends on, and which part of that those who commute take.

use crate::assumptions::Assumptions;
use crate::deps::Tracked;
use crate::effect::Access;
use crate::extents::Extents;
use crate::id::Id;
use crate::kind::Kind;

/// What an object depends on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reliance {
    /// All of that: what observers take.
    pub tracked: Tracked,
    /// The predictions that are not only those of commuting modifications since the last of another kind. None if
    /// these are all predictions in `tracked`.
    ordered: Option<Box<Extents>>,
}

impl Reliance {
    /// The predictions that a task comes to depend on by this access.
    pub fn predictions_for(&self, access: Access) -> &Extents {
        match (access, &self.ordered) {
            (Access::Commute(_), Some(ordered)) => ordered,
            _ => &self.tracked.predictions,
        }
    }

    /// A task that depends on `by` modifies the object in a way that has an order among all modifications. Returns
    /// what was before, if this gives it anything.
    pub fn modify(&mut self, by: &Tracked, assumptions: &Assumptions) -> Option<Box<Self>> {
        let gives = self.tracked.lacks(by, assumptions);
        let before = gives.then(|| Box::new(self.clone()));
        self.ordered = None;
        self.tracked.take(by, assumptions);
        before
    }

    /// A task that depends on `by` modifies the object in a way that commutes. Returns what was before, if
    /// this gives it anything.
    pub fn commute(&mut self, by: &Tracked, assumptions: &Assumptions) -> Option<Box<Self>> {
        if !self.tracked.lacks(by, assumptions) {
            return None;
        }
        let before = Box::new(self.clone());
        let predictions = &self.tracked.predictions;
        self.ordered
            .get_or_insert_with(|| Box::new(predictions.clone()));
        self.tracked.take(by, assumptions);
        Some(before)
    }

    /// The group that alone has modified the object, in a way that has an order, gains predictions afterwards.
    pub fn gain(&mut self, gained: &Extents, assumptions: &Assumptions) {
        // A commuting modification since would have ended that the group gains.
        assert!(
            self.ordered.is_none(),
            "a modification has an order, and commutes"
        );
        let undecided = assumptions.predictions();
        self.tracked.predictions.union(gained, undecided);
    }

    /// The object comes to depend on an undecided assumption by itself, and everybody who meets it, too.
    pub fn add(&mut self, id: Id, kind: Kind, assumptions: &Assumptions) {
        if let (Kind::Prediction, Some(ordered)) = (kind, &mut self.ordered) {
            ordered.add(id, assumptions.predictions());
        }
        self.tracked.add(id, kind, assumptions);
    }
}
