//! Files that were changed through their inode: whether they are still as the commit left them, and
//! what they were.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{CWD, Mode, OFlags};
use surmise_changes::real::{self, link};
use surmise_view::Attributes;

use super::Revert;
use crate::copy::{clear, next_data};
use crate::flush::Flush;
use crate::locate::Site;
use crate::metadata;
use crate::opening::OWNER_WRITES;
use crate::plan::{Edit, Metadata, Place};
use crate::preimage::{self, Data, Preimage, read_padded};
use crate::settle::open_for_writing;

/// Bytes looked at, or moved, at a time.
const BUFFER_BYTES: usize = 1 << 16;

/// Set-user-id and set-group-id: the kernel clears them on a write.
const SET_ID: u16 = 0o6000;

/// The inode of an edit, wherever it is by now.
pub(super) fn find<'p>(
    site: &Site<'_>,
    edit: &'p Edit,
) -> io::Result<Option<(OwnedFd, &'p Place)>> {
    for place in &edit.places {
        if let Some(inode) = site.inode(place, edit.key)? {
            return Ok(Some((inode, place)));
        }
    }
    Ok(None)
}

/// Whether an inode is between what it was and what the edit makes of it, so that nobody else's
/// change is lost with the edit.
pub(super) fn is_ours(
    revert: &Revert<'_, '_>,
    inode: BorrowedFd<'_>,
    edit: &Edit,
    preimage: &Preimage,
) -> io::Result<bool> {
    let found = real::look(inode)?;
    if !is_between(inode, &found, &preimage.metadata, &edit.metadata)? {
        return Ok(false);
    }
    match (edit.object, &preimage.data) {
        (Some(object), Some(data)) => {
            let now = open_for_reading(inode)?;
            let old = kept(revert, preimage, data)?;
            holds_only(&now, data, old.as_ref(), &revert.objects.open(object)?)
        }
        (None, None) => Ok(true),
        // The journal speaks of another plan: it is not one that a commit wrote.
        _ => Ok(false),
    }
}

/// Gives an inode back what it had.
pub(super) fn restore(
    revert: &Revert<'_, '_>,
    edit: &Edit,
    preimage: &Preimage,
    flush: &mut Flush,
) -> io::Result<()> {
    // Looked for before the undo began; who removed it since has what they want.
    let Some((inode, place)) = find(revert.site, edit)? else {
        return Ok(());
    };
    let mut metadata = preimage.metadata.clone();
    match &preimage.data {
        Some(data) => {
            let file = open_for_writing(inode.as_fd())?;
            write_back(&file, data, kept(revert, preimage, data)?.as_ref())?;
            keep_changed(inode.as_fd(), &mut metadata)?;
            metadata::set(inode.as_fd(), &metadata)?;
            flush.add(file.into())
        }
        None => {
            keep_changed(inode.as_fd(), &mut metadata)?;
            metadata::set(inode.as_fd(), &metadata)?;
            flush.add_file_system(revert.site, place.directory)
        }
    }
}

/// Leaves those extended attributes that are not as they were: some may only be touched by root.
fn keep_changed(inode: BorrowedFd<'_>, metadata: &mut Metadata) -> io::Result<()> {
    let mut changed = Vec::new();
    for (name, value) in metadata.xattrs.drain(..) {
        if real::xattr(inode, &name)? != value {
            changed.push((name, value));
        }
    }
    metadata.xattrs = changed;
    Ok(())
}

/// The bytes that were kept; `None` where all of them were zeros.
fn kept(revert: &Revert<'_, '_>, preimage: &Preimage, data: &Data) -> io::Result<Option<File>> {
    match preimage::open(revert.state, preimage.edit) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        kept => {
            let kept = kept?;
            let end = data
                .ranges
                .last()
                .map_or(0, |(start, length)| start + length);
            match kept.metadata()?.len() <= end {
                true => Ok(Some(kept)),
                false => Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }
}

fn is_between(
    inode: BorrowedFd<'_>,
    found: &Attributes,
    old: &Metadata,
    new: &Metadata,
) -> io::Result<bool> {
    let one_of = |found, old, new: Option<u32>| Some(found) == old || Some(found) == new;
    let modes = [old.permissions, new.permissions].into_iter().flatten();
    let is_mode = modes
        .flat_map(|mode| [mode, mode & !SET_ID])
        .flat_map(|mode| [mode, mode | OWNER_WRITES])
        .any(|mode| mode == found.permissions);
    // Links have no mode of their own.
    let is_mode = is_mode || found.identity.kind == surmise_view::FileKind::Symlink;
    if !is_mode || !one_of(found.uid, old.uid, new.uid) || !one_of(found.gid, old.gid, new.gid) {
        return Ok(false);
    }
    for (name, value) in &old.xattrs {
        let now = real::xattr(inode, name)?;
        // The kernel takes some away by itself.
        let is_known = now.is_none() || now == *value || now == new_xattr(new, name);
        if !is_known {
            return Ok(false);
        }
    }
    Ok(true)
}

fn new_xattr(new: &Metadata, name: &OsString) -> Option<Vec<u8>> {
    let found = new.xattrs.iter().find(|(other, _)| other == name);
    found.and_then(|(_, value)| value.clone())
}

/// Whether every byte that the edit changes is the old or the new one, and the size is one of both.
/// (Bytes that the edit does not change are not looked at: an undo does not touch them either.)
fn holds_only(now: &File, data: &Data, old: Option<&File>, new: &File) -> io::Result<bool> {
    let (size, new_size) = (now.metadata()?.len(), new.metadata()?.len());
    if size != data.size && size != new_size {
        return Ok(false);
    }
    let grown = (data.size, size.saturating_sub(data.size));
    let mut buffers = [(); 3].map(|()| vec![0; BUFFER_BYTES]);
    for (start, length) in data.ranges.iter().copied().chain([grown]) {
        // What is cut off already cannot be anybody else's.
        let end = (start + length).min(size);
        let mut at = start;
        while at < end {
            let run = usize::try_from(end - at).map_or(BUFFER_BYTES, |left| left.min(BUFFER_BYTES));
            let [is, was, will] = buffers.each_mut().map(|buffer| &mut buffer[..run]);
            read_padded(now, is, at)?;
            read_padded(new, will, at)?;
            match old.filter(|_| at < data.size) {
                Some(old) => read_padded(old, was, at)?,
                None => was.fill(0),
            }
            let mut bytes = is.iter().zip(was.iter().zip(will.iter()));
            if !bytes.all(|(is, (was, will))| is == was || is == will) {
                return Ok(false);
            }
            at += run as u64;
        }
    }
    Ok(true)
}

/// Writes the old bytes over the new ones, and gives the file its old size.
fn write_back(file: &File, data: &Data, old: Option<&File>) -> io::Result<()> {
    file.set_len(data.size)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    for (start, length) in &data.ranges {
        let (mut at, end) = (*start, start + length);
        while at < end {
            let run = match old {
                Some(old) => next_data(old, at, end)?,
                None => end..end,
            };
            clear(file, at, run.start)?;
            at = run.start;
            while let (Some(old), true) = (old, at < run.end) {
                let left = usize::try_from(run.end - at).unwrap_or(BUFFER_BYTES);
                let bytes = &mut buffer[..left.min(BUFFER_BYTES)];
                old.read_exact_at(bytes, at)?;
                file.write_all_at(bytes, at)?;
                at += bytes.len() as u64;
            }
        }
    }
    Ok(())
}

fn open_for_reading(inode: BorrowedFd<'_>) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, link(inode), flags, Mode::empty())?.into())
}
