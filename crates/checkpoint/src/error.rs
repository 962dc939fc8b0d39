//! Why a process was not stopped, copied or restored.

use std::io;

use rustix::process::Pid;

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

impl CheckpointError {
    /// What a call said, if one has failed.
    pub(crate) fn source(&self) -> Option<&io::Error> {
        match self {
            Self::Untraceable { source, .. } | Self::System { source, .. } => Some(source),
            Self::Ended { .. } | Self::Busy { .. } => None,
        }
    }
}

/// A rollback did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum RollbackError {
    /// The process was killed meanwhile.
    #[error("process {} has ended", process.as_raw_nonzero())]
    Ended {
        /// The process.
        process: Pid,
    },
    /// The image is no more, so the process cannot become what it was; it must not go on.
    #[error(
        "the image of process {} is lost, since process {}, which held it, was killed",
        process.as_raw_nonzero(),
        vessel.as_raw_nonzero()
    )]
    Lost {
        /// The process.
        process: Pid,
        /// The stopped process that held its image.
        vessel: Pid,
    },
    /// A call failed. The process is neither what it was nor what it became; it must not go on.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
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
    move |error| RollbackError::System {
        what,
        source: error.into(),
    }
}
