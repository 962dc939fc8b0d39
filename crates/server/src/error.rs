//! Why a directory cannot be served.

use std::io;
use std::path::{Path, PathBuf};

use surmise_journal::OpenError;

use crate::directory::Stuck;
use crate::log::LogError;

/// Why a directory is not served, or not any longer.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Something about a file.
    #[error("{}: {source}", path.display())]
    At {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// Another server has it.
    #[error("{} belongs to a server that runs{}", path.display(), of_process(process))]
    Served {
        /// The directory of the server's state.
        path: PathBuf,
        /// Its process number, or nothing.
        process: String,
    },
    /// Another user has served it.
    #[error("{} belongs to user {owner}, and this is user {user}", path.display())]
    Foreign {
        /// The directory of the server's state.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who this is.
        user: u32,
    },
    /// The log is damaged, of another version, or of another directory.
    #[error("{}: {what}", path.display())]
    Log {
        /// The log.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
        /// Whether another version of Surmise can read it.
        is_version: bool,
    },
    /// What was promised cannot be made in the directory.
    #[error("{}: {source}", path.display())]
    Stuck {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: Stuck,
    },
    /// What was promised could not be made durable.
    #[error("{}: a flush failed, and nobody knows what is on the disk: {source}", path.display())]
    Flush {
        /// The directory.
        path: PathBuf,
        /// What the disk says.
        source: io::Error,
    },
    /// The file system cannot do what a server needs.
    #[error("{}: its file system {lacks}", path.display())]
    Unfit {
        /// The directory of the server's state.
        path: PathBuf,
        /// What it cannot.
        lacks: &'static str,
    },
    /// The server in the background did not begin to listen.
    #[error("the server of {} did not start{}", path.display(), said(errors))]
    Background {
        /// The directory.
        path: PathBuf,
        /// What it said.
        errors: String,
    },
}

impl ServeError {
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        |source| Self::At { path, source }
    }

    pub(crate) fn log(path: PathBuf, error: LogError) -> Self {
        match error {
            LogError::Open(OpenError::Io(source)) => Self::At { path, source },
            error => Self::Log {
                path,
                is_version: matches!(error, LogError::Open(OpenError::WrongVersion { .. })),
                what: error.to_string(),
            },
        }
    }

    /// The fix.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::At { .. } => None,
            Self::Served { process, .. } if process.is_empty() => None,
            Self::Served { process, .. } => Some(format!("kill {process} ends it")),
            Self::Foreign { path, owner, .. } => Some(format!(
                "serve it as user {owner}, or, once no client needs its changes: rm -r {}",
                path.display()
            )),
            Self::Log {
                is_version: true, ..
            } => Some("start the version of Surmise that wrote it, and end it with SIGTERM".into()),
            Self::Log { path, .. } => path.parent().map(given_up),
            Self::Stuck { path, .. } => Some(given_up(path)),
            Self::Flush { path, .. } => Some(format!(
                "look at the disk, then start the server again: what is missing in {} is in its log",
                path.display()
            )),
            Self::Unfit { .. } => Some("serve a directory on ext4, XFS, btrfs or tmpfs".into()),
            Self::Background { .. } => None,
        }
    }
}

fn given_up(state: &Path) -> String {
    let state = state.display();
    format!("what clients have changed and is not made is given up by: rm -r {state}")
}

fn of_process(process: &str) -> String {
    match process {
        "" => String::new(),
        process => format!(" (process {process})"),
    }
}

fn said(errors: &str) -> String {
    match errors {
        "" => String::new(),
        errors => format!(": {errors}"),
    }
}
