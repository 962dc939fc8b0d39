//! Barriers: who waits until their node has no dependencies of some kinds.
//!
//! A task waits itself, so its wait ends when the task ends or is rolled back. An object's waiter is
//! somebody else, so a rollback of the object does not end the wait. It only keeps the waiter from being
//! woken: what the engine says of an object that is being rolled back, the object is not yet.

use std::collections::{BTreeMap, BTreeSet};

use crate::assumptions::{Assumptions, Watcher};
use crate::error::EngineError;
use crate::id::{Id, Node, Volume, WaiterId};
use crate::kind::Kinds;
use crate::nodes::Nodes;

/// The pending barriers.
#[derive(Debug, Default)]
pub(crate) struct Barriers {
    pending: BTreeMap<WaiterId, Barrier>,
    by_node: BTreeMap<Node, BTreeSet<WaiterId>>,
    arrivals: u64,
}

/// One wait. It ends when its node depends on nothing of the kinds, whatever it depended on when
/// the wait began; so the assumption that it watches is only the next at which to look. Only of an
/// object's epochs it ends with those that there were then: epochs follow each other without end, and
/// one that comes later has nothing of what the waiter asked for.
#[derive(Debug)]
struct Barrier {
    arrival: u64,
    node: Node,
    kinds: Kinds,
    /// The newest epochs of an object when the wait began.
    until: Option<BTreeMap<Volume, Id>>,
    /// None while its object is being rolled back: it is looked at again after that.
    watching: Option<Id>,
}

/// Why a wait goes on.
enum Obstacle {
    /// Its node depends on this.
    Undecided(Id),
    /// Its object is being rolled back.
    RollingBack,
}

impl Barrier {
    /// What keeps the waiter waiting, if anything does.
    fn obstacle(
        &self,
        nodes: &Nodes,
        assumptions: &Assumptions,
    ) -> Result<Option<Obstacle>, EngineError> {
        if let Node::Object(object) = self.node
            && nodes.objects.check_open(object).is_err()
        {
            return Ok(Some(Obstacle::RollingBack));
        }
        let consent = assumptions.consent().filter(|_| self.kinds.consent);
        let undecided = match nodes.tracked(self.node)? {
            Some(tracked) => {
                let until = self.until.as_ref();
                tracked.newest(consent, self.kinds, until, assumptions)
            }
            None => consent,
        };
        Ok(undecided.map(Obstacle::Undecided))
    }
}

impl Obstacle {
    /// Has the waiter looked at again once this is over. Returns what is watched.
    fn watch(self, waiter: WaiterId, assumptions: &mut Assumptions) -> Option<Id> {
        match self {
            Self::Undecided(id) => {
                assumptions.watch(id, Watcher::Barrier(waiter));
                Some(id)
            }
            Self::RollingBack => None,
        }
    }
}

/// Waits that one event ends.
#[derive(Debug, Default)]
pub(crate) struct Ended(Vec<(u64, WaiterId, Node)>);

impl Ended {
    /// In the order in which they began.
    pub fn in_order(mut self) -> impl Iterator<Item = (WaiterId, Node)> {
        self.0.sort_unstable();
        self.0.into_iter().map(|(_, waiter, node)| (waiter, node))
    }
}

impl Barriers {
    /// Whether a wait may be given to [`Self::begin`].
    pub fn check(&self, node: Node, waiter: WaiterId, kinds: Kinds) -> Result<(), EngineError> {
        // An object's waiter is not its task: it may be outside, and wait for the person.
        if kinds.consent && matches!(node, Node::Task(_)) {
            return Err(EngineError::WaitsForConsent(node));
        }
        if self.pending.contains_key(&waiter) {
            return Err(EngineError::WaiterExists(waiter));
        }
        Ok(())
    }

    /// Begins a wait that was checked. False if there is nothing to wait for.
    pub fn begin(
        &mut self,
        node: Node,
        waiter: WaiterId,
        kinds: Kinds,
        nodes: &Nodes,
        assumptions: &mut Assumptions,
    ) -> Result<bool, EngineError> {
        let until = match node {
            Node::Task(_) => None,
            Node::Object(_) => Some(nodes.deps(node, Kinds::EPOCHS, assumptions)?.epochs),
        };
        let mut barrier = Barrier {
            arrival: self.arrivals + 1,
            node,
            kinds,
            until,
            watching: None,
        };
        let Some(obstacle) = barrier.obstacle(nodes, assumptions)? else {
            return Ok(false);
        };
        barrier.watching = obstacle.watch(waiter, assumptions);
        self.arrivals = barrier.arrival;
        self.pending.insert(waiter, barrier);
        self.by_node.entry(node).or_default().insert(waiter);
        Ok(true)
    }

    /// Looks again at a wait that watches nothing any more: what it watched is decided, either way, or
    /// was unwatched.
    pub fn look_again(
        &mut self,
        waiter: WaiterId,
        nodes: &Nodes,
        assumptions: &mut Assumptions,
        ended: &mut Ended,
    ) {
        let Some(barrier) = self.pending.get_mut(&waiter) else {
            return;
        };
        barrier.watching = None;
        let next = barrier
            .obstacle(nodes, assumptions)
            .expect("a task's waits end with it");
        if let Some(next) = next {
            barrier.watching = next.watch(waiter, assumptions);
        } else {
            self.finish(waiter, assumptions, ended);
        }
    }

    /// Looks again at all waits of a node that depends on less than before, or is rolled back.
    pub fn look_afresh(
        &mut self,
        node: Node,
        nodes: &Nodes,
        assumptions: &mut Assumptions,
        ended: &mut Ended,
    ) {
        for waiter in self.waiters(node).collect::<Vec<_>>() {
            if let Some(watching) = self.pending[&waiter].watching {
                assumptions.unwatch(watching, Watcher::Barrier(waiter));
            }
            self.look_again(waiter, nodes, assumptions, ended);
        }
    }

    /// Ends a wait whatever its node depends on; false if there is none.
    pub fn finish(
        &mut self,
        waiter: WaiterId,
        assumptions: &mut Assumptions,
        ended: &mut Ended,
    ) -> bool {
        let Some(barrier) = self.pending.remove(&waiter) else {
            return false;
        };
        if let Some(watching) = barrier.watching {
            assumptions.unwatch(watching, Watcher::Barrier(waiter));
        }
        if let Some(waiters) = self.by_node.get_mut(&barrier.node) {
            waiters.remove(&waiter);
            if waiters.is_empty() {
                self.by_node.remove(&barrier.node);
            }
        }
        ended.0.push((barrier.arrival, waiter, barrier.node));
        true
    }

    /// Ends all waits of a node.
    pub fn finish_node(&mut self, node: Node, assumptions: &mut Assumptions, ended: &mut Ended) {
        for waiter in self.waiters(node).collect::<Vec<_>>() {
            self.finish(waiter, assumptions, ended);
        }
    }

    /// Ends all waits.
    pub fn finish_all(&mut self, assumptions: &mut Assumptions, ended: &mut Ended) {
        for waiter in self.pending.keys().copied().collect::<Vec<_>>() {
            self.finish(waiter, assumptions, ended);
        }
    }

    /// The kinds that a node waits for; none if it does not wait.
    pub fn kinds(&self, node: Node) -> Kinds {
        self.waiters(node).fold(Kinds::default(), |all, waiter| {
            let kinds = self.pending[&waiter].kinds;
            Kinds {
                consent: all.consent || kinds.consent,
                predictions: all.predictions || kinds.predictions,
                epochs: all.epochs || kinds.epochs,
            }
        })
    }

    /// Whether anybody waits for a node.
    pub fn is_waiting(&self, node: Node) -> bool {
        self.by_node.contains_key(&node)
    }

    /// The objects that somebody waits for to be free of predictions.
    pub fn objects_awaited(&self) -> impl Iterator<Item = Node> + '_ {
        let objects = self.by_node.keys().copied();
        objects.filter(|&node| matches!(node, Node::Object(_)) && self.kinds(node).predictions)
    }

    fn waiters(&self, node: Node) -> impl Iterator<Item = WaiterId> + '_ {
        self.by_node.get(&node).into_iter().flatten().copied()
    }
}
