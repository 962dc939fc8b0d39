//! What a rollback consists of.

use crate::id::{CkptId, GroupId, PlanId, TaskId, UndoId};

/// The rollback that one denial takes: all that depended on the denied prediction, and nothing else.
///
/// The engine has done its part already: dependencies, threads and outputs are as the plan leaves
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
    /// End all tasks of this group: it would not have been born. The youngest group comes first.
    Destroy(GroupId),
    /// Stop all tasks of this group.
    Stop(GroupId),
    /// Apply this inverse record. The newest record comes first, whatever its object.
    Undo(UndoId),
    /// Make the group what this checkpoint holds; the checkpoint is used up by that.
    Restore {
        /// The group.
        group: GroupId,
        /// Its newest checkpoint from before it came to depend on what was denied.
        to: CkptId,
        /// Its threads that began since, to be ended; rising. Their ends may be told until
        /// `rolled_back`, but need not.
        begun: Vec<TaskId>,
        /// Its threads that ended since, to be made again; rising. They are live tasks.
        ended: Vec<TaskId>,
    },
    /// Let the group go on.
    Resume(GroupId),
}
