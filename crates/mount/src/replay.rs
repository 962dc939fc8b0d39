//! Lost changes are made again from their file.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags};
use surmise_journal::Journal;
use surmise_remote::errno::Errno;
use surmise_remote::lost::{Entry, LostFile, Replays};
use surmise_remote::replay::{Became, Progress, Replay, Told};

use crate::lost::{self, ReadError};
use crate::onto::Onto;

/// `STATX_MNT_ID_UNIQUE` of linux/stat.h: the number of a mount, which no later one gets (Linux 6.8).
const MOUNT_ID: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// After how many steps what was done is made durable.
const STEPS_UNSYNCED_MAX: usize = 256;

/// What a replay has come to.
#[derive(Debug)]
pub struct Replayed {
    /// How many changes there are.
    pub changes: usize,
    /// What people have to know.
    pub told: Vec<Told>,
    /// Whether an earlier replay had made all of it.
    pub was_over: bool,
}

impl Replayed {
    /// How many changes were left out. Then the file is kept.
    pub fn left(&self) -> usize {
        let is_left = |told: &&Told| matches!(told.what, Became::Left(..));
        self.told.iter().filter(is_left).count()
    }
}

/// Why a replay has not come to its end. It can be begun again, and goes on.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] ReadError),
    /// Another process replays it.
    #[error("another process replays it")]
    Busy,
    /// A replay onto another directory has begun.
    #[error("a replay of it onto {} was interrupted", .0.display())]
    Elsewhere(PathBuf),
    /// The directory cannot be used.
    #[error("{}: {source}", directory.display())]
    Directory {
        /// Which.
        directory: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The directory takes nothing more.
    #[error("{made} of {changes} changes are made, and the next one failed: {source}")]
    Stopped {
        /// How many are made.
        made: usize,
        /// Of how many.
        changes: usize,
        /// Why.
        source: io::Error,
    },
    /// What was made was lost again, or may have been.
    #[error("what was made could not be made durable: {0}")]
    Sync(#[source] io::Error),
    /// The file could not be written.
    #[error("note what was made: {0}")]
    Note(#[source] io::Error),
}

/// Makes the changes of a file in a directory, and removes the file if none was left out. If `is_source`, it is the directory that
/// they were made in, and the server may have made the first of them.
///
/// # Errors
/// [`ReplayError`].
pub fn replay(path: &Path, directory: &Path, is_source: bool) -> Result<Replayed, ReplayError> {
    let failed = |source| ReplayError::Directory {
        directory: directory.to_owned(),
        source,
    };
    let instance = instance_of(directory).map_err(failed)?;
    let (journal, _lock, file) = lost::open(path, &instance).map_err(|error| match error {
        ReadError::Log(surmise_journal::OpenError::Io(error))
            if error.kind() == io::ErrorKind::WouldBlock =>
        {
            ReplayError::Busy
        }
        other => other.into(),
    })?;
    let directory_path = directory.canonicalize().map_err(failed)?;
    let here = directory_path.as_os_str().as_bytes();
    let is_here = file.onto.as_deref() == Some(here);
    if let Some(onto) = &file.onto
        && !is_here
        && !file.is_over
        && !file.progress.is_empty()
    {
        let onto = std::ffi::OsStr::from_bytes(onto);
        return Err(ReplayError::Elsewhere(onto.into()));
    }
    let mut replay = Replay::new(file.begins.root, &file.lost);
    if is_here {
        file.progress
            .iter()
            .cloned()
            .for_each(|progress| replay.note(progress));
    }
    let was_over = is_here && file.is_over;
    if !was_over {
        let mut onto = Onto::open(directory).map_err(failed)?;
        let mut notes = Notes { journal, since: 0 };
        let changes = file.lost.changes.len();
        notes.begin(here, instance)?;
        if is_source && file.may_be_made && replay.done() == 0 && replay.begun().is_none() {
            skip_made(&mut replay, &mut onto, &mut notes, changes)?;
        }
        go_on(&mut replay, &mut onto, &mut notes, changes)?;
        onto.sync().map_err(ReplayError::Sync)?;
        notes.end()?;
    }
    let replayed = replayed(&file, &replay, was_over);
    // An earlier replay may have come to its end, and not to this.
    if replayed.left() == 0 {
        remove(path).map_err(ReplayError::Note)?;
    }
    Ok(replayed)
}

/// Which start of the machine this is, and which mount the directory is in. What was done to a mount that has gone since may be lost
/// with its client, as after a crash of the machine.
fn instance_of(directory: &Path) -> io::Result<Vec<u8>> {
    let found = rustix::fs::statx(CWD, directory, AtFlags::empty(), MOUNT_ID)?;
    let mut instance = lost::boot()?;
    if found.stx_mask & MOUNT_ID.bits() != 0 {
        instance.extend(found.stx_mnt_id.to_le_bytes());
    }
    Ok(instance)
}

/// Leaves out what the server had made before it was given up.
fn skip_made(
    replay: &mut Replay<'_>,
    onto: &mut Onto,
    notes: &mut Notes,
    changes: usize,
) -> Result<(), ReplayError> {
    let already = replay.already(onto);
    let already = already.map_err(|errno| ReplayError::Stopped {
        made: 0,
        changes,
        source: io::Error::from_raw_os_error(errno.0),
    })?;
    if already > 0 {
        let progress = Progress::Already(already as u64);
        notes.note(&progress)?;
        replay.note(progress);
    }
    Ok(())
}

fn go_on(
    replay: &mut Replay<'_>,
    onto: &mut Onto,
    notes: &mut Notes,
    changes: usize,
) -> Result<(), ReplayError> {
    let stopped = |made, errno: Errno| ReplayError::Stopped {
        made,
        changes,
        source: io::Error::from_raw_os_error(errno.0),
    };
    let taken_up = replay.take_up(onto);
    let (mut begun, progress) = taken_up.map_err(|errno| stopped(replay.done(), errno))?;
    if let Some(progress) = progress {
        notes.note(&progress)?;
    }
    loop {
        let again = begun.is_some();
        let step = match begun.take() {
            Some(step) => step,
            None => match replay
                .decide(onto)
                .map_err(|errno| stopped(replay.done(), errno))?
            {
                None => break,
                Some(step) => {
                    notes.note(&Progress::Begins(step.clone()))?;
                    step
                }
            },
        };
        let failed = replay.carry_out(onto, step, again);
        if let Some(errno) = failed.map_err(|errno| stopped(replay.done(), errno))? {
            notes.note(&Progress::Failed(errno))?;
        }
        let stamp = replay.stamp(onto);
        if let Some(progress) = stamp.map_err(|errno| stopped(replay.done(), errno))? {
            notes.note(&progress)?;
        }
        notes.sync_now_and_then(onto)?;
    }
    let finished = replay.finish(onto);
    finished.map_err(|errno| stopped(replay.done(), errno))
}

fn replayed(file: &LostFile, replay: &Replay<'_>, was_over: bool) -> Replayed {
    Replayed {
        changes: file.lost.changes.len(),
        told: replay.told().to_vec(),
        was_over,
    }
}

/// What is noted in the file.
struct Notes {
    journal: Journal,
    /// How many steps were noted since what was done was made durable.
    since: usize,
}

impl Notes {
    fn begin(&mut self, onto: &[u8], boot: Vec<u8>) -> Result<(), ReplayError> {
        let onto = onto.to_vec();
        self.append(&Entry::Replays(Replays { onto, boot }))?;
        self.journal.sync().map_err(ReplayError::Note)
    }

    fn note(&mut self, progress: &Progress) -> Result<(), ReplayError> {
        self.since += 1;
        self.append(&Entry::Progress(progress.clone()))
    }

    fn sync_now_and_then(&mut self, onto: &mut Onto) -> Result<(), ReplayError> {
        if self.since < STEPS_UNSYNCED_MAX {
            return Ok(());
        }
        self.since = 0;
        onto.sync().map_err(ReplayError::Sync)?;
        self.append(&Entry::Synced)?;
        self.journal.sync_behind().map_err(ReplayError::Note)
    }

    fn end(&mut self) -> Result<(), ReplayError> {
        self.append(&Entry::Over)?;
        self.journal.sync().map_err(ReplayError::Note)
    }

    fn append(&mut self, entry: &Entry) -> Result<(), ReplayError> {
        let appended = self.journal.append(&entry.encode());
        appended.map(drop).map_err(ReplayError::Note)
    }
}

fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => Ok(()),
    }
}
