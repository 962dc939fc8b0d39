//! The frames of a commit's journal.

use std::ffi::OsString;

use surmise_view::{InodeKey, Timestamp};

use super::codec::{Element, Field, fields};
use crate::plan::{
    Aside, Content, Directory, Edit, Expected, Finish, Item, Link, Metadata, Opened, Place,
    Placement, Plan, Removal, Staging,
};
use crate::preimage::{Data, Preimage};
use crate::report::Reason;

/// What a staging made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Staged {
    /// Index into the plan's stagings.
    pub(crate) staging: usize,
    pub(crate) key: InodeKey,
    /// Whether it is the object's own inode, by a hard link.
    pub(crate) is_object: bool,
}

/// In which state a staged inode is when it is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Made {
    /// Index into the plan's stagings.
    pub(crate) staging: usize,
    pub(crate) size: u64,
    pub(crate) modified: Timestamp,
}

/// Something that a commit had to leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Left {
    /// A path, absolute as the commit's root sees it.
    pub(crate) path: OsString,
    pub(crate) reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    Head { root: OsString },
    Directory(Directory),
    Staging(Staging),
    Opened(Opened),
    Link(Link),
    Aside(Aside),
    Placement(Placement),
    Edit(Edit),
    Removal(Removal),
    Finish(Finish),
    Stage,
    Staged(Staged),
    Made(Made),
    Preimage(Preimage),
    Undo,
    Reverted,
    Go,
    Written { left: Vec<Left> },
    End { left: Vec<Left> },
}

impl Frame {
    /// The frames that hold a plan.
    pub(super) fn of_plan(plan: &Plan) -> impl Iterator<Item = Self> {
        let directories = plan.directories.iter().cloned().map(Self::Directory);
        directories
            .chain(plan.stagings.iter().cloned().map(Self::Staging))
            .chain(plan.opened.iter().cloned().map(Self::Opened))
            .chain(plan.links.iter().cloned().map(Self::Link))
            .chain(plan.asides.iter().cloned().map(Self::Aside))
            .chain(plan.placements.iter().cloned().map(Self::Placement))
            .chain(plan.edits.iter().cloned().map(Self::Edit))
            .chain(plan.removals.iter().cloned().map(Self::Removal))
            .chain(plan.finishes.iter().cloned().map(Self::Finish))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut tagged = |tag: u8, value: &dyn Fn(&mut Vec<u8>)| {
            bytes.push(tag);
            value(&mut bytes);
        };
        match self {
            Self::Head { root } => tagged(1, &|bytes| root.put(bytes)),
            Self::Directory(directory) => tagged(2, &|bytes| directory.put(bytes)),
            Self::Staging(staging) => tagged(3, &|bytes| staging.put(bytes)),
            Self::Aside(aside) => tagged(4, &|bytes| aside.put(bytes)),
            Self::Placement(placement) => tagged(5, &|bytes| placement.put(bytes)),
            Self::Edit(edit) => tagged(6, &|bytes| edit.put(bytes)),
            Self::Removal(removal) => tagged(7, &|bytes| removal.put(bytes)),
            Self::Finish(finish) => tagged(8, &|bytes| finish.put(bytes)),
            Self::Stage => tagged(9, &|_| {}),
            Self::Staged(staged) => tagged(10, &|bytes| staged.put(bytes)),
            Self::Go => tagged(11, &|_| {}),
            Self::Written { left } => tagged(12, &|bytes| left.put(bytes)),
            Self::End { left } => tagged(13, &|bytes| left.put(bytes)),
            Self::Link(link) => tagged(14, &|bytes| link.put(bytes)),
            Self::Opened(opened) => tagged(15, &|bytes| opened.put(bytes)),
            Self::Made(made) => tagged(16, &|bytes| made.put(bytes)),
            Self::Preimage(preimage) => tagged(17, &|bytes| preimage.put(bytes)),
            Self::Undo => tagged(18, &|_| {}),
            Self::Reverted => tagged(19, &|_| {}),
        }
        bytes
    }

    /// `None` when no writer of this version wrote the payload.
    pub(super) fn decode(payload: &[u8]) -> Option<Self> {
        let bytes = &mut &*payload;
        let frame = match u8::take(bytes)? {
            1 => Self::Head {
                root: Field::take(bytes)?,
            },
            2 => Self::Directory(Field::take(bytes)?),
            3 => Self::Staging(Field::take(bytes)?),
            4 => Self::Aside(Field::take(bytes)?),
            5 => Self::Placement(Field::take(bytes)?),
            6 => Self::Edit(Field::take(bytes)?),
            7 => Self::Removal(Field::take(bytes)?),
            8 => Self::Finish(Field::take(bytes)?),
            9 => Self::Stage,
            10 => Self::Staged(Field::take(bytes)?),
            11 => Self::Go,
            12 => Self::Written {
                left: Field::take(bytes)?,
            },
            13 => Self::End {
                left: Field::take(bytes)?,
            },
            14 => Self::Link(Field::take(bytes)?),
            15 => Self::Opened(Field::take(bytes)?),
            16 => Self::Made(Field::take(bytes)?),
            17 => Self::Preimage(Field::take(bytes)?),
            18 => Self::Undo,
            19 => Self::Reverted,
            _ => return None,
        };
        bytes.is_empty().then_some(frame)
    }
}

fields!(Place { directory, name });
fields!(Directory {
    key,
    staging,
    places,
    modified
});
fields!(Staging {
    place,
    content,
    metadata
});
fields!(Opened {
    directory,
    permissions
});
fields!(Link {
    key,
    sources,
    place,
    to
});
fields!(Aside {
    place,
    temporary,
    expected
});
fields!(Placement {
    item,
    from,
    to,
    displaces,
    home
});
fields!(Edit {
    key,
    places,
    object,
    metadata
});
fields!(Removal {
    place,
    expected,
    is_directory,
    home,
    is_kept
});
fields!(Finish {
    directory,
    metadata
});
fields!(Metadata {
    permissions,
    uid,
    gid,
    xattrs,
    accessed,
    modified
});
fields!(Staged {
    staging,
    key,
    is_object
});
fields!(Made {
    staging,
    size,
    modified
});
fields!(Preimage {
    edit,
    metadata,
    data
});
fields!(Data { size, sum, ranges });
fields!(Left { path, reason });

impl Element for Place {}
impl Element for Left {}
impl Element for (u64, u64) {}
impl Element for (OsString, Option<Vec<u8>>) {}

impl Field for Content {
    fn put(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Directory => 1u8.put(bytes),
            Self::Regular { object } => (2u8, *object).put(bytes),
            Self::Symlink { target } => (3u8, target.clone()).put(bytes),
            Self::Special { kind, device } => (4u8, (*kind, *device)).put(bytes),
            Self::Staged { staging } => (5u8, *staging).put(bytes),
        }
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some(match u8::take(bytes)? {
            1 => Self::Directory,
            2 => Self::Regular {
                object: Field::take(bytes)?,
            },
            3 => Self::Symlink {
                target: Field::take(bytes)?,
            },
            4 => Self::Special {
                kind: Field::take(bytes)?,
                device: Field::take(bytes)?,
            },
            5 => Self::Staged {
                staging: Field::take(bytes)?,
            },
            _ => return None,
        })
    }
}

impl Field for Item {
    fn put(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Real(key) => (1u8, *key).put(bytes),
            Self::Staged(staging) => (2u8, *staging).put(bytes),
        }
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        match u8::take(bytes)? {
            1 => Field::take(bytes).map(Self::Real),
            2 => Field::take(bytes).map(Self::Staged),
            _ => None,
        }
    }
}

impl Field for Expected {
    fn put(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Inode(key) => (1u8, *key).put(bytes),
            Self::State(identity) => (2u8, *identity).put(bytes),
        }
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        match u8::take(bytes)? {
            1 => Field::take(bytes).map(Self::Inode),
            2 => Field::take(bytes).map(Self::State),
            _ => None,
        }
    }
}

impl Field for Reason {
    fn put(&self, bytes: &mut Vec<u8>) {
        (*self as u8).put(bytes);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Self::of_code(u8::take(bytes)?)
    }
}
