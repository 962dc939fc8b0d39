//! Signals that speculating processes send.
//!
//! A signal is an object. Its sender and its receiver modify and observe it at one moment, so from then on both depend on the same. The
//! receiver takes the signal at that moment. So a rollback that reaches behind it for either reaches behind it for both. That restores
//! the receiver to before it has taken the signal, and the sender makes its call again. There is nothing else to undo.

use std::io;

use surmise_engine::{ObjectId, UndoId};

use rustix::process::Pid;

use super::numbers;
use crate::call::Call;
use crate::error::bug;
use crate::kind::Kind;
use crate::map::Map;
use crate::object::{ObjectKind, Obstacle};
use crate::world::World;

/// All signals that are sent so.
#[derive(Debug, Default)]
pub(crate) struct SentSignals {
    /// Which one a record is about.
    records: Map<UndoId, ObjectId>,
    /// The one that is being sent: it may get more records.
    current: Option<ObjectId>,
    /// How many there have been.
    made: u64,
    /// Objects that the engine may forget.
    idle: Vec<ObjectId>,
}

impl SentSignals {
    /// A process is about to send one.
    pub(crate) fn send(&mut self) -> ObjectId {
        self.made += 1;
        let object = ObjectId(numbers::SENT_SIGNALS + self.made);
        self.current = Some(object);
        object
    }

    /// What a process does to a signal has a record.
    pub(crate) fn note(&mut self, object: ObjectId, record: UndoId) {
        self.records.insert(record, object);
    }

    /// No process does anything more to the signal that is being sent.
    pub(crate) fn finish(&mut self) {
        if let Some(object) = self.current.take() {
            self.forget_if_certain(object);
        }
    }

    fn forget_if_certain(&mut self, object: ObjectId) {
        let mut others = self.records.values().chain(&self.current);
        if others.all(|other| *other != object) {
            self.idle.push(object);
        }
    }

    fn end(&mut self, records: &[UndoId]) -> io::Result<()> {
        for record in records {
            let object = self.records.remove(record);
            self.forget_if_certain(object.ok_or_else(|| bug("no signal has this record"))?);
        }
        Ok(())
    }
}

impl<W: World> ObjectKind<W> for SentSignals {
    fn kind(&self) -> Kind {
        Kind::SentSignal
    }

    fn undo(&mut self, _: &mut W, records: &[UndoId]) -> io::Result<()> {
        self.end(records)
    }

    fn release(&mut self, _: &mut W, records: &[UndoId]) -> io::Result<()> {
        self.end(records)
    }

    /// None waits that anybody could meet.
    fn is_quiet(&self) -> bool {
        true
    }

    fn obstacles(&mut self, _: &W, _: Option<Pid>, _: &Call) -> Vec<Obstacle> {
        Vec::new()
    }

    fn take_idle(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.idle)
    }
}
