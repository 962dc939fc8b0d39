//! What a commit applied, as it is outside now. It is looked at here, and judged elsewhere
//! ([`super::judge`]), without another look.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Dir, Mode, OFlags};
use surmise_changes::real::is_absent;
use surmise_view::{Attributes, Identity, InodeKey};

use super::{Revert, data, places};
use crate::error::CommitError;
use crate::plan::{Content, Place};

/// Whether each of the plan's directories is in one of its places.
pub(super) fn directories(revert: &Revert<'_, '_>) -> Result<Vec<bool>, CommitError> {
    let site = revert.site;
    let directories = 0..site.plan().directories.len();
    directories
        .map(|index| match site.open(index) {
            Ok(_) => Ok(true),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(CommitError::undo(site.root_path().to_owned(), error)),
        })
        .collect()
}

/// What was seen of all that a commit applied, in directories that are all there.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// What each place leads to that a step touched; nothing leads nowhere.
    pub(super) found: HashMap<Place, Identity>,
    /// What has become of each of the plan's edits.
    pub(super) edits: Vec<Edited>,
    /// The inode of each of the plan's stagings, where it was made.
    pub(super) staged: Vec<Option<InodeKey>>,
    /// The names in each directory that the commit made.
    pub(super) made: Vec<(usize, Vec<OsString>)>,
    /// The objects that were staged: the staging, the object's inode, and how many names that has.
    pub(super) objects: Vec<(usize, InodeKey, u32)>,
}

/// What has become of a file that was changed through its inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edited {
    /// It is between what it was and what the commit makes of it.
    Ours,
    /// What it was is not known.
    NotKept,
    /// It is in none of its places.
    Gone,
    /// Somebody changed it, at this place.
    Changed(Place),
}

impl Seen {
    /// Looks at everything that the commit applied. Reads only.
    ///
    /// # Errors
    /// [`CommitError::Undo`] with what cannot be looked at.
    pub(super) fn of(revert: &Revert<'_, '_>) -> Result<Self, CommitError> {
        let site = revert.site;
        let edits = edits(revert)?;
        let mut found = HashMap::new();
        for place in places(site.plan()) {
            let looked = site.look(&place);
            let looked = looked.map_err(|error| CommitError::undo(site.path(&place), error))?;
            if let Some(looked) = looked {
                found.insert(place, looked.identity);
            }
        }
        let stagings = 0..site.plan().stagings.len();
        Ok(Self {
            found,
            edits,
            staged: stagings.map(|staging| site.staged(staging)).collect(),
            made: made(revert)?,
            objects: objects(revert)?,
        })
    }
}

fn edits(revert: &Revert<'_, '_>) -> Result<Vec<Edited>, CommitError> {
    let kept = revert.preimages.iter();
    let kept: HashMap<_, _> = kept.map(|preimage| (preimage.edit, preimage)).collect();
    let edits = revert.site.plan().edits.iter().enumerate();
    edits
        .map(|(index, edit)| {
            let failed = |error| CommitError::undo(revert.site.path(&edit.places[0]), error);
            let Some(preimage) = kept.get(&index) else {
                return Ok(Edited::NotKept);
            };
            let Some((inode, place)) = data::find(revert.site, edit).map_err(failed)? else {
                return Ok(Edited::Gone);
            };
            let is_ours = data::is_ours(revert, inode.as_fd(), edit, preimage).map_err(failed)?;
            Ok(match is_ours {
                true => Edited::Ours,
                false => Edited::Changed(place.clone()),
            })
        })
        .collect()
}

fn made(revert: &Revert<'_, '_>) -> Result<Vec<(usize, Vec<OsString>)>, CommitError> {
    let site = revert.site;
    let mut made = Vec::new();
    for (index, directory) in site.plan().directories.iter().enumerate() {
        let (Some(_), Some(place)) = (directory.staging, directory.places.first()) else {
            continue;
        };
        let names = site.open(index).and_then(|directory| names_in(&directory));
        let names = names.map_err(|error| CommitError::undo(site.path(place), error))?;
        made.push((index, names));
    }
    Ok(made)
}

fn objects(revert: &Revert<'_, '_>) -> Result<Vec<(usize, InodeKey, u32)>, CommitError> {
    let mut objects = Vec::new();
    for (index, staging) in revert.site.plan().stagings.iter().enumerate() {
        let Content::Regular { object: Some(id) } = staging.content else {
            continue;
        };
        let found = revert.objects.stat(id);
        let found = found.map_err(|error| CommitError::undo(revert.objects.path(id), error))?;
        if let Some(own) = Attributes::of_statx(&found) {
            objects.push((index, own.identity.key(), own.links));
        }
    }
    Ok(objects)
}

fn names_in(directory: &OwnedFd) -> io::Result<Vec<OsString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(directory, ".", flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}
