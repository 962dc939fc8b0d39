//! Lost changes are made again from their file.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags};
use surmise_journal::Journal;
use surmise_lower::Timestamp;
use surmise_remote::errno::Errno;
use surmise_remote::lost::{Directory, Entry, LostFile, Replays};
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
    let is_place = file.onto.as_deref() == Some(here);
    let identity = identity_of(directory).map_err(failed)?;
    // Another directory has the path of the one in which a replay was begun: there it begins anew.
    let is_here = is_place && file.directory.is_none_or(|before| before == identity);
    if let Some(onto) = &file.onto
        && !is_place
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
        notes.begin(here, instance, identity)?;
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

/// By what the directory is known again.
fn identity_of(directory: &Path) -> io::Result<Directory> {
    let wanted = StatxFlags::INO | StatxFlags::BTIME;
    let found = rustix::fs::statx(CWD, directory, AtFlags::empty(), wanted)?;
    let has_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    Ok(Directory {
        number: found.stx_ino,
        born: has_birth.then_some(Timestamp {
            seconds: found.stx_btime.tv_sec,
            nanoseconds: found.stx_btime.tv_nsec,
        }),
    })
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
        // What the next step changes could be all that has told so.
        notes.sync(onto)?;
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
    fn begin(
        &mut self,
        onto: &[u8],
        boot: Vec<u8>,
        directory: Directory,
    ) -> Result<(), ReplayError> {
        let onto = onto.to_vec();
        self.append(&Entry::Replays(Replays { onto, boot }))?;
        self.append(&Entry::Directory(directory))?;
        self.journal.sync().map_err(ReplayError::Note)
    }

    fn note(&mut self, progress: &Progress) -> Result<(), ReplayError> {
        self.since += 1;
        self.append(&Entry::Progress(progress.clone()))
    }

    fn sync_now_and_then(&mut self, onto: &mut Onto) -> Result<(), ReplayError> {
        match self.since < STEPS_UNSYNCED_MAX {
            true => Ok(()),
            false => self.sync(onto),
        }
    }

    fn sync(&mut self, onto: &mut Onto) -> Result<(), ReplayError> {
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

#[cfg(test)]
mod tests {
    use std::fs;

    use surmise_remote::lost::{Begins, LostChanges, Undecided};
    use surmise_remote::object::{Name, ObjectId, Prefix};
    use surmise_remote::operation::{Change, NewKind, NewObject, Operation, Place};
    use surmise_remote::replay::Step;

    use super::*;

    fn root() -> ObjectId {
        ObjectId::found(1).expect("a number")
    }

    fn makes(number: u32, name: &str) -> Undecided {
        let change = Change::Create {
            place: Place {
                parent: root(),
                name: Name::try_from(name.as_bytes()).expect("a name"),
            },
            object: ObjectId::made(Prefix(1), number).expect("a small prefix"),
            new: NewObject {
                kind: NewKind::Regular,
                permissions: 0o644,
                owner: rustix::process::getuid().as_raw(),
                group: rustix::process::getgid().as_raw(),
            },
        };
        let at = Timestamp {
            seconds: 1_000_000,
            nanoseconds: 5,
        };
        Undecided {
            operation: Operation { at, change },
            before: None,
        }
    }

    /// A file of two changes; a replay onto the directory was interrupted when the first one was made.
    fn interrupted(file: &Path, directory: &Path) {
        let lost = LostChanges {
            places: Vec::new(),
            changes: vec![makes(1, "one"), makes(2, "two")],
        };
        let begins = Begins {
            source: "host:src".to_owned(),
            mount_point: b"/mnt".to_vec(),
            root: root(),
            at: Timestamp::default(),
            why: "a test".to_owned(),
        };
        let new = File::create_new(file).expect("it is new");
        let mut journal = Journal::create(new, lost::FORMAT).expect("a log");
        for frame in lost.frames(begins) {
            journal.append(&frame).expect("append");
        }
        let mut notes = Notes { journal, since: 0 };
        let here = directory.as_os_str().as_bytes();
        let instance = instance_of(directory).expect("it is there");
        let identity = identity_of(directory).expect("it is there");
        notes.begin(here, instance, identity).expect("note");
        let step = Step::Make {
            beside: None,
            moves: None,
        };
        for _ in 0..2 {
            let progress = Progress::Begins(step.clone());
            notes.note(&progress).expect("note");
        }
        notes.journal.sync().expect("sync");
        fs::write(directory.join("one"), "").expect("make");
    }

    #[test]
    fn s63_a_replay_does_not_go_on_in_another_directory_of_the_same_path() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().canonicalize().expect("it is there");
        let (file, directory) = (path.join("a.lost"), path.join("onto"));
        fs::create_dir(&directory).expect("make");
        interrupted(&file, &directory);
        fs::rename(&directory, path.join("away")).expect("rename");
        fs::create_dir(&directory).expect("make");
        let replayed = replay(&file, &directory, false).expect("replay");
        assert_eq!((replayed.left(), replayed.told), (0, Vec::new()));
        assert!(directory.join("one").exists() && directory.join("two").exists());
    }

    #[test]
    fn s63_a_replay_goes_on_in_the_directory_of_its_beginning() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().canonicalize().expect("it is there");
        let (file, directory) = (path.join("a.lost"), path.join("onto"));
        fs::create_dir(&directory).expect("make");
        interrupted(&file, &directory);
        fs::remove_file(directory.join("one")).expect("remove");
        let replayed = replay(&file, &directory, false).expect("replay");
        assert_eq!((replayed.left(), replayed.told), (0, Vec::new()));
        // The first one was made, and others have removed it.
        assert!(!directory.join("one").exists() && directory.join("two").exists());
        assert!(!file.exists());
    }
}
