//! What the engine answers with: plain data for the shell to carry out, in this order.

use crate::deps::Deps;
use crate::id::{CkptId, GroupId, HoldId, Id, TaskId, UndoId, WaiterId};
use crate::plan::Plan;

/// How a task meets an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// It takes the object's dependencies.
    Observe,
    /// It gives the object its own, and learns nothing of what was there. Yet it takes the object's
    /// predictions: were one of them denied, the inverse records of what it depends on would be
    /// applied below this modification, and take it along.
    ///
    /// The shell names the inverse record that it has made. It makes none (`None`) for a task that
    /// it believes to depend on no prediction; [`Answer::UndoFirst`] says when it has to.
    Modify(Option<UndoId>),
    /// Both, as nearly every modification does.
    Both(Option<UndoId>),
    /// It modifies the object in a way that commutes with all others that do so: the times and link counts of a
    /// directory, entries of different names. So it gives the object its dependencies, and takes only those
    /// predictions that a modification of another kind gave the object: tasks that commute on an object do not
    /// come to depend on each other. A task that observes the object, or modifies it otherwise, depends on
    /// all of them.
    ///
    /// The inverse record takes back this modification alone, whatever commuting ones came after it, and
    /// whichever of them stay.
    Commute(Option<UndoId>),
}

/// Whether an access may go on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "only with Go an access or a dependency has been noted"]
pub enum Answer {
    /// It has been noted and may happen. If it named an undo record, that record is the engine's
    /// now: exactly one [`Step::Undo`](crate::Step::Undo) or [`Effect::DiscardUndo`] names it,
    /// perhaps at once.
    Go,
    /// It has not been noted: the group would come to depend on a prediction, and has no checkpoint
    /// that it could be restored to. To be repeated after [`Engine::checkpointed`](crate::Engine).
    CheckpointFirst(GroupId),
    /// It has not been noted: the task depends on predictions, or would by this access, so the
    /// modification may have to be undone. To be repeated with an undo record.
    UndoFirst,
}

/// Whether a task may be given a guessed result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "only with Go a prediction has been made"]
pub enum Guess {
    /// It may: the prediction is made, and the task's group depends on it.
    Go(Id),
    /// Not before the group has a new checkpoint. To be repeated after
    /// [`Engine::checkpointed`](crate::Engine).
    CheckpointFirst(GroupId),
    /// Too many predictions are undecided. It may be tried again once this one, the oldest, is
    /// decided; or the call takes its true time.
    Wait(Deps),
}

/// Whether the lives of two tasks are one from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "only with Go the groups have been merged"]
pub enum Merged {
    /// They are: this is their group.
    Go(GroupId),
    /// Not yet, since this task depends on a prediction. It may be tried again once the task depends on none: a
    /// [barrier](crate::Engine::barrier) tells when.
    WaitFirst(TaskId),
}

/// What the shell has to do. One event's effects come in the order in which to do them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Let this output out. Each hold is released or dropped exactly once.
    Release(HoldId),
    /// Throw this output away.
    Drop(HoldId),
    /// The wait of this waiter is over. Each waiter is woken exactly once, unless withdrawn.
    Wake {
        /// Who waited.
        waiter: WaiterId,
        /// Whether its node has no such dependency left. Not so when its task has ended or is rolled
        /// back, its object is forgotten, or the domain is over.
        ok: bool,
    },
    /// All live tasks wait, and only a decision on the consent can end that. Comes once, until
    /// [`Effect::Unstalled`].
    Stalled {
        /// The live tasks, in the order of their ids.
        tasks: Vec<TaskId>,
        /// The consent.
        on: Id,
    },
    /// What [`Effect::Stalled`] said is over.
    Unstalled,
    /// A prediction was denied, and this is what has to be taken back, to be followed by
    /// [`Engine::rolled_back`](crate::Engine). Plans are carried out in the order in which they
    /// come, each before the effects behind it.
    Plan(Plan),
    /// The code that this prediction was made for, or by, is undone: it is not to be decided any
    /// more. A decision that comes all the same is accepted, once, and means nothing.
    Withdrawn(Id),
    /// Those who wait for this prediction and its owner, a task, wait for each other. It is denied
    /// hereby; what follows from that comes with it. The owner's decision is accepted as for a
    /// withdrawn one.
    DeniedForCycle(Id),
    /// No undecided prediction would restore this checkpoint any more, or its group has ended. Each
    /// checkpoint is restored or discarded exactly once.
    DiscardCheckpoint(CkptId),
    /// What this record would undo stays. Each record is undone or discarded exactly once.
    DiscardUndo(UndoId),
}
