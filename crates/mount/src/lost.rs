//! Changes that were lost, each time in a file of its own, until the user replays or removes it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use surmise_journal::{Format, Journal, OpenError};
use surmise_linux::users::home_of;
use surmise_remote::lost::{Begins, Entry, LostChanges, LostFile, LostFileError, Reader};
use surmise_remote::object::ObjectId;
use surmise_remote::operation::Change;

use crate::clock;
use crate::own;
use crate::owners::Owners;

pub(crate) const FORMAT: Format = Format {
    tag: "LOST",
    version: 1,
};

/// What the names of such files end with.
const ENDING: &str = "lost";

/// And those of files that are not finished. Each is locked for as long as its process writes it.
const UNFINISHED: &str = "new";

/// How many bytes all of a user's files may have. What is undecided at once is far less.
const BYTES_MAX: u64 = 1 << 30;

/// How many files there may be.
const FILES_MAX: usize = 1000;

/// The directory of this user's files.
pub fn directory() -> PathBuf {
    let absolute = |variable| {
        let path = std::env::var_os(variable).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let user = rustix::process::geteuid();
    let of_user = || {
        let home = absolute("HOME").or_else(|| home_of(user.as_raw()));
        home.unwrap_or_else(std::env::temp_dir).join(".local/state")
    };
    // By sudo, root may have another user's.
    let usable = |state: &PathBuf| !user.is_root() || !state.exists() || own::has(state);
    let state = absolute("XDG_STATE_HOME").filter(usable);
    let state = state.unwrap_or_else(|| match user.is_root() {
        // A mount of fstab has no home, and its files are to be found from every shell.
        true => "/var/lib".into(),
        false => of_user(),
    });
    state.join("surmise-lost")
}

/// Why lost changes are not kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The files that are there have as much as they may.
    #[error("the files in {} have {bytes} bytes already", directory.display())]
    Full {
        /// Where.
        directory: PathBuf,
        /// How many.
        bytes: u64,
    },
    /// The file could not be written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which, or its directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Keeps what a mount loses.
#[derive(Debug)]
pub struct Keeper {
    path: PathBuf,
    /// The directory as it was before the mount was there, which may be mounted on it.
    directory: io::Result<OwnedFd>,
    /// How many files were begun.
    begun: AtomicU32,
    /// What was mounted.
    source: String,
    mount_point: PathBuf,
}

impl Keeper {
    /// For a mount that is not there yet. Without the directory there will be a mount, too.
    pub fn new(path: PathBuf, source: &str, mount_point: &Path) -> Self {
        let directory = open_directory(&path);
        if let Ok(directory) = &directory {
            remove_unfinished(directory);
        }
        Self {
            path,
            directory,
            begun: AtomicU32::new(0),
            source: source.to_owned(),
            mount_point: mount_point.to_owned(),
        }
    }

    /// Writes changes to a new file, which is then durable, and returns its path. `may_be_made` tells that no verdict on them has
    /// come.
    ///
    /// # Errors
    /// [`KeepError`], and nothing of it is left.
    pub fn keep(
        &self,
        mut lost: LostChanges,
        root: ObjectId,
        owners: &Owners,
        (why, may_be_made): (String, bool),
    ) -> Result<PathBuf, KeepError> {
        let failed = |source: io::Error| KeepError::Io {
            path: self.path.clone(),
            source,
        };
        let directory = self
            .directory
            .as_ref()
            .map_err(|error| failed(io::Error::new(error.kind(), error.to_string())))?;
        self.must_have_room(directory, &lost)?;
        for undecided in &mut lost.changes {
            show_owners(&mut undecided.operation.change, owners);
        }
        let begins = Begins {
            source: self.source.clone(),
            mount_point: self.mount_point.as_os_str().as_bytes().to_vec(),
            root,
            at: clock::time_of_day(),
            why,
        };
        let (unfinished, file) = self.begin(directory).map_err(failed)?;
        let kept = self.write(directory, (&unfinished, file), (&lost, may_be_made), begins);
        kept.map_err(|error| {
            let _ = rustix::fs::unlinkat(directory, &*unfinished, AtFlags::empty());
            failed(error)
        })
    }

    /// A new file, which is locked.
    fn begin(&self, directory: &OwnedFd) -> io::Result<(String, File)> {
        loop {
            let number = self.begun.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}-{number}.{UNFINISHED}", std::process::id());
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            let mode = Mode::RUSR | Mode::WUSR;
            let file = match rustix::fs::openat(directory, &*name, flags | OFlags::CLOEXEC, mode) {
                Err(Errno::EXIST) => continue,
                opened => File::from(opened?),
            };
            let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
            // Another mount may have taken it for one that was left, before it was locked.
            if locked.is_ok() && rustix::fs::fstat(&file)?.st_nlink > 0 {
                return Ok((name, file));
            }
        }
    }

    fn must_have_room(&self, directory: &OwnedFd, lost: &LostChanges) -> Result<(), KeepError> {
        let (files, bytes) = used(directory).map_err(|errno| KeepError::Io {
            path: self.path.clone(),
            source: errno.into(),
        })?;
        match files < FILES_MAX && bytes.saturating_add(lost.bytes() as u64) <= BYTES_MAX {
            true => Ok(()),
            false => Err(KeepError::Full {
                directory: self.path.clone(),
                bytes,
            }),
        }
    }

    fn write(
        &self,
        directory: &OwnedFd,
        (unfinished, file): (&str, File),
        (lost, may_be_made): (&LostChanges, bool),
        begins: Begins,
    ) -> io::Result<PathBuf> {
        let seconds = begins.at.seconds;
        let mut journal = Journal::create(file, FORMAT).map_err(plain)?;
        for frame in lost.frames(begins) {
            journal.append(&frame)?;
        }
        if may_be_made {
            journal.append(&Entry::NoVerdict.encode())?;
        }
        journal.sync()?;
        let name = |number: u32| {
            let base = self.mount_point.file_name().unwrap_or(OsStr::new("mount"));
            let base = String::from_utf8_lossy(base.as_bytes());
            let base: String = base
                .chars()
                .filter(|letter| !letter.is_control())
                .take(40)
                .collect();
            match number {
                0 => format!("{base}-{seconds}.{ENDING}"),
                _ => format!("{base}-{seconds}-{number}.{ENDING}"),
            }
        };
        for number in 0.. {
            let name = name(number);
            let flags = RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(directory, unfinished, directory, &*name, flags) {
                Err(Errno::EXIST) => {}
                outcome => {
                    outcome?;
                    // Over a descriptor that is open for reading.
                    rustix::fs::fsync(directory)?;
                    return Ok(self.path.join(name));
                }
            }
        }
        unreachable!("a name is free")
    }
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let directory = own::open(path)?;
    // It holds what others may not read.
    rustix::fs::fchmod(&directory, Mode::RWXU)?;
    Ok(directory)
}

/// Removes what processes have left that were killed before a file was whole.
fn remove_unfinished(directory: &OwnedFd) {
    let Ok(listed) = rustix::fs::Dir::read_from(directory) else {
        return;
    };
    let is_unfinished = |name: &Path| name.extension() == Some(OsStr::new(UNFINISHED));
    for entry in listed.flatten() {
        let name = entry.file_name();
        if !is_unfinished(Path::new(OsStr::from_bytes(name.to_bytes()))) {
            continue;
        }
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::openat(directory, name, flags, Mode::empty()) else {
            continue;
        };
        // Its process is to see that it has lost the file, if that is alive.
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
        }
    }
}

/// How many files there are, and how many bytes they have.
fn used(directory: &OwnedFd) -> Result<(usize, u64), Errno> {
    let (mut files, mut bytes) = (0, 0_u64);
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        if let Ok(found) = rustix::fs::statat(directory, entry.file_name(), flags) {
            files += 1;
            bytes = bytes.saturating_add(found.st_size.try_into().unwrap_or(0));
        }
    }
    Ok((files, bytes))
}

/// Users and groups at the server become those of this machine.
fn show_owners(change: &mut Change, owners: &Owners) {
    match change {
        Change::Create { new, .. } => {
            (new.owner, new.group) = owners.shown(new.owner, new.group);
        }
        Change::SetAttributes { set, .. } => {
            let (owner, group) = (set.owner.unwrap_or(0), set.group.unwrap_or(0));
            let (owner, group) = owners.shown(owner, group);
            set.owner = set.owner.map(|_| owner);
            set.group = set.group.map(|_| group);
        }
        _ => {}
    }
}

fn plain(error: OpenError) -> io::Error {
    match error {
        OpenError::Io(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

/// Why a file of lost changes cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is no whole log.
    #[error(transparent)]
    Log(#[from] OpenError),
    /// Its frames are no lost changes.
    #[error(transparent)]
    Contents(#[from] LostFileError),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Log(error.into())
    }
}

impl ReadError {
    /// Whether the file is there and was never one of lost changes, or lacks something.
    pub fn is_damage(&self) -> bool {
        !matches!(self, Self::Log(OpenError::Io(_)))
    }
}

/// Opens a file for a replay, which nobody else then does. What was noted for another instance of the mount, and not synced there, is
/// left out.
///
/// # Errors
/// [`ReadError`]; `WouldBlock` if somebody does.
pub(crate) fn open(path: &Path, instance: &[u8]) -> Result<(Journal, File, LostFile), ReadError> {
    let mut options = File::options();
    let options = options.read(true).write(true);
    let file = options
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)?;
    let exclusive = FlockOperation::NonBlockingLockExclusive;
    rustix::fs::flock(&file, exclusive).map_err(io::Error::from)?;
    let lock = file.try_clone()?;
    let mut reading = Reading::begin(instance.to_vec());
    let journal = Journal::open(file, FORMAT, |_, frame| reading.take(frame))?.0;
    Ok((journal, lock, reading.end()?))
}

/// Reads a file.
///
/// # Errors
/// [`ReadError`].
pub fn read(path: &Path) -> Result<LostFile, ReadError> {
    let mut reading = Reading::begin(boot()?);
    surmise_journal::read_at(path, FORMAT, |_, frame| reading.take(frame))?;
    Ok(reading.end()?)
}

struct Reading {
    reader: Reader,
    bad: Option<LostFileError>,
}

impl Reading {
    fn begin(instance: Vec<u8>) -> Self {
        Self {
            reader: Reader::new(instance),
            bad: None,
        }
    }

    fn take(&mut self, frame: &[u8]) {
        if self.bad.is_none() {
            self.bad = self.reader.take(frame).err();
        }
    }

    fn end(self) -> Result<LostFile, LostFileError> {
        match self.bad {
            Some(bad) => Err(bad),
            None => self.reader.end(),
        }
    }
}

/// Which start of the machine this is.
pub(crate) fn boot() -> io::Result<Vec<u8>> {
    fs::read("/proc/sys/kernel/random/boot_id")
}

/// A file that waits for its user.
#[derive(Debug)]
pub struct Waiting {
    /// Where it is.
    pub path: PathBuf,
    /// What it has.
    pub file: Result<LostFile, ReadError>,
}

/// All files in a directory, in the order of their names.
///
/// # Errors
/// When the directory cannot be read.
pub fn all(directory: &Path) -> io::Result<Vec<Waiting>> {
    let listed = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    if !own::has(directory) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut paths = Vec::new();
    for entry in listed {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new(ENDING)) {
            paths.push(path);
        }
    }
    paths.sort();
    let each = paths.into_iter().map(|path| {
        let file = read(&path);
        Waiting { path, file }
    });
    // One that was replayed meanwhile is gone.
    let is_there = |one: &Waiting| match &one.file {
        Err(ReadError::Log(OpenError::Io(error))) => error.kind() != io::ErrorKind::NotFound,
        _ => true,
    };
    Ok(each.filter(is_there).collect())
}

/// A path by which the object of a descriptor can be named.
pub(crate) fn by_descriptor(descriptor: &impl AsRawFd) -> PathBuf {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd()).into()
}

#[cfg(test)]
mod tests;
