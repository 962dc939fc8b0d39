//! The undecided assumptions, and who is to be told of their decision.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::error::EngineError;
use crate::id::{ChannelId, GroupId, Id, ObjectId, TaskId, Volume, WaiterId};
use crate::kind::{Kind, Owner};

/// The parts that look again when an assumption has been decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Watcher {
    /// The first held output of this channel.
    Head(ChannelId),
    /// This waiter at a barrier.
    Barrier(WaiterId),
    /// This group's segment, by its place among all.
    Segment(GroupId, u64),
    /// The oldest acts of this group that may be undone.
    Acts(GroupId),
}

/// Who depends on a prediction not by way of another: where a rollback begins to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dependent {
    Group(GroupId),
    Object(ObjectId),
}

#[derive(Debug)]
pub(crate) struct Undecided {
    pub owner: Owner,
    pub kind: Kind,
    watchers: BTreeSet<Watcher>,
    dependents: BTreeSet<Dependent>,
}

/// All undecided assumptions. Those that were decided are only known by not being here.
#[derive(Debug, Default)]
pub(crate) struct Assumptions {
    next: u64,
    undecided: BTreeMap<Id, Undecided>,
    /// Those of `undecided` that are predictions.
    predictions: BTreeSet<Id>,
    /// Those that are epochs, rising; no volume without one.
    epochs: BTreeMap<Volume, VecDeque<Id>>,
    consent: Option<Id>,
    /// Those of `predictions` that a task decides.
    owned: BTreeMap<TaskId, BTreeSet<Id>>,
    /// Predictions that their owners have not decided and need not decide any more.
    withdrawn: BTreeSet<Id>,
}

impl Assumptions {
    pub fn assume(&mut self, owner: Owner, kind: Kind) -> Result<Id, EngineError> {
        if (owner == Owner::Person) != (kind == Kind::Consent) {
            return Err(EngineError::WrongOwner { kind, owner });
        }
        if let (Kind::Consent, Some(consent)) = (kind, self.consent) {
            return Err(EngineError::ConsentExists(consent));
        }
        self.next += 1;
        let id = Id(self.next);
        match kind {
            Kind::Consent => self.consent = Some(id),
            Kind::Prediction => {
                self.predictions.insert(id);
                if let Owner::Task(task) = owner {
                    self.owned.entry(task).or_default().insert(id);
                }
            }
            Kind::Epoch(volume) => self.epochs.entry(volume).or_default().push_back(id),
        }
        let undecided = Undecided {
            owner,
            kind,
            watchers: BTreeSet::new(),
            dependents: BTreeSet::new(),
        };
        self.undecided.insert(id, undecided);
        Ok(id)
    }

    /// The assumption, if it is undecided; none if it was decided.
    pub fn find(&self, id: Id) -> Result<Option<&Undecided>, EngineError> {
        if id.0 == 0 || id.0 > self.next {
            return Err(EngineError::UnknownAssumption(id));
        }
        Ok(self.undecided.get(&id))
    }

    /// Affirms an undecided assumption and, if it is an epoch, all earlier ones of its volume.
    /// Returns who watched them.
    pub fn affirm(&mut self, id: Id) -> Vec<Watcher> {
        let Kind::Epoch(volume) = self.undecided[&id].kind else {
            return self.remove(id).into_iter().collect();
        };
        let due: Vec<_> = self.epochs_up_to(volume, id).collect();
        due.into_iter().flat_map(|id| self.remove(id)).collect()
    }

    /// Forgets a prediction that is denied. Returns who watched it.
    pub fn deny(&mut self, id: Id) -> BTreeSet<Watcher> {
        self.remove(id)
    }

    /// The owner's decision on this one will mean nothing.
    pub fn withdraw(&mut self, id: Id) {
        self.withdrawn.insert(id);
    }

    /// Whether a decision means nothing, being on a prediction that is withdrawn. Once.
    pub fn is_needless(&mut self, id: Id) -> bool {
        self.withdrawn.remove(&id)
    }

    /// Forgets the consent: it was denied.
    pub fn deny_consent(&mut self) {
        if let Some(consent) = self.consent {
            self.remove(consent);
        }
    }

    /// Forgets an undecided assumption; of a volume's epochs, only the oldest may go.
    fn remove(&mut self, id: Id) -> BTreeSet<Watcher> {
        let Some(removed) = self.undecided.remove(&id) else {
            return BTreeSet::new();
        };
        match removed.kind {
            Kind::Consent => self.consent = None,
            Kind::Prediction => {
                self.predictions.remove(&id);
                if let Owner::Task(task) = removed.owner
                    && let Some(owned) = self.owned.get_mut(&task)
                {
                    owned.remove(&id);
                    if owned.is_empty() {
                        self.owned.remove(&task);
                    }
                }
            }
            Kind::Epoch(volume) => {
                let epochs = self.epochs.entry(volume).or_default();
                assert_eq!(
                    epochs.pop_front(),
                    Some(id),
                    "an epoch is affirmed before an older one"
                );
                if epochs.is_empty() {
                    self.epochs.remove(&volume);
                }
            }
        }
        removed.watchers
    }

    pub fn watch(&mut self, id: Id, watcher: Watcher) {
        if let Some(undecided) = self.undecided.get_mut(&id) {
            undecided.watchers.insert(watcher);
        }
    }

    pub fn unwatch(&mut self, id: Id, watcher: Watcher) {
        if let Some(undecided) = self.undecided.get_mut(&id) {
            undecided.watchers.remove(&watcher);
        }
    }

    /// Somebody depends on an assumption not by way of another.
    pub fn note_dependent(&mut self, id: Id, dependent: Dependent) {
        if let Some(undecided) = self.undecided.get_mut(&id) {
            undecided.dependents.insert(dependent);
        }
    }

    /// Who does.
    pub fn dependents(&self, id: Id) -> impl Iterator<Item = Dependent> + '_ {
        let found = self.undecided.get(&id).into_iter();
        found.flat_map(|found| &found.dependents).copied()
    }

    /// The tasks that decide undecided predictions, and which.
    pub fn owned(&self) -> &BTreeMap<TaskId, BTreeSet<Id>> {
        &self.owned
    }

    /// The one undecided consent.
    pub fn consent(&self) -> Option<Id> {
        self.consent
    }

    /// The undecided predictions.
    pub fn predictions(&self) -> &BTreeSet<Id> {
        &self.predictions
    }

    /// Whether this epoch, or an earlier one of its volume, is undecided. They are affirmed in
    /// order, so it is enough to look at the oldest.
    pub fn is_epoch_undecided(&self, volume: Volume, id: Id) -> bool {
        let oldest = self.epochs.get(&volume).and_then(VecDeque::front);
        oldest.is_some_and(|&oldest| oldest <= id)
    }

    /// The undecided epochs of a volume up to this one, rising.
    pub fn epochs_up_to(&self, volume: Volume, id: Id) -> impl Iterator<Item = Id> + '_ {
        let epochs = self.epochs.get(&volume).into_iter().flatten().copied();
        epochs.take_while(move |&epoch| epoch <= id)
    }
}
