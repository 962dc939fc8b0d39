//! Pipes that a task has shut which may be undone: its images have the pipe open, and a reader is told of the end.
//!
//! The reader then depends on all that the task depends on. So the task modifies an object of its own at that moment, and
//! the reader observes the object. There is nothing to undo: a task that is restored has its ends from its image.

use std::io;

use rustix::process::Pid;
use surmise_engine::{ObjectId, UndoId};

use super::numbers;
use crate::call::Call;
use crate::error::bug;
use crate::kind::Kind;
use crate::map::Map;
use crate::object::{ObjectKind, Obstacle};
use crate::world::World;

/// What readers depend on that were told of the end of a pipe.
#[derive(Debug, Default)]
pub(crate) struct ShutPipes {
    objects: Map<UndoId, ObjectId>,
    /// How many there have been.
    made: u64,
    /// Objects that the engine may forget.
    idle: Vec<ObjectId>,
}

impl ShutPipes {
    /// An object for what a task has shut, which the task modifies with this record.
    pub(crate) fn note(&mut self, record: UndoId) -> ObjectId {
        self.made += 1;
        let object = ObjectId(numbers::SHUT_PIPES + self.made);
        self.objects.insert(record, object);
        object
    }

    fn end(&mut self, record: UndoId) -> io::Result<()> {
        let object = self.objects.remove(&record);
        let object = object.ok_or_else(|| bug("no pipe was shut by this record"))?;
        self.idle.push(object);
        Ok(())
    }
}

impl<W: World> ObjectKind<W> for ShutPipes {
    fn kind(&self) -> Kind {
        Kind::ShutPipe
    }

    fn undo(&mut self, _: &mut W, records: &[UndoId]) -> io::Result<()> {
        records.iter().try_for_each(|&record| self.end(record))
    }

    fn release(&mut self, _: &mut W, records: &[UndoId]) -> io::Result<()> {
        records.iter().try_for_each(|&record| self.end(record))
    }

    fn is_quiet(&self) -> bool {
        self.objects.is_empty()
    }

    /// What a call sees of a pipe depends on the processes that have the pipe open at that moment, which are looked for then.
    fn obstacles(&mut self, _: &W, _: Option<Pid>, _: &Call) -> Vec<Obstacle> {
        Vec::new()
    }

    fn take_idle(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.idle)
    }
}
