//! What a file had before a commit changes it through its inode: enough to give it back.
//!
//! Only what will differ is kept. The journal says which bytes those are, and `commit.undo/EDIT` in the
//! state directory holds them at their own offsets.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use surmise_changes::real::{self, link};

use crate::copy::next_data;
use crate::error::CommitError;
use crate::flush::Flush;
use crate::journal::Journal;
use crate::locate::Site;
use crate::objects::Objects;
use crate::plan::{Edit, Metadata};
use crate::steps::Steps;

/// What the kernel takes away from a file that is written, besides set-id bits.
const CAPABILITY: &str = "security.capability";

/// The grain in which data are compared, in bytes.
const GRAIN: usize = 1 << 16;

/// What an inode had before its edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Preimage {
    /// Index into the plan's edits.
    pub(crate) edit: usize,
    pub(crate) metadata: Metadata,
    /// `None` where the edit changes no data.
    pub(crate) data: Option<Data>,
}

/// Which data an edit changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Data {
    /// The file's size before.
    pub(crate) size: u64,
    /// CRC-32C of the bytes of all ranges, one after the other.
    pub(crate) sum: u32,
    /// The bytes below that size that will be others: (start, length), ascending.
    pub(crate) ranges: Vec<(u64, u64)>,
}

/// Keeps the pre-images of all edits, durably, and notes them.
pub(crate) fn keep(
    site: &Site<'_>,
    state: &Path,
    objects: &Objects,
    journal: &mut Journal,
    mut steps: Steps<'_, '_>,
) -> Result<(), CommitError> {
    let mut flush = Flush::default();
    if !site.plan().edits.is_empty() {
        make_directory(state, &mut flush)
            .map_err(|error| CommitError::stage(directory(state), error))?;
    }
    for (index, edit) in site.plan().edits.iter().enumerate() {
        steps.step()?;
        let path = path(state, index);
        let preimage = keep_one(site, objects, index, edit, &path, &mut flush);
        let Some(preimage) = preimage.map_err(|error| CommitError::stage(path, error))? else {
            continue;
        };
        journal
            .preimage(preimage)
            .map_err(|error| CommitError::stage(state.to_owned(), error))?;
    }
    steps.pause()?;
    flush
        .run()
        .map_err(|error| CommitError::stage(directory(state), error))
}

/// The first file of which something else is there by now than was kept, if there is one.
///
/// # Errors
/// With the file that could not be read.
pub(crate) fn damaged(
    state: &Path,
    preimages: &[Preimage],
) -> Result<Option<(usize, PathBuf)>, (PathBuf, io::Error)> {
    for preimage in preimages {
        let Some(data) = &preimage.data else { continue };
        let kept = path(state, preimage.edit);
        match sum(&kept, data) {
            Ok(sum) if sum == data.sum => {}
            Ok(_) => return Ok(Some((preimage.edit, kept))),
            Err(error) => return Err((kept, error)),
        }
    }
    Ok(None)
}

/// The sum of what was kept of one file.
fn sum(kept: &Path, data: &Data) -> io::Result<u32> {
    let file = match File::open(kept) {
        // All of it was zeros.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        file => Some(file?),
    };
    let mut sum = 0;
    let mut buffer = vec![0; GRAIN];
    for (start, length) in &data.ranges {
        let (mut at, end) = (*start, start + length);
        while at < end {
            let run = usize::try_from(end - at).map_or(GRAIN, |left| left.min(GRAIN));
            match &file {
                Some(file) => read_padded(file, &mut buffer[..run], at)?,
                None => buffer[..run].fill(0),
            }
            sum = crc32c::crc32c_append(sum, &buffer[..run]);
            at += run as u64;
        }
    }
    Ok(sum)
}

/// Removes what [`keep`] kept.
pub(crate) fn remove(state: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(directory(state)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The data that an edit will overwrite.
pub(crate) fn open(state: &Path, edit: usize) -> io::Result<File> {
    File::open(path(state, edit))
}

/// Reads as much as `buffer` holds; what lies beyond the end of the file is zeros.
pub(crate) fn read_padded(file: &File, buffer: &mut [u8], at: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], at + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer[done..].fill(0);
    Ok(())
}

/// `None` where the file's data may not be read, which the commit need not do, and where the object
/// lacks some of them: to put the rest back would move the change time by which the view knows that the
/// file still has what the object lacks. Then nothing is kept, and the commit can be made but not be
/// undone.
fn keep_one(
    site: &Site<'_>,
    objects: &Objects,
    index: usize,
    edit: &Edit,
    path: &Path,
    flush: &mut Flush,
) -> io::Result<Option<Preimage>> {
    let mut inode = None;
    for place in &edit.places {
        inode = inode.or(site.inode(place, edit.key)?);
    }
    // It has gone since the check, which is made once more when all is staged.
    let Some(inode) = inode else { return Ok(None) };
    let data = match edit.object {
        None => None,
        Some(object) if objects.is_partial(object)? => return Ok(None),
        Some(object) => {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(CWD, link(inode.as_fd()), flags, Mode::empty());
            let now = match opened {
                Err(Errno::ACCESS) => return Ok(None),
                opened => File::from(opened?),
            };
            let mut kept = Kept {
                path,
                file: None,
                sum: 0,
                ranges: Vec::new(),
            };
            let size = kept.take(&now, &objects.open(object)?)?;
            if let Some(file) = kept.file {
                flush.add(file.into())?;
            }
            Some(Data {
                size,
                sum: kept.sum,
                ranges: kept.ranges,
            })
        }
    };
    Ok(Some(Preimage {
        edit: index,
        metadata: before(inode.as_fd(), edit)?,
        data,
    }))
}

/// All that an edit, and the kernel on its way, may change of an inode's metadata.
fn before(inode: BorrowedFd<'_>, edit: &Edit) -> io::Result<Metadata> {
    let found = real::look(inode)?;
    let named = edit.metadata.xattrs.iter().map(|(name, _)| name.clone());
    let mut names: Vec<_> = named.collect();
    if !names.iter().any(|name| name == CAPABILITY) {
        names.push(CAPABILITY.into());
    }
    let xattrs = names.into_iter().map(|name| {
        let value = real::xattr(inode, &name)?;
        Ok((name, value))
    });
    Ok(Metadata {
        permissions: Some(found.permissions),
        uid: Some(found.uid),
        gid: Some(found.gid),
        xattrs: xattrs.collect::<io::Result<_>>()?,
        accessed: Some(found.accessed),
        modified: Some(found.identity.modified),
    })
}

/// Data on their way to the state directory.
struct Kept<'p> {
    path: &'p Path,
    /// Made when there is something to keep that is not zeros.
    file: Option<File>,
    /// Of all that is in the ranges.
    sum: u32,
    ranges: Vec<(u64, u64)>,
}

impl Kept<'_> {
    /// Keeps what `now` has and `then` has not, and returns the size of `now`.
    fn take(&mut self, now: &File, then: &File) -> io::Result<u64> {
        let size = now.metadata()?.len();
        let both = size.min(then.metadata()?.len());
        let (mut old, mut new) = (vec![0; GRAIN], vec![0; GRAIN]);
        let mut at = 0;
        while at < size {
            // What has no data is zeros: in both files, or again when the size is.
            let end = if at < both { both } else { size };
            let mut data = next_data(now, at, end)?.start;
            if at < both {
                data = data.min(next_data(then, at, both)?.start);
            }
            if data > at {
                at = data;
                continue;
            }
            let run = usize::try_from(end - at).map_or(GRAIN, |left| left.min(GRAIN));
            read_padded(now, &mut old[..run], at)?;
            let differs = at >= both || {
                read_padded(then, &mut new[..run], at)?;
                old[..run] != new[..run]
            };
            if differs {
                self.keep(&old[..run], at)?;
            }
            at += run as u64;
        }
        Ok(size)
    }

    fn keep(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        let length = bytes.len() as u64;
        self.sum = crc32c::crc32c_append(self.sum, bytes);
        match self.ranges.last_mut() {
            Some((start, kept)) if *start + *kept == at => *kept += length,
            _ => self.ranges.push((at, length)),
        }
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        if self.file.is_none() {
            self.file = Some(File::create_new(self.path)?);
        }
        match &self.file {
            Some(file) => file.write_all_at(bytes, at),
            None => Ok(()),
        }
    }
}

fn make_directory(state: &Path, flush: &mut Flush) -> io::Result<()> {
    let path = directory(state);
    DirBuilder::new().mode(0o700).create(&path)?;
    flush.add(File::open(path)?.into())?;
    flush.add(File::open(state)?.into())
}

fn directory(state: &Path) -> PathBuf {
    state.join("commit.undo")
}

fn path(state: &Path, edit: usize) -> PathBuf {
    directory(state).join(edit.to_string())
}
