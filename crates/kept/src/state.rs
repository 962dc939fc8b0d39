//! Where domains are kept: one directory for each, below one directory of the user.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::domain::Domain;
use crate::error::StateError;
use crate::lock::{self, Lock};
use crate::name;
use crate::record::Record;
use crate::remove;

/// Names that start so are directories on their way out.
const ABORTED: &str = ".aborted-";

/// The directory that holds all domains of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateRoot {
    path: PathBuf,
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
            // There may be none yet. Any other failure is told by the command that uses it.
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
        name::check(name)?;
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
            name::check(name)?;
            let (directory, lock) = self.create_named(name)?;
            return Ok((name.into(), directory, lock));
        }
        let stem = name::stem(command);
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
