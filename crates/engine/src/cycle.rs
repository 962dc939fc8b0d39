//! Whether a prediction is waited for by those whom its owner waits for.
//!
//! A task that owns a prediction decides the prediction only if the task runs. Suppose that the owner cannot run,
//! whatever the person and everybody outside do, and that a dependent of the prediction cannot run either. Then nothing
//! will ever decide the prediction for them. The same holds for a waiter of an object that depends on the prediction: the
//! engine does not know who the waiter is, and so takes the wait for one that nothing else ends. Owner and dependent may be
//! stuck for other reasons as well. But it is always safe to deny a prediction, and waiting is not safe where nobody can end
//! the wait.
//!
//! The engine denies the prediction itself, and does not ask the owner to: the owner is stuck, and between a
//! question and its answer others could come to depend on the prediction.

use crate::assumptions::Assumptions;
use crate::barriers::Barriers;
use crate::blocking::Blocking;
use crate::id::{Id, Node};
use crate::nodes::Nodes;
use crate::stall::Graph;

/// The newest prediction that is to be denied: the least work is lost with it.
pub(crate) fn find(
    nodes: &Nodes,
    blocking: &Blocking,
    barriers: &Barriers,
    assumptions: &Assumptions,
) -> Option<Id> {
    let graph = Graph::new(nodes, blocking, barriers, assumptions);
    let moving = graph.moving_with_consent();
    let is_waiting = |node| blocking.is_blocked(node) || barriers.is_waiting(node);
    let is_stuck = |node| is_waiting(node) && !moving.contains(node);
    let stuck: Vec<_> = nodes
        .tasks()
        .map(Node::Task)
        .filter(|&task| is_stuck(task))
        .chain(barriers.objects_awaited())
        .collect();
    let depends = |id: Id| {
        let tracked = stuck
            .iter()
            .filter_map(|&node| nodes.tracked(node).ok().flatten());
        tracked
            .into_iter()
            .any(|tracked| tracked.predictions.contains(id))
    };
    let owned = assumptions.owned().iter();
    let undecidable = owned.filter(|&(&owner, _)| {
        let has_ended = nodes.groups.of(owner).is_err();
        has_ended || is_stuck(Node::Task(owner))
    });
    let mut ids: Vec<_> = undecidable.flat_map(|(_, ids)| ids).copied().collect();
    ids.sort_unstable();
    ids.into_iter().rev().find(|&id| depends(id))
}
