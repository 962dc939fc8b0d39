//! What is outside, as far as a commit's check goes by it. It is looked at here, and decided about elsewhere
//! ([`crate::check`]), without another look.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;
use surmise_changes::real::{is_absent, look_at};
use surmise_view::Identity;

use crate::locate::Site;
use crate::plan::{Checks, Emptied, Expectation};

/// What was seen, or why nothing was.
pub(crate) type Sight<T> = Result<T, Errno>;

/// What was seen of the real tree that a plan is for.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    /// Of each of the plan's directories: whether it is in one of its places.
    pub(crate) directories: Vec<Sight<bool>>,
    /// Of each name of the checks: what it leads to; `None` where its directory could not be opened.
    pub(crate) names: Vec<Option<Sight<Option<Identity>>>>,
    /// Of each directory that goes: what it holds besides what the domain removed or moved away.
    pub(crate) newcomers: Vec<Sight<Vec<Newcomer>>>,
}

/// A name in a directory that goes.
#[derive(Debug)]
pub(crate) struct Newcomer {
    pub(crate) name: OsString,
    /// What it leads to; `None` where that has gone meanwhile.
    pub(crate) found: Option<Identity>,
}

impl Outside {
    /// Looks at all that the checks name. Reads only.
    pub(crate) fn of(site: &Site<'_>, checks: &Checks<'_>) -> Self {
        let directories = site.plan().directories.iter().enumerate();
        let names = checks.names.iter();
        let emptied = checks.emptied.iter();
        Self {
            directories: directories
                .map(|(index, directory)| match directory.key {
                    Some(_) => is_there(site, index),
                    None => Ok(false),
                })
                .collect(),
            names: names.map(|name| name_of(site, name)).collect(),
            newcomers: emptied
                .map(|emptied| sight(newcomers(site, emptied)))
                .collect(),
        }
    }
}

/// What an error of a look says.
pub(crate) fn sight<T>(looked: io::Result<T>) -> Sight<T> {
    looked.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

fn is_there(site: &Site<'_>, directory: usize) -> Sight<bool> {
    match site.open(directory) {
        Ok(_) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        failed => sight(failed).map(|_| true),
    }
}

fn name_of(site: &Site<'_>, expectation: &Expectation) -> Option<Sight<Option<Identity>>> {
    let directory = site.open(expectation.place.directory).ok()?;
    let found = look_at(directory.as_fd(), &expectation.place.name);
    Some(sight(found).map(|found| found.map(|found| found.identity)))
}

fn newcomers(site: &Site<'_>, emptied: &Emptied<'_>) -> io::Result<Vec<Newcomer>> {
    let Ok(parent) = site.open(emptied.place.directory) else {
        return Ok(Vec::new());
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match rustix::fs::openat(&parent, &emptied.place.name, flags, Mode::empty()) {
        Ok(directory) => directory,
        // Told as removed or replaced.
        Err(error) if is_absent(&error.into()) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut newcomers = Vec::new();
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." || emptied.accounts_for(name) {
            continue;
        }
        let found = look_at(directory.as_fd(), name)?;
        newcomers.push(Newcomer {
            name: name.to_owned(),
            found: found.map(|found| found.identity),
        });
    }
    Ok(newcomers)
}
