//! Takes away what was staged, so that nothing has changed.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::io::Errno;
use surmise_changes::real::{is_absent, look_at, open_inode};
use surmise_view::ObjectId;

use crate::error::CommitError;
use crate::flush::Flush;
use crate::locate::Site;
use crate::metadata;
use crate::objects::Objects;
use crate::opening::close;
use crate::plan::{Content, Metadata, Place};
use crate::steps::Steps;

/// Undoes a stage, however far it came, and gives the directories in `touched` the times that they had.
/// Temporary names hold random digits of their own commit, so
/// what is found under one was made by it.
pub(crate) fn undo_stage(
    site: &mut Site<'_>,
    state: &Path,
    objects: &Objects,
    touched: &BTreeSet<usize>,
    mut steps: Steps<'_, '_>,
) -> Result<(), CommitError> {
    let plan = site.plan();
    for (index, staging) in plan.stagings.iter().enumerate() {
        if staging.content == Content::Directory {
            open_up(site, index, &staging.place)
                .map_err(|error| CommitError::stage(site.target_path(&staging.place), error))?;
        }
    }
    for (index, staging) in plan.stagings.iter().enumerate().rev() {
        steps.step()?;
        let is_directory = staging.content == Content::Directory;
        unlink(site, index, &staging.place, is_directory)
            .map_err(|error| CommitError::stage(site.target_path(&staging.place), error))?;
        if let (Content::Regular { object: Some(id) }, Some(metadata)) =
            (&staging.content, &staging.metadata)
        {
            restore_object(state, objects, *id, metadata)
                .map_err(|error| CommitError::stage(objects.path(*id), error))?;
        }
    }
    close(site).map_err(|error| CommitError::stage(site.root_path().to_owned(), error))?;
    let mut flush = Flush::default();
    for index in touched.iter().copied() {
        let restored = site.open(index).and_then(|fd| {
            metadata::set_times(fd.as_fd(), None, plan.directories[index].modified)?;
            flush.add_directory(site, index)
        });
        match restored {
            // Removed or moved away outside: nothing that is still there was changed.
            Err(error) if is_absent(&error) => {}
            restored => {
                restored.map_err(|error| CommitError::stage(site.root_path().to_owned(), error))?;
            }
        }
    }
    // The journal goes next, and must not be gone before what it speaks of.
    flush
        .run()
        .map_err(|error| CommitError::stage(site.root_path().to_owned(), error))
}

/// Makes sure that the contents of a staged directory can be removed, whatever mode it has.
fn open_up(site: &mut Site<'_>, index: usize, place: &Place) -> io::Result<()> {
    let Some(found) = site.look(place)? else {
        return Ok(());
    };
    let key = found.identity.key();
    site.set_staged(index, key);
    match site.inode(place, key)? {
        Some(inode) => metadata::set_permissions(inode.as_fd(), 0o700),
        None => Ok(()),
    }
}

fn unlink(site: &Site<'_>, index: usize, place: &Place, is_directory: bool) -> io::Result<()> {
    let directory = match site.open(place.directory) {
        Err(error) if is_absent(&error) => return Ok(()),
        directory => directory?,
    };
    let Some(found) = look_at(directory.as_fd(), &place.name)? else {
        return Ok(());
    };
    let key = site.staged(index);
    if key.is_some_and(|key| key != found.identity.key()) {
        // Somebody else's, in a directory that the commit made.
        return Err(Errno::EXIST.into());
    }
    let flags = match is_directory {
        true => AtFlags::REMOVEDIR,
        false => AtFlags::empty(),
    };
    Ok(rustix::fs::unlinkat(&directory, &place.name, flags)?)
}

/// Gives an object back the attributes of an object, should it have got those of its file.
fn restore_object(
    state: &Path,
    objects: &Objects,
    object: ObjectId,
    set: &Metadata,
) -> io::Result<()> {
    let owner = rustix::fs::statx(CWD, state, AtFlags::empty(), StatxFlags::BASIC_STATS)?;
    let path = objects.path(object);
    let (inode, _) = match open_inode(CWD, path.as_os_str()) {
        Err(error) if is_absent(&error) => return Ok(()),
        opened => opened?,
    };
    metadata::remove_xattrs(inode.as_fd(), set)?;
    let own = Metadata {
        permissions: Some(0o600),
        uid: Some(owner.stx_uid),
        gid: Some(owner.stx_gid),
        ..Metadata::default()
    };
    metadata::set(inode.as_fd(), &own)
}
