//! What files were that a commit could not change because of a flag.
//!
//! The file `flagged` in the state directory is a log of `surmise-journal`, tag `FLAGGED`, version 1. Each frame
//! is a state, as in a commit's journal, and a fingerprint ([`crate::flagged`]): its length as `u32`, and the
//! bytes.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use surmise_journal::{Format, Journal as Log, OpenError, read_at};
use surmise_view::{Identity, InodeKey};

use super::codec::Field;

const FORMAT: Format = Format {
    tag: "FLAGGED",
    version: 1,
};

/// The state of each inode when its domain first used it, and its fingerprint, which it still had when it was
/// found flagged.
pub(crate) type Flagged = HashMap<InodeKey, (Identity, Vec<u8>)>;

/// Reads what earlier commits noted. What can't be read counts as not noted: then a change time that has moved
/// on is a conflict, as everywhere.
pub(crate) fn flagged(state: &Path) -> Flagged {
    let mut flagged = Flagged::new();
    let read = read_at(&path(state), FORMAT, |_, payload| {
        let bytes = &mut &*payload;
        let entry: Option<(Identity, Vec<u8>)> = Field::take(bytes);
        flagged.extend(entry.map(|entry| (entry.0.key(), entry)));
    });
    match read {
        Ok(_) => flagged,
        Err(_) => Flagged::new(),
    }
}

/// Adds to what earlier commits noted.
pub(crate) fn note_flagged(state: &Path, new: Flagged) -> Result<(), OpenError> {
    let mut all = flagged(state);
    all.extend(new);
    let unfinished = state.join("flagged.new");
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let mut log = Log::create_at(&unfinished, FORMAT)?;
    for entry in all.into_values() {
        let mut bytes = Vec::new();
        entry.put(&mut bytes);
        log.append(&bytes)?;
    }
    log.sync()?;
    std::fs::rename(unfinished, path(state))?;
    Ok(File::open(state)?.sync_all()?)
}

fn path(state: &Path) -> PathBuf {
    state.join("flagged")
}

#[cfg(test)]
mod tests {
    use super::*;
    use surmise_view::{FileKind, Timestamp};

    #[test]
    fn what_is_noted_is_read_back_and_what_is_damaged_is_not_believed() {
        let state = tempfile::tempdir().unwrap();
        let entry = |inode, print: &[u8]| {
            let time = Timestamp {
                seconds: 5,
                nanoseconds: 9,
            };
            let identity = Identity {
                device: 1,
                inode,
                kind: FileKind::Regular,
                size: 3,
                modified: time,
                changed: time,
            };
            (identity.key(), (identity, print.to_vec()))
        };
        assert_eq!(flagged(state.path()), Flagged::new());
        note_flagged(
            state.path(),
            Flagged::from([entry(1, b"a"), entry(2, b"b")]),
        )
        .unwrap();
        std::fs::write(state.path().join("flagged.new"), "a part").unwrap();
        note_flagged(state.path(), Flagged::from([entry(2, b"c")])).unwrap();
        let wanted = Flagged::from([entry(1, b"a"), entry(2, b"c")]);
        assert_eq!(flagged(state.path()), wanted);
        let path = state.path().join("flagged");
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 20;
        bytes[last] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(flagged(state.path()).len() < 2);
    }
}
