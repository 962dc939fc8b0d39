//! What a rollback consists of.

use crate::id::{CkptId, GroupId, PlanId, UndoId};

/// The rollback that one denial takes: all that depended on the denied prediction, and nothing else.
///
/// The engine has done its part already: dependencies, tasks and outputs are as the plan leaves
/// them. But the groups and objects that it concerns are closed: until the shell has said
/// [`Engine::rolled_back`](crate::Engine), their events are refused with
/// [`EngineError::RollingBack`](crate::EngineError::RollingBack). Only decisions and the ends of
/// tasks are heard meanwhile. A decision may add a further plan for the same groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// To tell when it is carried out.
    pub id: PlanId,
    /// In the order in which to do them: all of Destroy, then of Stop, Undo, Restore, Resume. So
    /// records are applied while all groups of the plan stand still, and before any memory is
    /// restored: part of that memory may be mapped files, which records bring back.
    pub steps: Vec<Step>,
}

/// One step of a rollback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// End the tasks of this group: they would not have been born. The youngest group comes first. The
    /// tasks' ends may be told until `rolled_back`, but need not.
    Destroy(GroupId),
    /// Stop the tasks of this group, with all their threads.
    Stop(GroupId),
    /// Apply this inverse record. The newest record comes first, whatever its object. Of modifications that commute,
    /// some may be undone and others not.
    Undo(UndoId),
    /// Make the group what this checkpoint holds; the checkpoint is used up by that. A task that has ended since is
    /// not brought back.
    Restore {
        /// The group.
        group: GroupId,
        /// Its newest checkpoint from before it came to depend on what was denied.
        to: CkptId,
    },
    /// Let the group go on.
    Resume(GroupId),
}
