//! Puts new inodes beside their targets, complete and durable, before anything changes.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use surmise_changes::real::{self, open_inode};
use surmise_sys::descriptors::has_writers;
use surmise_view::{Attributes, FileKind, ObjectId};

use crate::copy::copy;
use crate::error::{CommitError, Obstacle, ObstacleKind};
use crate::flush::Flush;
use crate::journal::{Journal, Made as Whole, Staged};
use crate::locate::Site;
use crate::metadata;
use crate::objects::Objects;
use crate::opening::open_up;
use crate::plan::{Content, Place, Staging};
use crate::steps::Steps;

/// Permission bits of what is not complete yet.
const PRIVATE_FILE: u32 = 0o600;
const PRIVATE_DIRECTORY: u32 = 0o700;

pub(crate) struct Stage<'s, 'p, 'a, 'b> {
    pub(crate) site: &'s mut Site<'p>,
    pub(crate) objects: &'s Objects,
    pub(crate) journal: &'s mut Journal,
    pub(crate) steps: Steps<'a, 'b>,
}

/// What a staging made.
struct Made {
    /// Open for flushing, where that kind of inode can be.
    file: Option<OwnedFd>,
    is_object: bool,
}

impl Stage<'_, '_, '_, '_> {
    /// Makes all that the plan stages and flushes it.
    pub(crate) fn run(mut self) -> Result<(), CommitError> {
        let plan = self.site.plan();
        let mut flush = Flush::default();
        self.steps.pause()?;
        open_up(self.site)
            .map_err(|error| CommitError::stage(self.site.root_path().to_owned(), error))?;
        for (index, staging) in plan.stagings.iter().enumerate() {
            self.steps.step()?;
            self.stage(index, staging, &mut flush)
                .map_err(|error| self.failure(error, &staging.place))?;
        }
        // Names are as much part of the stage as what they lead to.
        let places = plan.stagings.iter().map(|staging| &staging.place);
        let touched: BTreeSet<usize> = places.map(|place| place.directory).collect();
        for directory in touched {
            flush
                .add_directory(self.site, directory)
                .map_err(|error| CommitError::stage(self.site.root_path().to_owned(), error))?;
        }
        // A directory's times are set when nothing is put into it any more.
        for (index, staging) in plan.stagings.iter().enumerate().rev() {
            if staging.content == Content::Directory {
                self.complete(index, staging)
                    .map_err(|error| self.failure(error, &staging.place))?;
            }
        }
        self.check_lenders()?;
        self.steps.pause()?;
        let path = || self.site.root_path().to_owned();
        self.add_data(&mut flush)
            .and_then(|()| flush.run())
            .map_err(|error| CommitError::stage(path(), error))
    }

    fn stage(&mut self, index: usize, staging: &Staging, flush: &mut Flush) -> Result<(), Failure> {
        let directory = self.site.open(staging.place.directory)?;
        let made = self.make(directory.as_fd(), staging)?;
        self.steps.pause()?;
        let (inode, found) = open_inode(directory.as_fd(), &staging.place.name)?;
        if let Some(file) = &made.file {
            // Someone who may write the directory must not have their file taken for ours.
            let own = real::look(file.as_fd())?;
            if own.identity.key() != found.identity.key() {
                return Err(Failure::Io(Errno::STALE.into()));
            }
        }
        let staged = Staged {
            staging: index,
            key: found.identity.key(),
            is_object: made.is_object,
        };
        self.journal.staged(staged)?;
        self.site.set_staged(index, staged.key);
        if let (Some(metadata), false) = (
            &staging.metadata,
            found.identity.kind == FileKind::Directory,
        ) {
            self.steps.pause()?;
            metadata::set(inode.as_fd(), metadata)?;
        }
        if found.identity.kind != FileKind::Directory {
            let whole = real::look(inode.as_fd())?.identity;
            self.journal.made(Whole {
                staging: index,
                size: whole.size,
                modified: whole.modified,
            })?;
        }
        if let Some(file) = made.file {
            flush.add(file)?;
        }
        Ok(())
    }

    fn make(&self, directory: BorrowedFd<'_>, staging: &Staging) -> io::Result<Made> {
        let name = &staging.place.name;
        let unopened = |is_object| Made {
            file: None,
            is_object,
        };
        match &staging.content {
            Content::Directory => {
                let mode = Mode::from_raw_mode(PRIVATE_DIRECTORY);
                rustix::fs::mkdirat(directory, name, mode)?;
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = rustix::fs::openat(directory, name, flags, Mode::empty())?;
                return Ok(Made {
                    file: Some(file),
                    is_object: false,
                });
            }
            Content::Regular { object: None } => {
                let file = create(directory, staging)?;
                return Ok(Made {
                    file: Some(file.into()),
                    is_object: false,
                });
            }
            Content::Regular {
                object: Some(object),
            } => return self.make_of_object(directory, staging, *object),
            Content::Symlink { target } => rustix::fs::symlinkat(target, directory, name)?,
            Content::Special { kind, device } => {
                let kind = FileType::from_raw_mode(kind.mode_bits());
                let mode = Mode::from_raw_mode(PRIVATE_FILE);
                rustix::fs::mknodat(directory, name, kind, mode, *device)?;
            }
            Content::Staged { staging: first } => {
                let first = &self.site.plan().stagings[*first].place;
                self.link(first, directory, staging)?;
            }
        }
        Ok(unopened(false))
    }

    /// The object itself under one more name where that can be and nobody writes to it, else a copy.
    fn make_of_object(
        &self,
        directory: BorrowedFd<'_>,
        staging: &Staging,
        object: ObjectId,
    ) -> io::Result<Made> {
        let path = self.objects.path(object);
        let name = &staging.place.name;
        // A task that is about to die may be writing still, to a file that is passed through.
        let has_writers = File::open(&path).and_then(has_writers);
        let linked = match has_writers {
            Ok(false) => rustix::fs::linkat(CWD, path, directory, name, AtFlags::empty()),
            _ => Err(Errno::TXTBSY),
        };
        let data = self.objects.open(object)?;
        match linked {
            Ok(()) => Ok(Made {
                file: Some(data.into()),
                is_object: true,
            }),
            Err(Errno::XDEV | Errno::PERM | Errno::MLINK | Errno::OPNOTSUPP | Errno::TXTBSY) => {
                let file = create(directory, staging)?;
                copy(&data, &file, None)?;
                let times =
                    Attributes::of_statx(&self.objects.stat(object)?).ok_or(Errno::INVAL)?;
                let modified = times.identity.modified;
                let (inode, _) = open_inode(directory, name)?;
                metadata::set_times(inode.as_fd(), Some(times.accessed), Some(modified))?;
                Ok(Made {
                    file: Some(file.into()),
                    is_object: false,
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    fn link(
        &self,
        existing: &Place,
        directory: BorrowedFd<'_>,
        staging: &Staging,
    ) -> io::Result<()> {
        let from = self.site.open(existing.directory)?;
        let flags = AtFlags::empty();
        let name = &staging.place.name;
        Ok(rustix::fs::linkat(
            &from,
            &existing.name,
            directory,
            name,
            flags,
        )?)
    }

    /// Gives a staged directory its final attributes, unless something is still to be moved in.
    fn complete(&mut self, index: usize, staging: &Staging) -> Result<(), Failure> {
        let (Some(metadata), Some(key)) = (&staging.metadata, self.site.staged(index)) else {
            return Ok(());
        };
        self.steps.pause()?;
        let inode = self.site.inode(&staging.place, key)?;
        let inode = inode.ok_or(Errno::STALE).map_err(io::Error::from)?;
        Ok(metadata::set(inode.as_fd(), metadata)?)
    }

    /// The data of files that keep their inode is read again after a crash, so it must be durable.
    fn add_data(&self, flush: &mut Flush) -> io::Result<()> {
        for edit in &self.site.plan().edits {
            if let Some(object) = edit.object {
                flush.add(self.objects.open(object)?.into())?;
            }
        }
        Ok(())
    }

    /// Staging takes its time, in which a file may lose what its object lacks.
    fn check_lenders(&self) -> Result<(), CommitError> {
        let edits = self.site.plan().edits.iter();
        let lost = edits.filter_map(|edit| self.objects.lost_lender(self.site, edit));
        let obstacles: Vec<_> = lost
            .map(|place| Obstacle {
                path: self.site.path(place),
                why: ObstacleKind::Lost,
            })
            .collect();
        match obstacles.is_empty() {
            true => Ok(()),
            false => Err(CommitError::Obstacles(obstacles)),
        }
    }

    fn failure(&self, failure: Failure, place: &Place) -> CommitError {
        match failure {
            Failure::Io(error) => {
                let path: PathBuf = self.site.target_path(place);
                CommitError::stage(path, error)
            }
            Failure::Commit(error) => error,
        }
    }
}

/// A failure that does not know its path yet, or one that needs none.
enum Failure {
    Io(io::Error),
    Commit(CommitError),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<CommitError> for Failure {
    fn from(error: CommitError) -> Self {
        Self::Commit(error)
    }
}

fn create(directory: BorrowedFd<'_>, staging: &Staging) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(PRIVATE_FILE);
    let fd = rustix::fs::openat(directory, &staging.place.name, flags, mode)?;
    Ok(fd.into())
}
