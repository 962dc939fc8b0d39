//! Why kept domains could not be listed, opened, made or removed.

use std::io;
use std::path::{Path, PathBuf};

use surmise_commit::CommitError;

use crate::name::LENGTH_MAX;
use crate::seal::SealError;

/// Why kept domains could not be listed, opened, made or removed.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Neither `XDG_STATE_HOME` nor `HOME` names a directory.
    #[error("no place for domains: XDG_STATE_HOME and HOME are not absolute paths")]
    NoHome,
    /// The state directory belongs to somebody else.
    #[error("{}: owned by user {owner}, not by user {user}", path.display())]
    Foreign {
        /// The state directory.
        path: PathBuf,
        /// Who owns it.
        owner: u32,
        /// Who asks.
        user: u32,
    },
    /// Not a name for a domain.
    #[error("`{name}` is not a domain name")]
    Name {
        /// What was asked for.
        name: String,
    },
    /// There is a domain of this name already.
    #[error("a domain `{name}` exists already")]
    Exists {
        /// The name.
        name: String,
    },
    /// There is no domain of this name.
    #[error("no domain `{name}`")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The domain is running, or another command works on it.
    #[error("domain `{name}` is in use{}", by(*pid))]
    Running {
        /// The name.
        name: String,
        /// Who holds its lock; 0 when that process has not said so yet.
        pid: i32,
    },
    /// A commit of the domain was begun and is not finished.
    #[error("a commit of domain `{name}` is under way")]
    Committing {
        /// The name.
        name: String,
    },
    /// A commit was cut short and can only be taken back, since the domain is damaged; and that failed, for a
    /// reason that may go away.
    #[error("take back the commit of domain `{name}`: {source}")]
    NotTakenBack {
        /// The name.
        name: String,
        /// Why not.
        source: Box<CommitError>,
    },
    /// The record was written by a later version of Surmise.
    #[error("{}: format {version}, newer than {known}", path.display())]
    Version {
        /// The record.
        path: PathBuf,
        /// Its format.
        version: u32,
        /// The newest format that this program knows.
        known: u32,
    },
    /// The domain's changes are committed, and held output is left that could not be sent.
    #[error("domain `{name}` is committed; held output is left that could not be sent")]
    Unsent {
        /// The name.
        name: String,
    },
    /// What is kept of the domain is not as it was, or could not be looked at.
    #[error("{source}")]
    Seal {
        /// The domain's name.
        name: String,
        /// Whether a commit of it was cut short.
        is_committing: bool,
        /// What is wrong.
        source: SealError,
    },
    /// A file or directory could not be read, written or removed.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

fn by(pid: i32) -> String {
    match pid {
        0 => String::new(),
        pid => format!(" by process {pid}"),
    }
}

impl StateError {
    /// What a person can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::NoHome => "set HOME, or XDG_STATE_HOME to a directory for state".into(),
            Self::Foreign { .. } => {
                "set XDG_STATE_HOME to a directory of this user (with sudo: `sudo -H`)".into()
            }
            Self::Name { .. } => format!(
                "use 1 to {LENGTH_MAX} letters, digits, `.`, `_` or `-`, not starting with `.`"
            ),
            Self::Exists { name } => {
                format!("choose another name, or first `surmise abort {name}`")
            }
            Self::Unknown { .. } => "`surmise list` shows all domains".into(),
            Self::Running { pid: 0, .. } => "try again in a moment".into(),
            Self::Running { pid, .. } => format!("let process {pid} end first, or end it"),
            Self::Committing { name } => format!(
                "`surmise commit {name}` finishes it, `surmise commit --undo {name}` takes it back"
            ),
            Self::Unsent { name } => format!(
                "`surmise commit --unsent rest {name}` sends what is left, `surmise commit --unsent whole \
                 {name}` sends all of it once more, `surmise abort {name}` drops it"
            ),
            Self::NotTakenBack { name, .. } => format!(
                "remove the cause, then `surmise abort {name}` again: what the files held before is \
                 nowhere but in the domain"
            ),
            Self::Version { .. } => {
                "use the version of surmise that wrote it, or a later one".into()
            }
            Self::Seal {
                source: SealError::Version { .. },
                ..
            } => "use the version of surmise that wrote it".into(),
            Self::Seal {
                name,
                is_committing,
                source: SealError::Damaged { path, .. },
            } => damaged_hint(name, path, *is_committing),
            Self::Seal { .. } | Self::File { .. } => {
                "check the file's owner and mode, and the space left".into()
            }
        }
    }

    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}

/// What a person can do with a domain that is damaged.
fn damaged_hint(name: &str, path: &Path, is_committing: bool) -> String {
    let way = match is_committing {
        true => format!("`surmise commit --undo {name}` may still take the commit back, "),
        false if path.ends_with("reads") => format!(
            "`surmise commit --forget-reads {name}` commits without knowing what was read, "
        ),
        false => String::new(),
    };
    format!(
        "nothing was changed now; {way}`surmise diff --damaged {name}` shows what can be read of the \
         domain, `surmise abort {name}` throws it away"
    )
}
