//! The lock of a domain: held by the one process that may change its state.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::state::StateError;

const FILE: &str = "lock";

/// How often and how long to wait for somebody who only looks.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(2);

/// An exclusive lock, let go when dropped or when its process dies in any way.
///
/// It belongs to an open file, so it also lives as long as a copy of the process that has the
/// file open: no role but control keeps it.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Locks the domain `name` kept in `state`.
    pub(crate) fn take(state: &Path, name: &str) -> Result<Self, StateError> {
        let path = state.join(FILE);
        let mut file = open(&path, true).map_err(StateError::at(&path))?;
        for _ in 0..TRIES {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    file.set_len(0)
                        .and_then(|()| write!(file, "{}", std::process::id()))
                        .map_err(StateError::at(&path))?;
                    return Ok(Self { _file: file });
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
    /// A lock that cannot be looked at counts as free: whoever means to change the domain takes
    /// it, and learns of the failure then.
    pub(crate) fn holder(state: &Path) -> Option<i32> {
        let mut file = open(&state.join(FILE), false).ok()?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => Some(holder_of(&mut file)),
            _ => None,
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
}
