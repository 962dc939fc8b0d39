//! What a commit will do: every step, decided before the first is taken.
//!
//! A plan is pure data, made from a [`surmise_view::Map`] alone ([`Plan::of`]). What the journal
//! holds is the plan, so the process that resumes a commit takes the same steps.
//!
//! Nothing in a plan is a path. A **place** is a directory, as an index into [`Plan::directories`],
//! and a name in it; a directory is the places in which it may be found, and the inode it must be.

mod build;
mod gains;
mod losses;

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use surmise_view::{FileKind, Identity, InodeKey, NodeId, ObjectId, Timestamp};

use crate::opening;

pub(crate) use build::{Checks, Emptied, Expectation};

/// The root's index in [`Plan::directories`].
pub(crate) const ROOT: usize = 0;

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// Index into [`Plan::directories`].
    pub(crate) directory: usize,
    pub(crate) name: OsString,
}

/// A directory in which something changes, or through which the way there leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directory {
    /// The real directory that it is; `None` for one that the commit makes.
    pub(crate) key: Option<InodeKey>,
    /// The staging that makes it.
    pub(crate) staging: Option<usize>,
    /// Where it may be: finally, while set aside or staged, and where it was; in this order.
    pub(crate) places: Vec<Place>,
    /// Its real modification time before the commit, where a stage must be undone to it. Filled in
    /// by the check.
    pub(crate) modified: Option<Timestamp>,
}

/// An inode that the commit makes before the point of no return, beside its final name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Staging {
    pub(crate) place: Place,
    pub(crate) content: Content,
    /// What to set when it is whole; `None` for further names of one inode, and for directories that
    /// a [`Finish`] completes.
    pub(crate) metadata: Option<Metadata>,
}

/// What a staged name leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    Directory,
    Regular {
        object: Option<ObjectId>,
    },
    Symlink {
        target: OsString,
    },
    Special {
        kind: FileKind,
        device: u64,
    },
    /// One more name of an earlier staging.
    Staged {
        staging: usize,
    },
}

/// One more name for a real inode. No part of the stage: it moves the inode's change time on, which
/// could not be taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) key: InodeKey,
    /// Where the inode may be.
    pub(crate) sources: Vec<Place>,
    /// Its new name, which may be a temporary one.
    pub(crate) place: Place,
    /// Its new name in the end.
    pub(crate) to: Place,
}

/// A real name that is to lead elsewhere or nowhere: its inode waits under a temporary name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Aside {
    pub(crate) place: Place,
    pub(crate) temporary: OsString,
    pub(crate) expected: Expected,
}

/// A name that is to lead to an inode that waits elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) item: Item,
    pub(crate) from: Place,
    pub(crate) to: Place,
    /// What the name leads to until then, where that is no directory.
    pub(crate) displaces: Option<Expected>,
    /// The name in `from.directory` to return to when the placing fails, for moved inodes.
    pub(crate) home: Option<OsString>,
}

/// An inode that a placement is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    Real(InodeKey),
    /// An index into [`Plan::stagings`].
    Staged(usize),
}

/// What must be found before it is removed or moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// This inode.
    Inode(InodeKey),
    /// This inode, with the same data.
    State(Identity),
}

/// A real inode that keeps its identity and changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) key: InodeKey,
    /// Where it may be by then.
    pub(crate) places: Vec<Place>,
    /// Its new data.
    pub(crate) object: Option<ObjectId>,
    pub(crate) metadata: Metadata,
}

/// A name that goes in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) place: Place,
    pub(crate) expected: Expected,
    pub(crate) is_directory: bool,
    /// The name to return to when a directory turns out to hold something new.
    pub(crate) home: Option<OsString>,
    /// Whether the domain's own state lies below, so that the directory must outlive the commit.
    pub(crate) is_kept: bool,
}

/// The last touch on a directory: what its contents must not change any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finish {
    pub(crate) directory: usize,
    pub(crate) metadata: Metadata,
}

/// A directory that its owner cannot write, and that must be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) directory: usize,
    /// The permission bits that it has.
    pub(crate) permissions: u16,
}

/// What to set of an inode. `None`: leave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Metadata {
    pub(crate) permissions: Option<u16>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    /// `None` as a value removes the attribute.
    pub(crate) xattrs: Vec<(OsString, Option<Vec<u8>>)>,
    pub(crate) accessed: Option<Timestamp>,
    pub(crate) modified: Option<Timestamp>,
}

/// Every step of a commit, each list in the order in which it is taken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Plan {
    pub(crate) directories: Vec<Directory>,
    /// Filled in by the check.
    pub(crate) opened: Vec<Opened>,
    pub(crate) stagings: Vec<Staging>,
    pub(crate) links: Vec<Link>,
    pub(crate) asides: Vec<Aside>,
    pub(crate) placements: Vec<Placement>,
    pub(crate) edits: Vec<Edit>,
    pub(crate) removals: Vec<Removal>,
    pub(crate) finishes: Vec<Finish>,
}

impl Plan {
    /// How many steps it takes after the point of no return.
    pub(crate) fn steps(&self) -> usize {
        self.links.len()
            + self.asides.len()
            + self.placements.len()
            + self.edits.len()
            + self.removals.len()
            + self.finishes.len()
    }

    /// A path for messages: where a place was, or is to be.
    pub(crate) fn path(&self, root: &Path, place: &Place) -> PathBuf {
        let mut names = vec![place.name.as_os_str()];
        let mut at = place.directory;
        while at != ROOT && names.len() <= self.directories.len() {
            let directory = &self.directories[at];
            let place = match directory.staging {
                Some(_) => directory.places.first(),
                None => directory.places.last(),
            };
            let Some(place) = place else { break };
            names.push(&place.name);
            at = place.directory;
        }
        let mut path = root.to_owned();
        path.extend(names.into_iter().rev());
        path
    }

    /// Takes note of what the check found: the modification times that directories have now, and those
    /// that must be opened for writing.
    pub(crate) fn adjust(
        &mut self,
        checks: &Checks<'_>,
        times: Vec<Option<Timestamp>>,
        opened: Vec<Opened>,
    ) {
        for (directory, time) in self.directories.iter_mut().zip(times) {
            directory.modified = time;
        }
        for finish in &mut self.finishes {
            let now = self.directories[finish.directory].modified;
            let then = checks.times.get(&finish.directory).copied();
            // Someone else changed the directory too: their time is the later one.
            if then.is_some() && now != then {
                finish.metadata.modified = None;
            }
        }
        opening::add(self, opened);
    }
}

impl Plan {
    /// Existing directories in which something is staged.
    pub(crate) fn staged_in(&self) -> BTreeSet<usize> {
        let places = self.stagings.iter().map(|staging| &staging.place);
        self.existing(places.map(|place| place.directory))
    }

    /// Existing directories in which names change before anything is removed, or that move.
    pub(crate) fn touched(&self) -> BTreeSet<usize> {
        let stagings = self.stagings.iter().map(|staging| &staging.place);
        let placements = self.placements.iter();
        let placements = placements.flat_map(|placement| [&placement.from, &placement.to]);
        let asides = self.asides.iter().map(|aside| &aside.place);
        let links = self.links.iter().map(|link| &link.place);
        let places = stagings.chain(placements).chain(asides).chain(links);
        let moved = self.directories.iter().enumerate();
        let moved = moved.filter(|(_, directory)| directory.places.len() > 1);
        let touched = places
            .map(|place| place.directory)
            .chain(moved.map(|(index, _)| index));
        self.existing(touched)
    }

    fn existing(&self, directories: impl Iterator<Item = usize>) -> BTreeSet<usize> {
        let existing = |index: &usize| self.directories[*index].staging.is_none();
        directories.filter(existing).collect()
    }
}

impl Expected {
    pub(crate) fn key(&self) -> InodeKey {
        match self {
            Self::Inode(key) => *key,
            Self::State(state) => state.key(),
        }
    }

    pub(crate) fn matches(&self, found: &Identity) -> bool {
        match self {
            Self::Inode(key) => found.key() == *key,
            // A rename moves the change time on, so it cannot tell.
            Self::State(state) => {
                found.same_inode(state)
                    && (state.kind == FileKind::Directory
                        || (found.size, found.modified) == (state.size, state.modified))
            }
        }
    }
}

impl Metadata {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Which plan index a node's directory got.
pub(crate) type Indices = HashMap<NodeId, usize>;
