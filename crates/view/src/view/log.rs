//! The view's log: every operation, before it is taken into the map.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use surmise_journal::{Journal, OpenError};

use super::LOG_FORMAT;
use crate::record::Operation;

/// A log that is written.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    /// `None` until the first operation.
    journal: Option<Journal<File>>,
}

impl Log {
    /// The log of a state directory; `journal` where there is one.
    pub(super) fn of(directory: &Path, journal: Option<Journal<File>>) -> Self {
        Self {
            path: directory.join("log"),
            journal,
        }
    }

    pub(super) fn append(&mut self, operation: &Operation) -> io::Result<()> {
        let journal = match &mut self.journal {
            Some(journal) => journal,
            None => {
                let created = Journal::create_at(&self.path, LOG_FORMAT);
                self.journal.insert(created.map_err(io_error)?)
            }
        };
        journal.append(&operation.encode()).map(drop)
    }

    /// Makes it durable.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        match &mut self.journal {
            Some(journal) => journal.sync(),
            None => Ok(()),
        }
    }
}

/// The errno, where there is one: a full disk is to be told as such.
fn io_error(error: OpenError) -> io::Error {
    match error {
        OpenError::Io(error) => error,
        other => io::Error::other(other),
    }
}
