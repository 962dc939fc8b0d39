//! Opaque numbers for everything that the engine relates to each other.

use std::fmt;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident $word:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, concat!($word, " {}"), self.0)
            }
        }
    )*};
}

ids! {
    /// An assumption. The engine hands these out, rising and never twice.
    Id "assumption";
    /// A supervised thread or process. Chosen by the shell; unique among live tasks and those that a
    /// plan ends which is not yet carried out. Threads share memory, so they are rolled back together:
    /// a process that speculates is one task.
    TaskId "task";
    /// The life of one task with all its memory, or of several that share what nobody tracks: what a checkpoint
    /// holds, and what a plan restores or destroys. The engine hands these out, rising and never twice, though a
    /// task's number may come again.
    GroupId "group";
    /// A restorable image of a group. Chosen by the shell; unique among those that are neither
    /// discarded nor restored.
    CkptId "checkpoint";
    /// An inverse record in an object's undo log. Chosen by the shell; unique among those that are
    /// neither discarded nor undone.
    UndoId "undo record";
    /// A rollback to be carried out. The engine hands these out, rising and never twice.
    PlanId "plan";
    /// Any state that can carry a dependency. Chosen by the shell; exists by being named.
    ObjectId "object";
    /// A way across the boundary whose outputs stay in order. Chosen by the shell.
    ChannelId "channel";
    /// One output as the outbox keeps it. Chosen by the shell; unique among held outputs.
    HoldId "hold";
    /// A waiter at a barrier. Chosen by the shell; unique among pending barriers.
    WaiterId "waiter";
    /// A file system whose changes become durable in epochs.
    Volume "volume";
}

/// What can depend on assumptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// A task.
    Task(TaskId),
    /// An object.
    Object(ObjectId),
}

impl From<TaskId> for Node {
    fn from(task: TaskId) -> Self {
        Self::Task(task)
    }
}

impl From<ObjectId> for Node {
    fn from(object: ObjectId) -> Self {
        Self::Object(object)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(task) => task.fmt(formatter),
            Self::Object(object) => object.fmt(formatter),
        }
    }
}
