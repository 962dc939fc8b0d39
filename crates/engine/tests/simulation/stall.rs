//! A stall by its definition, tried again until nothing changes.

use std::collections::BTreeSet;

use surmise_engine::{Id, Node, On, Owner};

use crate::reference::Reference;

/// Whether all live tasks wait, none can be moved by anything but the consent, and each waits for
/// it, directly or not.
pub fn is_stalled(model: &Reference) -> bool {
    let Some(consent) = model.consent() else {
        return false;
    };
    let moving = grow(model, |node, moving| moves(model, consent, node, moving));
    let concerned = grow(model, |node, concerned| {
        waits_for(model, consent, node, concerned)
    });
    let mut live = model.tasks.iter().map(|&task| Node::Task(task));
    !model.tasks.is_empty() && live.all(|task| !moving.contains(&task) && concerned.contains(&task))
}

/// The least set that has all that `belongs` says, given the set.
fn grow(model: &Reference, belongs: impl Fn(Node, &BTreeSet<Node>) -> bool) -> BTreeSet<Node> {
    let named = model.edges.iter().flat_map(|(&node, edges)| {
        let others = edges.iter().filter_map(|&(on, _)| match on {
            On::Node(other) => Some(other),
            _ => None,
        });
        others.chain([node])
    });
    let owners = model.assumed.iter().filter_map(|&(owner, _)| match owner {
        Owner::Task(task) => Some(Node::Task(task)),
        _ => None,
    });
    let live = model.tasks.iter().map(|&task| Node::Task(task));
    let all: BTreeSet<_> = named.chain(owners).chain(live).collect();
    let mut set = BTreeSet::new();
    loop {
        let grown: BTreeSet<_> = all
            .iter()
            .copied()
            .filter(|&node| belongs(node, &set))
            .collect();
        if grown == set {
            return set;
        }
        set = grown;
    }
}

fn moves(model: &Reference, consent: Id, node: Node, moving: &BTreeSet<Node>) -> bool {
    let is_unblocked = model.edges.get(&node).is_none_or(|edges| {
        edges.iter().any(|&(on, consent_then)| match on {
            On::Consent => consent_then != Some(consent),
            On::Node(other) => moving.contains(&other),
            On::Time | On::Person | On::Input => true,
        })
    });
    is_unblocked
        && awaited(model, node)
            .into_iter()
            .all(|id| match model.assumed[id.0 as usize - 1].0 {
                Owner::Task(owner) => moving.contains(&Node::Task(owner)),
                _ => true,
            })
}

fn waits_for(model: &Reference, consent: Id, node: Node, concerned: &BTreeSet<Node>) -> bool {
    let edges = model.edges.get(&node).into_iter().flatten();
    let mut edges = edges.map(|&(on, consent_then)| match on {
        On::Consent => consent_then == Some(consent),
        On::Node(other) => concerned.contains(&other),
        _ => false,
    });
    edges.any(|concerned| concerned)
        || awaited(model, node)
            .into_iter()
            .any(|id| match model.assumed[id.0 as usize - 1].0 {
                Owner::Task(owner) => concerned.contains(&Node::Task(owner)),
                _ => false,
            })
}

fn awaited(model: &Reference, node: Node) -> BTreeSet<Id> {
    match node {
        Node::Task(task) => model.awaited(task),
        Node::Object(_) => BTreeSet::new(),
    }
}
