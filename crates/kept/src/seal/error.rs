//! Why a domain's state cannot be believed, or could not be looked at.

use std::io;
use std::path::{Path, PathBuf};

use surmise_journal::OpenError;

/// Why a domain's state cannot be believed, or could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// A file is not as it was.
    #[error("{}: damaged at byte {offset}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damage begins, or the block of 64 KiB that has it.
        offset: u64,
        /// How it shows.
        what: String,
    },
    /// The file is a log of another version of Surmise.
    #[error("{}: log version {found}; this surmise reads version {wanted}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The one that this program reads.
        wanted: u32,
    },
    /// The file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl SealError {
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }

    /// A log could not be read.
    pub(super) fn of_log(path: &Path, error: OpenError) -> Self {
        match error {
            OpenError::Io(source) => Self::at(path)(source),
            error => Self::of_content(path.to_owned(), &error).expect("it could be read"),
        }
    }

    /// What the log at `path` holds is not what it should; `None` where it could not be read at all.
    pub(crate) fn of_content(path: PathBuf, error: &OpenError) -> Option<Self> {
        match error {
            OpenError::Io(_) => None,
            OpenError::Damaged(damage) => Some(Self::Damaged {
                path,
                offset: damage.offset,
                what: damage.what.to_string(),
            }),
            OpenError::WrongFormat { .. } => Some(Self::Damaged {
                path,
                offset: 0,
                what: error.to_string(),
            }),
            &OpenError::WrongVersion { found, wanted } => Some(Self::Version {
                path,
                found,
                wanted,
            }),
        }
    }

    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
