//! The change times that an undo left on inodes of the real tree.
//!
//! An undo gives everything back but change times, which nobody can set. Without a note of them the
//! domain's next commit would take the undo for somebody else's work. The file `undone` in the state
//! directory is a log of `surmise-journal`, tag `UNDONE`, version 2. Each frame is a key and a time, as
//! in a commit's journal: the inode, and its change time when it was whole again. Later frames of one
//! inode count.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use surmise_journal::{Format, Journal as Log, OpenError, read_at};
use surmise_view::{InodeKey, Timestamp};

use super::JournalError;
use super::codec::Field;

const FILE: &str = "undone";

const FORMAT: Format = Format {
    tag: "UNDONE",
    version: 2,
};

/// The change time of each inode that an undo gave back.
pub(crate) type Undone = HashMap<InodeKey, Timestamp>;

/// Reads what earlier undos noted.
pub(crate) fn undone(state: &Path) -> Result<Undone, JournalError> {
    let mut undone = Undone::new();
    let mut malformed = None;
    let read = read_at(&path(state), FORMAT, |sequence, payload| {
        let bytes = &mut &*payload;
        match Field::take(bytes) {
            Some((key, time)) => drop(undone.insert(key, time)),
            None => malformed = malformed.or(Some(sequence)),
        }
    });
    match (read, malformed) {
        (Err(OpenError::Io(error)), _) if error.kind() == io::ErrorKind::NotFound => Ok(undone),
        (Ok(_), None) => Ok(undone),
        (Ok(_), Some(frame)) => Err(JournalError::Malformed { file: FILE, frame }),
        (Err(source), _) => Err(failed(source)),
    }
}

/// Adds to what earlier undos noted, durably.
pub(crate) fn note_undone(state: &Path, new: Undone) -> Result<(), JournalError> {
    if new.is_empty() {
        return Ok(());
    }
    let mut all = undone(state)?;
    all.extend(new);
    let unfinished = state.join("undone.new");
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut log = Log::create_at(&unfinished, FORMAT).map_err(failed)?;
    for entry in all {
        let mut bytes = Vec::new();
        entry.put(&mut bytes);
        log.append(&bytes).map_err(failed)?;
    }
    log.sync().map_err(failed)?;
    std::fs::rename(unfinished, path(state)).map_err(failed)?;
    let directory = File::open(state).map_err(failed)?;
    directory.sync_all().map_err(failed)
}

fn path(state: &Path) -> PathBuf {
    state.join(FILE)
}

fn failed(error: impl Into<OpenError>) -> JournalError {
    JournalError::Open {
        file: FILE,
        source: error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_read_back_and_added_to() {
        let state = tempfile::tempdir().unwrap();
        let entry = |inode, seconds| {
            let time = Timestamp {
                seconds,
                nanoseconds: 9,
            };
            (InodeKey { device: 1, inode }, time)
        };
        assert_eq!(undone(state.path()).unwrap(), Undone::new());
        note_undone(state.path(), Undone::from([entry(1, 5), entry(2, 6)])).unwrap();
        // A kill left a part of a newer one.
        std::fs::write(state.path().join("undone.new"), "a part").unwrap();
        note_undone(state.path(), Undone::from([entry(2, 7), entry(3, 8)])).unwrap();
        let wanted = Undone::from([entry(1, 5), entry(2, 7), entry(3, 8)]);
        assert_eq!(undone(state.path()).unwrap(), wanted);
    }
}
