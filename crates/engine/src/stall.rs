//! Whether a domain has stalled: nothing in it can move before the person decides.
//!
//! Waiting is a graph of conditions. A blocked node waits for *any* of its edges, a task at a
//! barrier for *all* the assumptions that hold it there, an assumption for its owner. What moves is
//! the least fixed point: running tasks, the outside, and everything that these let go on, in turn. The
//! domain has stalled if no live task moves, and each of them waits, in however many steps, for
//! the consent. Tasks that wait only for each other have a deadlock of their own, which no consent
//! would cure, and are not said to be stalled.

use std::collections::{BTreeMap, BTreeSet};

use crate::assumptions::Assumptions;
use crate::barriers::Barriers;
use crate::blocking::{Blocking, Edge};
use crate::id::{Id, Node};
use crate::kind::{Kinds, Owner};
use crate::nodes::Nodes;

/// A condition that may come true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Vertex {
    /// The node goes on.
    Moves(Node),
    /// One of the things that the node is blocked on happens.
    Unblocks(Node),
    /// The assumption is decided.
    Decided(Id),
}

/// Who waits for whom.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// What each condition helps to make true.
    feeds: BTreeMap<Vertex, Vec<Vertex>>,
    /// How many conditions each needs; one, where it is not here.
    needs: BTreeMap<Vertex, usize>,
    /// What is true whatever the tasks do.
    given: Vec<Vertex>,
    /// What the consent makes true.
    consented: Vec<Vertex>,
    /// The decisions of tasks that have ended. They keep nobody from being stalled, since denying
    /// them is no business of the person's; but they never come.
    orphaned: Vec<Vertex>,
}

/// The nodes that go on sooner or later.
pub(crate) struct Moving(BTreeSet<Vertex>);

impl Moving {
    /// Whether a waiting node is among them.
    pub fn contains(&self, node: Node) -> bool {
        self.0.contains(&Vertex::Moves(node))
    }
}

/// Whether nothing moves before the consent is decided. O(waiting nodes, edges and assumptions
/// that they wait for, each with a logarithm).
pub(crate) fn is_stalled(
    nodes: &Nodes,
    blocking: &Blocking,
    barriers: &Barriers,
    assumptions: &Assumptions,
) -> bool {
    let is_waiting = |node| blocking.is_blocked(node) || barriers.is_waiting(node);
    let live = || nodes.tasks().map(Node::Task);
    if nodes.tasks().len() == 0 || !live().all(is_waiting) {
        return false;
    }
    let graph = Graph::new(nodes, blocking, barriers, assumptions);
    let moving = graph.moving(&[&graph.given, &graph.orphaned]);
    if live().any(|task| moving.contains(&Vertex::Moves(task))) {
        return false;
    }
    let concerned = graph.closure(&graph.consented, |_| 1);
    live().all(|task| concerned.contains(&Vertex::Moves(task)))
}

impl Graph {
    pub fn new(
        nodes: &Nodes,
        blocking: &Blocking,
        barriers: &Barriers,
        assumptions: &Assumptions,
    ) -> Self {
        let mut graph = Self::default();
        // Only tasks wait at barriers: an object's waiter is somebody else.
        let at_barrier = |node| matches!(node, Node::Task(_)) && barriers.is_waiting(node);
        let moves_anyway = |node| !blocking.is_blocked(node) && !at_barrier(node);
        for (node, edges) in blocking.iter() {
            let unblocks = Vertex::Unblocks(node);
            graph.feed(unblocks, Vertex::Moves(node));
            for &edge in edges {
                match edge {
                    Edge::Consent(id) if assumptions.consent() == Some(id) => {
                        graph.consented.push(unblocks);
                    }
                    Edge::Node(other) if !moves_anyway(other) => {
                        graph.feeds_any(Vertex::Moves(other), unblocks);
                    }
                    // A node that is not known to wait may act, and so may whoever answers what was
                    // held under a consent that is decided.
                    _ => graph.given.push(unblocks),
                }
            }
        }
        let mut decisions = BTreeSet::new();
        for task in nodes
            .tasks()
            .map(Node::Task)
            .filter(|&task| at_barrier(task))
        {
            for id in obstacles(task, barriers.kinds(task), nodes, assumptions) {
                graph.feed(Vertex::Decided(id), Vertex::Moves(task));
                decisions.insert(id);
            }
        }
        for id in decisions {
            let owner = assumptions.find(id).ok().flatten().map(|found| found.owner);
            match owner {
                Some(Owner::Task(task)) if !moves_anyway(Node::Task(task)) => {
                    graph.feeds_any(Vertex::Moves(Node::Task(task)), Vertex::Decided(id));
                }
                Some(Owner::Task(task)) if !nodes.is_live(task) => {
                    graph.orphaned.push(Vertex::Decided(id));
                }
                _ => graph.given.push(Vertex::Decided(id)),
            }
        }
        graph
    }

    /// What goes on sooner or later, if the person decides.
    pub fn moving_with_consent(&self) -> Moving {
        Moving(self.moving(&[&self.given, &self.consented]))
    }

    /// What goes on sooner or later, if these conditions come true.
    fn moving(&self, seeds: &[&[Vertex]]) -> BTreeSet<Vertex> {
        let needs = |vertex| self.needs.get(&vertex).copied().unwrap_or(1);
        self.closure(&seeds.concat(), needs)
    }

    /// `to` needs `from`, among others.
    fn feed(&mut self, from: Vertex, to: Vertex) {
        self.feeds_any(from, to);
        *self.needs.entry(to).or_default() += 1;
    }

    /// `from` is one of the ways to `to`.
    fn feeds_any(&mut self, from: Vertex, to: Vertex) {
        self.feeds.entry(from).or_default().push(to);
    }

    /// All that becomes true once `seeds` are. Each condition feeds another at most once, so
    /// counting arrivals counts different conditions.
    fn closure(&self, seeds: &[Vertex], needs: impl Fn(Vertex) -> usize) -> BTreeSet<Vertex> {
        let mut met: BTreeMap<Vertex, usize> = BTreeMap::new();
        let mut truths = BTreeSet::new();
        let mut open = seeds.to_vec();
        while let Some(vertex) = open.pop() {
            let met = met.entry(vertex).or_default();
            *met += 1;
            if *met < needs(vertex) || !truths.insert(vertex) {
                continue;
            }
            open.extend(self.feeds.get(&vertex).into_iter().flatten());
        }
        truths
    }
}

/// All undecided assumptions of these kinds that a node depends on.
fn obstacles(node: Node, kinds: Kinds, nodes: &Nodes, assumptions: &Assumptions) -> Vec<Id> {
    let Ok(deps) = nodes.deps(node, kinds, assumptions) else {
        return Vec::new();
    };
    let predictions = deps.predictions.members(assumptions.predictions());
    let epochs = deps.epochs.iter();
    let epochs = epochs.flat_map(|(&volume, &id)| assumptions.epochs_up_to(volume, id));
    predictions.chain(epochs).collect()
}
