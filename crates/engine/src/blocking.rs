//! Who cannot run, and what could change that.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{Id, Node};

/// What could end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum On {
    /// The person's decision on what is held: a reply that cannot come before the request leaves.
    Consent,
    /// Another task, or an object by way of whoever it is blocked on in turn.
    Node(Node),
    /// A clock.
    Time,
    /// The person, at the terminal.
    Person,
    /// Something from outside that does not take a decision: the caller's standard input, a
    /// connection that is not held.
    Input,
}

/// [`On`], with the consent that is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Edge {
    Consent(Id),
    Node(Node),
    Outside,
}

/// What could unblock each blocked node: any one of its edges.
#[derive(Debug, Default)]
pub(crate) struct Blocking {
    edges: BTreeMap<Node, BTreeSet<Edge>>,
}

impl Blocking {
    pub fn add(&mut self, node: Node, edge: Edge) {
        self.edges.entry(node).or_default().insert(edge);
    }

    pub fn clear(&mut self, node: Node) {
        self.edges.remove(&node);
    }

    pub fn is_blocked(&self, node: Node) -> bool {
        self.edges.contains_key(&node)
    }

    /// Whether something outside the domain could unblock the node.
    pub fn is_outside(&self, node: Node) -> bool {
        let edges = self.edges.get(&node);
        edges.is_some_and(|edges| edges.contains(&Edge::Outside))
    }

    /// Every blocked node with its edges.
    pub fn iter(&self) -> impl Iterator<Item = (Node, &BTreeSet<Edge>)> {
        self.edges.iter().map(|(&node, edges)| (node, edges))
    }
}
