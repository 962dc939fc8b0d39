//! Inverse records: what the engine's numbers stand for.

use std::collections::HashMap;
use std::io;

use surmise_engine::UndoId;

use crate::input::Place;
use crate::speculator::{Speculator, SpeculatorError, fail};

/// What takes back something that a task has done to an object.
#[derive(Debug)]
pub(crate) enum Record {
    /// It was given input from here.
    Input(Place),
    /// It changed files of the view, and there is a mark from before.
    Files,
}

/// The records that may be applied.
#[derive(Debug, Default)]
pub(crate) struct Records {
    kept: HashMap<UndoId, Record>,
    /// How many there have been.
    made: u64,
}

impl Records {
    /// Keeps a record.
    pub(crate) fn add(&mut self, record: Record) -> UndoId {
        self.made += 1;
        let id = UndoId(self.made);
        self.kept.insert(id, record);
        id
    }

    /// Takes out a record that is not to be applied any more.
    ///
    /// # Errors
    /// When it has been taken out before.
    pub(crate) fn take(&mut self, id: UndoId) -> io::Result<Record> {
        let record = self.kept.remove(&id);
        record.ok_or_else(|| io::Error::other(format!("there is no record {id:?}")))
    }
}

impl Speculator {
    /// What a record would take back stays.
    pub(crate) fn discard_record(&mut self, id: UndoId) -> Result<(), SpeculatorError> {
        match self.records.take(id).map_err(fail("discard a record"))? {
            Record::Input(place) => self
                .inputs
                .take(place, id)
                .map_err(fail("take what was given")),
            Record::Files => self.keep_changes(id),
        }
    }

    /// Takes back what a record is of.
    pub(crate) fn apply_record(&mut self, id: UndoId) -> Result<(), SpeculatorError> {
        match self.records.take(id).map_err(fail("apply a record"))? {
            Record::Input(place) => {
                self.stats.undone("input");
                self.inputs
                    .undo(place, id)
                    .map_err(fail("take back what was given"))
            }
            // While the process stands still, and not behind it.
            Record::Files => Err(fail("apply a record")(io::Error::other(
                "it comes too late",
            ))),
        }
    }
}
