//! Makes what was written durable.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use surmise_changes::real::look;

use crate::locate::Site;

/// Above this many files, one flush of each file system costs less than one of each file.
const FILES_MAX: usize = 32;

/// Files and directories to be flushed together.
#[derive(Debug, Default)]
pub(crate) struct Flush {
    files: Vec<OwnedFd>,
    /// One file of each file system that has more than is flushed one by one.
    file_systems: BTreeMap<u64, OwnedFd>,
}

impl Flush {
    pub(crate) fn add(&mut self, file: OwnedFd) -> io::Result<()> {
        if self.files.len() < FILES_MAX && self.file_systems.is_empty() {
            self.files.push(file);
            return Ok(());
        }
        for file in self.files.drain(..).chain([file]) {
            let device = look(file.as_fd())?.identity.device;
            self.file_systems.entry(device).or_insert(file);
        }
        Ok(())
    }

    /// Adds a directory; one that the user may not read is left to the file system.
    pub(crate) fn add_directory(&mut self, site: &Site<'_>, directory: usize) -> io::Result<()> {
        match readable(site, directory)? {
            Some(readable) => self.add(readable),
            None => Ok(()),
        }
    }

    /// Adds the whole file system that a directory is on.
    pub(crate) fn add_file_system(&mut self, site: &Site<'_>, directory: usize) -> io::Result<()> {
        if let Some(readable) = readable(site, directory)? {
            let device = look(readable.as_fd())?.identity.device;
            self.file_systems.entry(device).or_insert(readable);
        }
        Ok(())
    }

    /// Returns when everything added is durable.
    pub(crate) fn run(self) -> io::Result<()> {
        for file in self.files {
            ignore_unsupported(rustix::fs::fsync(file))?;
        }
        for file in self.file_systems.into_values() {
            rustix::fs::syncfs(file)?;
        }
        Ok(())
    }
}

/// A directory opened for reading; `None` where the user may not.
fn readable(site: &Site<'_>, directory: usize) -> io::Result<Option<OwnedFd>> {
    let fd = site.open(directory)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(&fd, ".", flags, Mode::empty()) {
        Ok(readable) => Ok(Some(readable)),
        Err(Errno::ACCESS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn ignore_unsupported(flushed: rustix::io::Result<()>) -> io::Result<()> {
    match flushed {
        Err(Errno::INVAL | Errno::ROFS) => Ok(()),
        flushed => Ok(flushed?),
    }
}
