//! The lock of a domain: held by the one process that may change its state.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::error::StateError;

/// Its name in a domain's directory.
pub(crate) const FILE: &str = "lock";

/// How often and how long to wait for somebody who only looks, and who may get no processor
/// meanwhile.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(2);

/// How long a view may take to end after its control was killed; it may have much to write to disk.
const VIEW_ENDS_MAX: Duration = Duration::from_secs(10);

/// An exclusive lock, let go when dropped or when its process dies in any way.
///
/// It belongs to an open file, so it also lives as long as a copy of the process that has the
/// file open: no role but control keeps it.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// This process, a copy of the one that took the lock, holds it from now on.
    pub fn hand_over(&self) {
        // For messages only: on a full disk a domain can still go on.
        let _ = write_holder(&self.file);
    }
}

/// A copy of this descriptor in another process keeps the lock, too.
impl AsFd for Lock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Lock {
    /// Locks the domain `name` kept in `state`. If the last one to hold the lock was killed, this
    /// waits for the end of the view that it left behind.
    ///
    /// # Errors
    /// When there is no such directory, when another process holds the lock, and when that view does not end.
    pub fn take(state: &Path, name: &str) -> Result<Self, StateError> {
        let path = state.join(FILE);
        let unknown = || StateError::Unknown { name: name.into() };
        let mut file = match open(&path, true) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(unknown()),
            opened => opened.map_err(StateError::at(&path))?,
        };
        for _ in 0..TRIES {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    if !is_at(&file, &path).map_err(StateError::at(&path))? {
                        return Err(unknown());
                    }
                    // For messages only: on a full disk domains can still be aborted.
                    let _ = write_holder(&file);
                    wait_for_view(state, name)?;
                    return Ok(Self { file });
                }
                // `holder` takes the lock for an instant, to look.
                Err(Errno::WOULDBLOCK) => thread::sleep(PAUSE),
                Err(errno) => return Err(StateError::at(&path)(errno.into())),
            }
        }
        Err(StateError::Running {
            name: name.into(),
            pid: holder_of(&mut file),
        })
    }

    /// Which process holds the lock of the domain kept in `state`, if one does; 0 for one that
    /// has not written its number yet.
    ///
    /// A lock that cannot be looked at counts as free: a command that means to change the domain takes
    /// it, and learns of the failure then.
    pub(crate) fn holder(state: &Path) -> Option<i32> {
        let mut file = open(&state.join(FILE), false).ok()?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => Some(holder_of(&mut file)),
            _ => None,
        }
    }
}

/// Held by the view process, which may outlive control by a moment and changes the state till then.
///
/// Taken by control before it starts the view: a copy of a process has the same open files, so the
/// lock passes to the view when control drops this, and there is no moment without a holder.
#[derive(Debug)]
pub struct Serving {
    file: File,
}

impl Serving {
    /// For the domain kept in `state`, whose lock the caller holds.
    ///
    /// # Errors
    /// When the directory cannot be opened, or another view serves it.
    pub fn take(state: &Path) -> io::Result<Self> {
        // On the directory itself: to make a file for it takes longer than all the rest.
        let file = File::open(state)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { file })
    }
}

impl AsFd for Serving {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn wait_for_view(state: &Path, name: &str) -> Result<(), StateError> {
    let directory = File::open(state).map_err(StateError::at(state))?;
    let deadline = Instant::now() + VIEW_ENDS_MAX;
    loop {
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => thread::sleep(PAUSE),
            Err(Errno::WOULDBLOCK) => {
                let name = name.into();
                return Err(StateError::Running { name, pid: 0 });
            }
            Err(errno) => return Err(StateError::at(state)(errno.into())),
        }
    }
}

fn open(path: &Path, create: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .open(path)
}

/// False for the lock of a domain that was removed while this process waited for it: another one of
/// the same name, with a lock of its own, may be in its place.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let key = |metadata: Metadata| (metadata.dev(), metadata.ino());
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(key(metadata) == key(file.metadata()?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// In ten places, the most that a process number takes, so that it covers what stood there: ext4 takes
/// a file that was cut to nothing for one being replaced, and writes it to disk when it is closed.
fn write_holder(file: &File) -> io::Result<()> {
    file.write_all_at(format!("{:<10}", std::process::id()).as_bytes(), 0)
}

fn holder_of(file: &mut File) -> i32 {
    let mut text = String::new();
    match file.read_to_string(&mut text) {
        Ok(_) => text.trim().parse().unwrap_or_default(),
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time_and_everybody_sees_who() {
        let state = tempfile::tempdir().expect("a directory");
        let me = std::process::id() as i32;
        assert_eq!(Lock::holder(state.path()), None);
        let lock = Lock::take(state.path(), "t").expect("take");
        assert_eq!(Lock::holder(state.path()), Some(me));
        let error = Lock::take(state.path(), "t").expect_err("taken");
        assert!(matches!(error, StateError::Running { pid, .. } if pid == me));
        drop(lock);
        assert_eq!(Lock::holder(state.path()), None);
        Lock::take(state.path(), "t").expect("take again");
    }

    #[test]
    fn the_lock_of_a_removed_domain_is_not_that_of_its_successor() {
        let root = tempfile::tempdir().expect("a directory");
        let state = root.path().join("t");
        fs::create_dir(&state).expect("mkdir");
        let path = state.join(FILE);
        let waiting = open(&path, true).expect("open");
        assert!(is_at(&waiting, &path).expect("look"));
        fs::rename(&state, root.path().join("gone")).expect("rename");
        let gone = Lock::take(&state, "t").expect_err("no domain");
        assert!(matches!(gone, StateError::Unknown { .. }), "{gone}");
        fs::create_dir(&state).expect("mkdir");
        let _successor = Lock::take(&state, "t").expect("take");
        assert!(!is_at(&waiting, &path).expect("look"));
    }

    #[test]
    fn a_view_left_behind_is_waited_for() {
        let state = tempfile::tempdir().expect("a directory");
        let serving = Serving::take(state.path()).expect("take");
        let path = state.path().to_owned();
        let taker = thread::spawn(move || Lock::take(&path, "t").map(drop));
        // Not in a tight loop: who only looks holds the lock for an instant.
        while Lock::holder(state.path()).is_none() {
            assert!(!taker.is_finished(), "the lock was taken beside a view");
            thread::sleep(5 * PAUSE);
        }
        assert!(!taker.is_finished(), "the lock was taken beside a view");
        drop(serving);
        taker.join().expect("no panic").expect("taken");
    }
}
