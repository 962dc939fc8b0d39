//! One inode of the name map.

use std::ffi::OsStr;

use super::table::Table;
use crate::borrowed::Borrowed;
use crate::record::Record;
use crate::types::{FileKind, Identity, NodeId, ObjectId, Timestamp};

/// An inode that the domain changed, made, or reached a change through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub kind: FileKind,
    /// `st_dev` of the real file system that it is on, or that a commit will put it on.
    pub device: u64,
    /// The real inode that it was, for adopted nodes.
    pub origin: Option<Box<Origin>>,
    /// Its data, where the view owns it. Size, blocks, and times of a node with an object are the
    /// object's.
    pub object: Option<ObjectId>,
    /// What its object lacks, where it lacks something.
    pub borrowed: Option<Box<Borrowed>>,
    /// Where it leads, for symbolic links that the domain made.
    pub target: Box<OsStr>,
    /// Permission bits: at adoption, or as changed since.
    pub permissions: u16,
    /// Owner: at adoption, or as changed since.
    pub uid: u32,
    /// Group: at adoption, or as changed since.
    pub gid: u32,
    /// Device number, for device nodes.
    pub special: u64,
    /// Whether the domain changed (or chose) the permission bits.
    pub owns_permissions: bool,
    /// Whether the domain changed (or chose) owner and group.
    pub owns_owner: bool,
    /// Whether the domain set a time by itself, not only by changing data or names.
    pub owns_times: bool,
    /// Last access, where the domain set it.
    pub accessed: Option<Timestamp>,
    /// Last modification, where the domain made it and no object tells it.
    pub modified: Option<Timestamp>,
    /// Last change of the inode, where the domain made it.
    pub changed: Option<Timestamp>,
    /// When the domain made the inode, where it did.
    pub born: Option<Timestamp>,
    /// Extended attributes that the domain set, or removed (`None`).
    pub xattrs: Table<Option<Box<[u8]>>>,
    /// Names gained less names lost since birth or adoption.
    pub names: i64,
    /// Subdirectories gained less subdirectories lost, for directories.
    pub subdirectories: i64,
    /// The directory that a name was last given in; what `..` means, for directories.
    pub parent: NodeId,
    /// The operation that first changed the inode itself; `None` while only names changed.
    pub since: Option<u64>,
    /// Names bound or removed here, for directories.
    pub entries: Table<Binding>,
}

/// Where an adopted node comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The adopted directory in which it was found; the root's is itself.
    pub parent: NodeId,
    /// Its real name there; empty for the root.
    pub name: Box<OsStr>,
    /// Which inode, and in which state when the domain first used it.
    pub identity: Identity,
    /// `st_nlink` then.
    pub links: u32,
}

/// What a name in a directory has become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The node that it leads to; `None` when it was removed.
    pub target: Option<NodeId>,
    pub(super) lower: Option<Box<Identity>>,
    /// The operation that first changed it.
    pub since: u64,
}

impl Binding {
    /// What the real directory held under this name when the domain first changed it.
    pub fn lower(&self) -> Option<Identity> {
        self.lower.as_deref().copied()
    }
}

impl Node {
    /// Whether it is a directory that has lost its name.
    pub fn is_removed_directory(&self) -> bool {
        let had = i64::from(self.origin.is_some());
        self.kind == FileKind::Directory && self.names + had <= 0
    }

    /// Whether the domain changed anything of the inode itself that a listing of changes should
    /// show. The times of a directory are not: they follow its names.
    pub fn is_modified(&self) -> bool {
        self.since.is_some()
            && (self.object.is_some()
                || self.owns_permissions
                || self.owns_owner
                || self.owns_times
                || !self.xattrs.is_empty())
    }

    /// Number of names, given how many the real inode has.
    pub fn links(&self, lower: Option<u32>) -> u32 {
        let born = i64::from(lower.unwrap_or(0));
        let links = match self.kind {
            FileKind::Directory => {
                let named = i64::from(self.origin.is_some()) + self.names;
                // Some file systems do not count subdirectories and say 1 for all.
                match lower {
                    _ if named <= 0 => 0,
                    Some(1) => 1,
                    Some(_) => born + self.subdirectories,
                    None => 2 + self.subdirectories,
                }
            }
            _ => born + self.names,
        };
        u32::try_from(links.max(0)).unwrap_or(u32::MAX)
    }

    /// The node that an `Adopt` or `Create` record brings.
    pub(super) fn born(record: &Record, time: Timestamp, operation: u64) -> (NodeId, Self) {
        match record {
            Record::Adopt {
                node,
                parent,
                name,
                identity,
                links,
                permissions,
                uid,
                gid,
                special,
            } => {
                let origin = Origin {
                    parent: *parent,
                    name: name.as_os_str().into(),
                    identity: *identity,
                    links: *links,
                };
                let born = Self {
                    origin: Some(Box::new(origin)),
                    parent: *parent,
                    ..Self::new(identity.kind, identity.device)
                };
                (*node, born.with(*permissions, *uid, *gid, *special))
            }
            Record::Create {
                node,
                device,
                kind,
                permissions,
                uid,
                gid,
                special,
                object,
                target,
            } => {
                let born = Self {
                    object: *object,
                    target: target.as_os_str().into(),
                    owns_permissions: true,
                    owns_owner: true,
                    // The times of data are the object's.
                    accessed: object.is_none().then_some(time),
                    modified: object.is_none().then_some(time),
                    changed: Some(time),
                    born: Some(time),
                    since: Some(operation),
                    ..Self::new(*kind, *device)
                };
                (*node, born.with(*permissions, *uid, *gid, *special))
            }
            _ => unreachable!("only records that bring a node come here"),
        }
    }

    pub(super) fn set_entry(
        &mut self,
        name: &OsStr,
        target: Option<NodeId>,
        lower: Option<Identity>,
        since: u64,
    ) {
        if let Some(binding) = self.entries.get_mut(name) {
            if target.is_none() && binding.lower.is_none() {
                // Made and removed again: as if it had never been.
                self.entries.remove(name);
            } else {
                binding.target = target;
            }
        } else if target.is_some() || lower.is_some() {
            let binding = Binding {
                target,
                lower: lower.map(Box::new),
                since,
            };
            self.entries.insert(name, binding);
        }
    }

    fn new(kind: FileKind, device: u64) -> Self {
        Self {
            kind,
            device,
            origin: None,
            object: None,
            borrowed: None,
            target: Box::default(),
            permissions: 0,
            uid: 0,
            gid: 0,
            special: 0,
            owns_permissions: false,
            owns_owner: false,
            owns_times: false,
            accessed: None,
            modified: None,
            changed: None,
            born: None,
            xattrs: Table::default(),
            names: 0,
            subdirectories: 0,
            parent: NodeId::ROOT,
            since: None,
            entries: Table::default(),
        }
    }

    fn with(mut self, permissions: u16, uid: u32, gid: u32, special: u64) -> Self {
        self.permissions = permissions;
        self.uid = uid;
        self.gid = gid;
        self.special = special;
        self
    }
}
