//! Why a process was not stopped, copied or restored.

use std::io;

use rustix::io::Errno;
use rustix::process::Pid;

use crate::held::is_gone;

/// A process was not stopped, and goes on; or no checkpoint of it can be taken.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The process has ended, or is about to.
    #[error("process {} has ended", process.as_raw_nonzero())]
    Ended {
        /// The process.
        process: Pid,
    },
    /// A thread does not come to a call boundary: it waits for the child that it made by vfork, say.
    #[error("thread {} does not stop", thread.as_raw_nonzero())]
    Busy {
        /// The thread.
        thread: Pid,
    },
    /// A thread must not be traced: it is traced by somebody else, or has other rights.
    #[error("thread {} cannot be traced: {source}", thread.as_raw_nonzero())]
    Untraceable {
        /// The thread.
        thread: Pid,
        /// What ptrace said.
        source: io::Error,
    },
    /// A call failed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// A rollback did not come to its end. The process is neither what it was nor what it became; it must
/// not go on.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct RollbackError {
    /// What was tried.
    pub what: &'static str,
    /// Why it failed.
    pub source: io::Error,
}

impl RollbackError {
    /// Whether the process, or its vessel, was found to be no more.
    pub fn is_gone(&self) -> bool {
        let is_no_tracee = self.source.raw_os_error() == Some(Errno::CHILD.raw_os_error());
        let is_not_listed = self.source.kind() == io::ErrorKind::NotFound;
        is_gone(&self.source) || is_no_tracee || is_not_listed
    }
}

/// What turns the error of a call into a [`CheckpointError`].
pub(crate) fn taking<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> CheckpointError {
    move |error| CheckpointError::System {
        what,
        source: error.into(),
    }
}

/// What turns the error of a call into a [`RollbackError`].
pub(crate) fn restoring<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> RollbackError {
    move |error| RollbackError {
        what,
        source: error.into(),
    }
}
