//! A stall by its definition, tried again until nothing changes.

use std::collections::BTreeSet;

use surmise_engine::{Id, Kind, Kinds, Node, On, Owner, TaskId};

use crate::reference::Reference;

/// Whether all live tasks wait, none can be moved by anything but the consent, and each waits for
/// it, directly or not.
pub fn is_stalled(model: &Reference) -> bool {
    let Some(consent) = model.consent() else {
        return false;
    };
    let ends = |on, consent_then: Option<Id>| match on {
        On::Consent => consent_then != Some(consent),
        _ => true,
    };
    let tasks = model.tasks();
    let moving = grow(model, |node, moving| {
        moves(model, &tasks, node, moving, &ends, &|_| true)
    });
    let concerned = grow(model, |node, concerned| {
        waits_for(model, consent, node, concerned)
    });
    let mut live = tasks.iter().map(|&task| Node::Task(task));
    !tasks.is_empty() && live.all(|task| !moving.contains(&task) && concerned.contains(&task))
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
    let owners = model
        .assumed
        .all
        .iter()
        .filter_map(|&(owner, _)| match owner {
            Owner::Task(task) => Some(Node::Task(task)),
            _ => None,
        });
    let live = model.tasks().into_iter().map(Node::Task);
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

/// Whether a node goes on if those in `moving` do. `ends` tells what else ends a wait, and `decides`
/// whether an owner that is not alive decides.
fn moves(
    model: &Reference,
    tasks: &BTreeSet<TaskId>,
    node: Node,
    moving: &BTreeSet<Node>,
    ends: &impl Fn(On, Option<Id>) -> bool,
    decides: &impl Fn(TaskId) -> bool,
) -> bool {
    let is_unblocked = model.edges.get(&node).is_none_or(|edges| {
        edges.iter().any(|&(on, consent_then)| match on {
            On::Node(other) => moving.contains(&other),
            _ => ends(on, consent_then),
        })
    });
    is_unblocked
        && awaited(model, node)
            .into_iter()
            .all(|id| match model.assumed.all[id.0 as usize - 1].0 {
                Owner::Task(owner) if tasks.contains(&owner) => moving.contains(&Node::Task(owner)),
                Owner::Task(owner) => decides(owner),
                _ => true,
            })
}

/// The newest prediction whose owner is stuck whatever the person and the outside do, or has ended,
/// and on which somebody depends who is stuck as well, or an object that is waited for.
pub fn cycle(model: &Reference) -> Option<Id> {
    let tasks = model.tasks();
    let moving = grow(model, |node, moving| {
        moves(model, &tasks, node, moving, &|_, _| true, &|_| false)
    });
    let is_stuck = |task: TaskId| !tasks.contains(&task) || !moving.contains(&Node::Task(task));
    let is_cycle = |&id: &Id| {
        let (owner, kind) = model.assumed.all[id.0 as usize - 1];
        let Owner::Task(owner) = owner else {
            return false;
        };
        let is_undecidable =
            kind == Kind::Prediction && !model.decided.contains_key(&id) && is_stuck(owner);
        let stuck = tasks.iter().copied().filter(|&task| is_stuck(task));
        let mut stuck = stuck.map(|task| model.undecided_of(Node::Task(task), Kinds::ALL));
        let mut objects = model.waiters.iter().filter(|waiter| is_object(waiter.node));
        is_undecidable
            && (stuck.any(|relied| relied.contains(&id))
                || objects.any(|waiter| model.obstacles(waiter).contains(&id)))
    };
    let mut ids: Vec<_> = model.ids().collect();
    ids.reverse();
    ids.into_iter().find(is_cycle)
}

fn is_object(node: Node) -> bool {
    matches!(node, Node::Object(_))
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
            .any(|id| match model.assumed.all[id.0 as usize - 1].0 {
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
