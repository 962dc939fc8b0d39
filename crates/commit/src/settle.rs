//! The steps after names are in place: files that keep their inode, what goes, and directories.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use surmise_changes::real::{self, is_absent};
use surmise_view::{Attributes, ObjectId};

use crate::apply::{Apply, Failure};
use crate::copy::copy;
use crate::error::CommitError;
use crate::metadata;
use crate::opening::OWNER_WRITES;
use crate::plan::{Edit, Finish, Removal};
use crate::rename::move_to_free;
use crate::report::Reason;

impl<'p> Apply<'_, 'p, '_, '_> {
    /// Changes a file, which keeps its inode.
    pub(crate) fn edit(&mut self, edit: &'p Edit) -> Result<(), Failure> {
        let mut found = None;
        for place in &edit.places {
            found = self
                .site
                .inode(place, edit.key)?
                .map(|inode| (inode, place));
            if found.is_some() {
                break;
            }
        }
        let Some((inode, place)) = found else {
            self.leave(&edit.places[0], Reason::Gone);
            return Ok(());
        };
        if let Some(object) = edit.object {
            self.write(inode.as_fd(), object)?;
            self.steps.pause()?;
        }
        metadata::set(inode.as_fd(), &edit.metadata)?;
        self.steps.pause()?;
        if let Some(object) = edit.object {
            let times = self.objects.stat(object)?;
            let times = Attributes::of_statx(&times).ok_or(Errno::INVAL)?;
            let (accessed, modified) = (times.accessed, times.identity.modified);
            metadata::set_times(inode.as_fd(), Some(accessed), Some(modified))?;
        } else {
            // Links and files that nobody may read can't be opened for a flush of their own.
            let directory = place.directory;
            self.flush.add_file_system(self.site, directory)?;
        }
        Ok(())
    }

    fn write(&mut self, inode: BorrowedFd<'_>, object: ObjectId) -> Result<(), Failure> {
        let file = open_for_writing(inode)?;
        let data = self.objects.open(object)?;
        self.steps.pause()?;
        copy(&data, &file, self.objects.borrowed(object))?;
        Ok(self.flush.add(file.into())?)
    }

    /// Removes a name for good.
    pub(crate) fn remove(&mut self, removal: &'p Removal) -> Result<(), Failure> {
        if removal.is_kept {
            return Ok(());
        }
        let found = match self.identity(&removal.place) {
            // A directory on the way was finished, so all that is below it was done before.
            Err(error) if is_denied(&error) => return Ok(()),
            found => found?,
        };
        match found {
            None => return Ok(()),
            Some(found) if removal.expected.matches(&found) => {}
            // Ours, which found its place occupied, and has been reported.
            Some(_) if self.is_own(removal) => return Ok(()),
            Some(_) => {
                self.leave(&removal.place, Reason::Changed);
                return Ok(());
            }
        }
        let directory = self.site.open(removal.place.directory)?;
        let name = &removal.place.name;
        let flags = match removal.is_directory {
            true => AtFlags::REMOVEDIR,
            false => AtFlags::empty(),
        };
        match rustix::fs::unlinkat(&directory, name, flags) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                if let Some(home) = &removal.home {
                    let home = move_to_free(directory.as_fd(), name, directory.as_fd(), home);
                    if home.is_ok() {
                        self.leave_at_home(removal);
                        return Ok(());
                    }
                }
                self.leave(&removal.place, Reason::NotEmpty);
                Ok(())
            }
            removed => Ok(removed?),
        }
    }

    fn leave_at_home(&mut self, removal: &Removal) {
        let mut place = removal.place.clone();
        if let Some(home) = &removal.home {
            place.name.clone_from(home);
        }
        self.leave(&place, Reason::NotEmpty);
    }

    /// Whether a removal's place holds what was to be exchanged for the thing to be removed.
    fn is_own(&self, removal: &Removal) -> bool {
        let path = self.site.path(&removal.place);
        self.left
            .iter()
            .any(|left| left.reason == Reason::Own && left.path == path)
    }

    /// Modes, owners and times of directories, which nothing is put into or taken out of any more.
    pub(crate) fn finish(&mut self) -> Result<(), CommitError> {
        for finish in &self.site.plan().finishes {
            self.steps.step()?;
            self.finish_directory(finish).map_err(|error| {
                let directory = &self.site.plan().directories[finish.directory];
                let path = directory.places.first().map_or_else(
                    || self.site.root_path().into(),
                    |place| self.site.path(place),
                );
                CommitError::apply(path, error)
            })?;
        }
        Ok(())
    }

    fn finish_directory(&self, finish: &Finish) -> io::Result<()> {
        match self.site.open(finish.directory) {
            Ok(directory) => metadata::set(directory.as_fd(), &finish.metadata),
            // Moved away outside since the check.
            Err(error) if is_absent(&error) => Ok(()),
            // Deepest first: whoever can't be reached any more was finished before its parent was.
            Err(error) if is_denied(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Opens an inode for writing; its owner may do so whatever its mode is.
pub(crate) fn open_for_writing(inode: BorrowedFd<'_>) -> io::Result<File> {
    let link = real::link(inode);
    let open = || rustix::fs::openat(CWD, &link, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    match open() {
        Err(Errno::ACCESS) => {
            let permissions = real::look(inode)?.permissions;
            metadata::set_permissions(inode, permissions | OWNER_WRITES)?;
            Ok(open()?.into())
        }
        opened => Ok(opened?.into()),
    }
}

/// Whether an error says that a directory on the way may not be passed.
fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}
