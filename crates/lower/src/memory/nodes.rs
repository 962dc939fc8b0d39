//! Inodes of a tree in memory.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::types::{Attributes, FileKind, Identity, Timestamp};

pub(super) const ROOT: u64 = 2;

#[derive(Debug)]
pub(super) struct Inode {
    pub(super) body: Body,
    pub(super) permissions: u16,
    pub(super) xattrs: BTreeMap<OsString, Vec<u8>>,
    /// Names in directories; for a directory, one at most.
    pub(super) names: u32,
    /// Open directories, open files and holds.
    pub(super) holds: u32,
    pub(super) born: Timestamp,
    pub(super) modified: Timestamp,
    pub(super) changed: Timestamp,
}

#[derive(Debug)]
pub(super) enum Body {
    Regular(Vec<u8>),
    Directory(BTreeMap<OsString, u64>),
    Symlink(OsString),
    Special(FileKind),
}

impl Body {
    pub(super) fn kind(&self) -> FileKind {
        match self {
            Self::Regular(_) => FileKind::Regular,
            Self::Directory(_) => FileKind::Directory,
            Self::Symlink(_) => FileKind::Symlink,
            Self::Special(kind) => *kind,
        }
    }

    fn size(&self) -> u64 {
        match self {
            Self::Regular(data) => data.len() as u64,
            Self::Directory(_) => 4096,
            Self::Symlink(target) => target.len() as u64,
            Self::Special(_) => 0,
        }
    }
}

impl Inode {
    pub(super) fn new(body: Body, now: Timestamp) -> Self {
        let permissions = match body.kind() {
            FileKind::Directory => 0o755,
            FileKind::Symlink => 0o777,
            _ => 0o644,
        };
        Self {
            body,
            permissions,
            xattrs: BTreeMap::new(),
            names: 0,
            holds: 0,
            born: now,
            modified: now,
            changed: now,
        }
    }

    /// What it is, with so many directories in it.
    pub(super) fn attributes(&self, device: u64, number: u64, directories: u32) -> Attributes {
        let size = self.body.size();
        let links = match self.body {
            // Its name, its own `.`, and the `..` of each.
            Body::Directory(_) if self.names > 0 => 2 + directories,
            _ => self.names,
        };
        Attributes {
            identity: Identity {
                device,
                inode: number,
                kind: self.body.kind(),
                size,
                modified: self.modified,
                changed: self.changed,
            },
            permissions: self.permissions,
            links,
            uid: 0,
            gid: 0,
            special: 0,
            blocks: size.div_ceil(512),
            block_size: 4096,
            accessed: self.modified,
            created: Some(self.born),
            is_mount_point: false,
        }
    }
}
