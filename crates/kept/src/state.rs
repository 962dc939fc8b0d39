//! Where domains are kept: one directory for each, below one directory of the user.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use surmise_commit::CommitError;

use crate::domain::Domain;
use crate::lock::{self, Lock};
use crate::record::Record;
use crate::remove;
use crate::seal::SealError;

/// Names that start so are directories on their way out.
const ABORTED: &str = ".aborted-";

/// Longest name of a domain, in bytes.
const NAME_LENGTH_MAX: usize = 64;

/// The directory that holds all domains of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateRoot {
    path: PathBuf,
}

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
                "use 1 to {NAME_LENGTH_MAX} letters, digits, `.`, `_` or `-`, not starting with `.`"
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
            Self::NotTakenBack { name, .. } => format!(
                "remove the cause, then `surmise abort {name}` again: what the files held before is \
                 nowhere but in the domain"
            ),
            Self::Version { .. } => {
                "use the version of surmise that wrote it, or a later one".into()
            }
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

impl StateRoot {
    /// The user's: `$XDG_STATE_HOME/surmise`, else `$HOME/.local/state/surmise`. It need not
    /// exist yet.
    ///
    /// # Errors
    /// When neither variable holds an absolute path, and when there is such a directory and it is
    /// somebody else's: what it holds would be committed with this user's rights.
    pub fn locate() -> Result<Self, StateError> {
        // The XDG specification has relative paths ignored.
        let absolute = |variable| {
            env::var_os(variable)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let root = absolute("XDG_STATE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
            .map(|state| Self::at(state.join("surmise")))
            .ok_or(StateError::NoHome)?;
        match root.check_owner() {
            Err(foreign @ StateError::Foreign { .. }) => Err(foreign),
            // There may be none yet. Any other failure is told by whoever uses it.
            _ => Ok(root),
        }
    }

    /// The one at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All domains, by name.
    ///
    /// # Errors
    /// When a directory or a record cannot be read.
    pub fn list(&self) -> Result<Vec<Domain>, StateError> {
        let mut domains = Vec::new();
        for name in self.entries()? {
            match self.open(&name) {
                Ok(domain) => domains.push(domain),
                // Not ours, or gone since the directory was read.
                Err(StateError::Name { .. } | StateError::Unknown { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        domains.sort_by(|one, two| one.name().cmp(two.name()));
        Ok(domains)
    }

    /// The domain called `name`.
    ///
    /// # Errors
    /// When there is none, or its record cannot be read.
    pub fn open(&self, name: &str) -> Result<Domain, StateError> {
        check_name(name)?;
        let directory = self.path.join(name);
        if !directory.is_dir() {
            return Err(StateError::Unknown { name: name.into() });
        }
        let record = Record::read(&directory, name)?;
        Ok(Domain::new(directory, record))
    }

    /// Makes the directory of a new domain, locked. The record is not written yet. Returns its name,
    /// which is made of the command's where there is no `name`, and the directory.
    ///
    /// # Errors
    /// When there is a domain of this name, or the directory cannot be made.
    pub fn create(
        &self,
        name: Option<&str>,
        command: &OsStr,
    ) -> Result<(String, PathBuf, Lock), StateError> {
        if let Some(name) = name {
            check_name(name)?;
            let (directory, lock) = self.create_named(name)?;
            return Ok((name.into(), directory, lock));
        }
        let stem = name_stem(command);
        let mut number = 1_u64;
        loop {
            let name = format!("{stem}-{number}");
            match self.create_named(&name) {
                Ok((directory, lock)) => return Ok((name, directory, lock)),
                Err(StateError::Exists { .. } | StateError::Running { .. }) => number += 1,
                Err(error) => return Err(error),
            }
        }
    }

    fn create_named(&self, name: &str) -> Result<(PathBuf, Lock), StateError> {
        let directory = self.path.join(name);
        loop {
            self.make(&directory, name)?;
            self.check_owner()?;
            match Lock::take(&directory, name) {
                // Somebody has aborted it, taking it for one left behind.
                Err(StateError::Unknown { .. }) => {}
                Err(error @ StateError::File { .. }) => {
                    self.remove_unused(&directory);
                    return Err(error);
                }
                taken => return Ok((directory, taken?)),
            }
        }
    }

    /// Removes the directory of a domain that could not even be locked. Opens nothing: no descriptor may be
    /// left, or no space.
    fn remove_unused(&self, directory: &Path) {
        // The first error is the one to tell; what is left can be aborted by name.
        let _ = fs::remove_file(directory.join(lock::FILE));
        let _ = fs::remove_dir(directory);
        let _ = fs::remove_dir(&self.path);
    }

    /// Makes the directory of the domain `name`, and the root where there is none.
    fn make(&self, directory: &Path, name: &str) -> Result<(), StateError> {
        loop {
            match DirBuilder::new().mode(0o700).create(directory) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(StateError::Exists { name: name.into() });
                }
                // Also when the last domain was removed just now, and the root with it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.create_root()?,
                Err(error) => {
                    // Other domains may be there; then it stays.
                    let _ = fs::remove_dir(&self.path);
                    return Err(StateError::at(directory)(error));
                }
            }
        }
    }

    fn create_root(&self) -> Result<(), StateError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path)
            .map_err(StateError::at(&self.path))
    }

    /// State in a directory of somebody else could be swapped under us by its owner.
    fn check_owner(&self) -> Result<(), StateError> {
        let owner = fs::symlink_metadata(&self.path)
            .map_err(StateError::at(&self.path))?
            .uid();
        let user = rustix::process::geteuid().as_raw();
        if owner != user {
            let path = self.path.clone();
            return Err(StateError::Foreign { path, owner, user });
        }
        Ok(())
    }

    /// Removes the directory of a domain whose lock the caller holds, what earlier removals
    /// left behind when they were cut short, and the root when nothing is left in it.
    ///
    /// # Errors
    /// When something cannot be removed. It is no domain any more, unless its directory could not be renamed.
    pub fn remove(&self, name: &str) -> Result<(), StateError> {
        let aside = format!("{ABORTED}{name}-{}", std::process::id());
        let (from, aside) = (self.path.join(name), self.path.join(aside));
        // Of a process that had the same number: in a container they repeat.
        remove::tree(&aside).map_err(StateError::at(&aside))?;
        // From here on the domain does not exist, however far the removal comes.
        fs::rename(&from, &aside).map_err(StateError::at(&from))?;
        for entry in self.entries()? {
            if entry.starts_with(ABORTED) {
                let path = self.path.join(entry);
                remove::tree(&path).map_err(StateError::at(&path))?;
            }
        }
        // Other domains may be there; then it stays.
        let _ = fs::remove_dir(&self.path);
        Ok(())
    }

    /// All names in the root that are Unicode; others are not ours.
    fn entries(&self) -> Result<Vec<String>, StateError> {
        let at = || StateError::at(&self.path);
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at()(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry.map_err(at())?.file_name().into_string());
        }
        Ok(names)
    }
}

fn check_name(name: &str) -> Result<(), StateError> {
    let good = (1..=NAME_LENGTH_MAX).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(is_name_byte);
    if good {
        Ok(())
    } else {
        Err(StateError::Name { name: name.into() })
    }
}

/// What is common to the default names of domains for `command`: its last part, with anything
/// that a name may not have replaced, and with room left for a number.
fn name_stem(command: &OsStr) -> String {
    let base = Path::new(command).file_name().unwrap_or(command);
    let stem: String = base
        .as_bytes()
        .iter()
        .map(|&byte| {
            if is_name_byte(byte) {
                byte as char
            } else {
                '_'
            }
        })
        .collect();
    let stem = stem.trim_start_matches('.');
    let stem = &stem[..stem.len().min(NAME_LENGTH_MAX / 2)];
    if stem.is_empty() {
        "domain".into()
    } else {
        stem.into()
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for good in ["a", "make-1", "A.b_c-9", &"x".repeat(64)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            ".a",
            "a/b",
            "a b",
            "ä",
            "a\n",
            &"x".repeat(65),
        ] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_default_name_comes_from_the_command() {
        for (command, stem) in [
            ("make", "make"),
            ("/usr/bin/python3.12", "python3.12"),
            ("./.hidden", "hidden"),
            ("a b/ö", "__"),
            ("..", "domain"),
            ("", "domain"),
        ] {
            assert_eq!(name_stem(OsStr::new(command)), stem, "{command}");
        }
        let long = name_stem(OsStr::new(&"x".repeat(300)));
        assert!(check_name(&format!("{long}-{}", u64::MAX)).is_ok());
    }
}
