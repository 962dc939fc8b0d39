//! What a kind of object does for its tasks: see to it that what they do can be taken back, or held.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::Pid;
use surmise_engine::{HoldId, ObjectId, UndoId};
use surmise_sys::seccomp::Answer;

use crate::call::Call;
use crate::kind::Kind;
use crate::world::World;

/// What a kind says of an act of a task.
#[derive(Debug)]
pub(crate) enum Did {
    /// It has to wait until its task depends on nothing undecided.
    Wait,
    /// It has to wait until its task depends on nothing undecided, or there is input. What is readable then, unless input comes
    /// by acts of tasks alone.
    Sleeps(Option<OwnedFd>),
    /// It gets this answer, and there is nothing that the engine has to know.
    Known(Answer),
    /// The task observes and modifies an object, by the inverse record that was offered. Once the engine has taken
    /// note of it, the call gets this answer.
    Accesses {
        /// The object.
        object: ObjectId,
        /// One that the task observes besides.
        observes: Option<ObjectId>,
        /// The answer.
        answer: Answer,
    },
    /// The call has its answer, and the task has put out something.
    PutOut(HoldId),
    /// The caller was killed before it had its answer.
    Gone,
}

/// An object that a call would touch, whose undecided state is not the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Obstacle {
    pub(crate) object: ObjectId,
    /// Whether the caller may go on when it depends on the same; else it waits until the object depends on nothing.
    pub(crate) may_depend: bool,
    /// Whether the call of a process that depends on something itself leaves the object alone: it is recorded what that does.
    pub(crate) spares_members: bool,
}

/// One kind of object. Kinds know nothing of each other, and nothing of what depends on what: the engine does.
pub(crate) trait ObjectKind<W: World> {
    /// Which one it is.
    fn kind(&self) -> Kind;

    /// What records of this kind have done is taken back, all at once. The newest record comes first; their tasks stand
    /// still.
    fn undo(&mut self, world: &mut W, records: &[UndoId]) -> io::Result<()>;

    /// What records of this kind have done stays, all at once. The oldest record comes first.
    fn release(&mut self, world: &mut W, records: &[UndoId]) -> io::Result<()>;

    /// A rollback is about to stop tasks and to undo these records of this kind: what stands in the way of a stop is to
    /// give way.
    fn give_way(&mut self, records: &[UndoId]) -> io::Result<()> {
        let _ = records;
        Ok(())
    }

    /// Whether nothing that a task has done to objects of this kind is undecided.
    fn is_quiet(&self) -> bool;

    /// The objects of this kind that stand in the way of a call of a process.
    fn obstacles(&mut self, world: &W, caller: Option<Pid>, call: &Call) -> Vec<Obstacle>;

    /// The objects that have become such that nothing depends on them.
    fn take_idle(&mut self) -> Vec<ObjectId>;
}
