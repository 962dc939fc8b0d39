//! The seal of a domain that is kept: what its state directory held when nobody ran in it any more.
//!
//! A disk may lose a file, cut it short or change it. What is sealed and is not so any more is damaged: nothing
//! of such a domain is committed, sent or shown as if it were whole. The logs end with marks of their own;
//! all other files are summed up here.

mod entry;
mod error;
mod sums;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use surmise_journal::{Format, HEADER_LENGTH, Journal, OpenError};

use crate::remove;
use entry::Entry;
pub use error::SealError;

const FORMAT: Format = Format {
    tag: "SEAL",
    version: 1,
};

const SEAL: &str = "seal";

/// The logs of a domain at rest.
const LOGS: [&str; 4] = ["log", READS, "outbox", "undone"];

/// The one of them without which a domain can be committed.
pub(crate) const READS: &str = "reads";

/// Files about the domain itself.
const RECORDS: [&str; 2] = ["domain.json", "exit"];

/// The data of files.
const OBJECTS: &str = "objects";

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// All but the data of files: what tells of the domain and of its changes.
    Records,
    /// Everything.
    Data,
    /// Everything but what tells what the domain read.
    DataWithoutReads,
}

/// Seals the state directory `state`, durably. Nobody else changes anything in it meanwhile.
pub(crate) fn make(state: &Path) -> Result<(), SealError> {
    remove(state)?;
    // Marks count from when they are on the disk, so what they tell of has to be there before.
    sync(state)?;
    let unfinished = state.join("seal.new");
    discard(&unfinished)?;
    let failed = |error| SealError::of_log(&unfinished, error);
    let mut seal = Journal::create_at(&unfinished, FORMAT).map_err(failed)?;
    for entry in entries(state)? {
        for frame in entry.frames() {
            seal.append(&frame).map_err(SealError::at(&unfinished))?;
        }
    }
    drop(seal);
    surmise_journal::seal_at(&unfinished).map_err(failed)?;
    sync(state)?;
    // A seal is there when it is whole.
    fs::rename(&unfinished, state.join(SEAL)).map_err(SealError::at(&unfinished))?;
    sync_directory(state)
}

/// Takes the seal away, durably: what it covers is about to change. No seal is fine.
pub(crate) fn remove(state: &Path) -> Result<(), SealError> {
    match discard(&state.join(SEAL))? {
        true => sync_directory(state),
        false => Ok(()),
    }
}

/// Removes what the domain changed, and all that a commit of it needs. Only of one that is not sealed.
pub(crate) fn forget_changes(state: &Path) -> Result<(), SealError> {
    for name in ["log", READS, "undone", "flagged", OBJECTS, "commit.undo"] {
        let path = state.join(name);
        remove::tree(&path).map_err(SealError::at(&path))?;
    }
    Ok(())
}

/// Removes what tells what the domain read, and the seal before it.
pub(crate) fn forget_reads(state: &Path) -> Result<(), SealError> {
    remove(state)?;
    discard(&state.join(READS)).map(drop)
}

/// Whether everything under the seal is as it was. A domain without one was never at rest.
///
/// `is_committing`: whether a commit has begun. What it makes real are the objects themselves, which have left
/// the directory then or are about to.
///
/// The caller need not hold the lock. Another command may remove the seal meanwhile, and change what it covers,
/// or begin a commit, or take it back; so what differs counts only if it still does when neither was the case.
pub(crate) fn check(
    state: &Path,
    depth: Depth,
    is_committing: &dyn Fn() -> bool,
) -> Result<(), SealError> {
    loop {
        let before = (is_committing(), stamp(state)?);
        let checked = check_once(state, depth, before.0);
        if checked.is_ok() || before == (is_committing(), stamp(state)?) {
            return checked;
        }
    }
}

/// What is another for each seal that is made; `None` where there is none.
fn stamp(state: &Path) -> Result<Option<(u64, i64, i64)>, SealError> {
    let path = state.join(SEAL);
    match fs::symlink_metadata(&path) {
        Ok(found) => Ok(Some((found.ino(), found.ctime(), found.ctime_nsec()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SealError::at(&path)(error)),
    }
}

fn check_once(state: &Path, depth: Depth, is_committing: bool) -> Result<(), SealError> {
    let Some(entries) = read(state)? else {
        return Ok(());
    };
    for entry in entries {
        let is_object = entry.path.starts_with(OBJECTS);
        let is_left_out = match depth {
            Depth::Records => is_object,
            Depth::Data => false,
            Depth::DataWithoutReads => entry.path == Path::new(READS),
        };
        if is_left_out {
            continue;
        }
        match entry.check(state) {
            Ok(()) => {}
            Err(_) if is_object && is_committing && has_left(&state.join(&entry.path)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether `name`, one of the records, is sealed and not as it was.
pub(crate) fn is_record_damaged(state: &Path, name: &str) -> bool {
    let Ok(entries) = read(state) else {
        return false;
    };
    let mut entries = entries.into_iter().flatten();
    let entry = entries.find(|entry| entry.path == Path::new(name));
    entry.is_some_and(|entry| entry.check(state).is_err())
}

/// Whether an object has another name by now, or none.
fn has_left(path: &Path) -> bool {
    fs::symlink_metadata(path).map_or(true, |metadata| metadata.nlink() > 1)
}

/// What is in the directory now. The logs are sealed on the way.
fn entries(state: &Path) -> Result<Vec<Entry>, SealError> {
    let mut entries = Vec::new();
    for name in LOGS {
        let path = state.join(name);
        if surmise_journal::is_cut_short(&path) {
            // A kill within the first write: the log has nothing, and is made anew when there is something.
            discard(&path)?;
        }
        let length = match surmise_journal::seal_at(&path) {
            Err(OpenError::Io(error)) if error.kind() == io::ErrorKind::NotFound => continue,
            sealed => sealed.map_err(|error| SealError::of_log(&path, error))?,
        };
        entries.push(Entry {
            path: name.into(),
            length,
            sums: None,
        });
    }
    for name in RECORDS {
        match Entry::of(state, name.into()) {
            Err(error) if error.is_absent() => {}
            entry => entries.push(entry?),
        }
    }
    for shard in names(&state.join(OBJECTS))? {
        let shard = Path::new(OBJECTS).join(shard);
        for object in names(&state.join(&shard))? {
            entries.push(Entry::of(state, shard.join(object))?);
        }
    }
    Ok(entries)
}

/// All names in a directory; none where there is no directory.
fn names(directory: &Path) -> Result<Vec<std::ffi::OsString>, SealError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(SealError::at(directory))?,
    };
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
    names
        .collect::<Result<_, _>>()
        .map_err(SealError::at(directory))
}

fn read(state: &Path) -> Result<Option<Vec<Entry>>, SealError> {
    let path = state.join(SEAL);
    let mut entries: Vec<Entry> = Vec::new();
    let mut malformed = None;
    let read = surmise_journal::read_at(&path, FORMAT, |sequence, frame| {
        match (Entry::decode(frame), entries.last_mut()) {
            (None, _) => malformed = malformed.or(Some(sequence)),
            (Some(more), Some(last)) if more.path == last.path => {
                last.sums
                    .get_or_insert_default()
                    .extend(more.sums.unwrap_or_default());
            }
            (Some(entry), _) => entries.push(entry),
        }
    });
    match (read, malformed) {
        (Err(OpenError::Io(error)), _) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        (Err(error), _) => Err(SealError::of_log(&path, error)),
        (Ok(recovery), None) if recovery.is_sealed => Ok(Some(entries)),
        (Ok(recovery), malformed) => Err(SealError::Damaged {
            path,
            offset: HEADER_LENGTH,
            what: match malformed {
                Some(sequence) => format!("record {sequence} of {} is malformed", recovery.frames),
                None => "nothing says that this is all of it".into(),
            },
        }),
    }
}

/// Makes everything durable that is there. The whole file system: a domain may hold very many objects, each a
/// file.
pub(crate) fn sync(state: &Path) -> Result<(), SealError> {
    let directory = File::open(state).map_err(SealError::at(state))?;
    rustix::fs::syncfs(directory).map_err(|errno| SealError::at(state)(errno.into()))
}

fn sync_directory(state: &Path) -> Result<(), SealError> {
    let synced = File::open(state).and_then(|directory| directory.sync_all());
    synced.map_err(SealError::at(state))
}

/// Whether it was there.
fn discard(path: &Path) -> Result<bool, SealError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(SealError::at(path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_another_command_changes_meanwhile_is_no_damage() {
        let state = tempfile::tempdir().expect("a directory");
        let state = state.path();
        fs::write(state.join("exit"), "0").expect("written");
        make(state).expect("sealed");
        let looks = Cell::new(0);
        // Between two looks: the seal has been read, and is removed before what it covers.
        let meanwhile = || {
            looks.set(looks.get() + 1);
            match looks.get() {
                1 => fs::remove_file(state.join("exit")).expect("removed"),
                2 => remove(state).expect("removed"),
                _ => {}
            }
            false
        };
        check(state, Depth::Data, &meanwhile).expect("no damage");
        assert_eq!(looks.get(), 3);

        fs::write(state.join("exit"), "0").expect("written");
        make(state).expect("sealed");
        fs::remove_file(state.join("exit")).expect("removed");
        let gone = check(state, Depth::Data, &|| false);
        assert!(matches!(gone, Err(SealError::Damaged { .. })), "{gone:?}");
    }
}
