//! Names: looked up, given, moved and taken away.

use std::ffi::{OsStr, OsString};
use std::io;

use rustix::io::Errno;

use super::core::{Core, Found, now};
use super::files::Data;
use super::{Entry, View, fail};
use crate::record::Record;
use crate::types::{FileKind, Lifetime, NodeId};

/// How many absent names in directories that the domain made are told for ever, some 100 bytes each.
const ABSENT_MAX: usize = 1 << 14;

/// `S_ISGID`.
const SET_GID: u16 = 0o2000;

/// An inode to create.
#[derive(Debug, Clone)]
pub struct NewNode {
    /// Its kind.
    pub kind: FileKind,
    /// Permission bits, the umask already taken off.
    pub permissions: u16,
    /// The creating task's file-system user.
    pub uid: u32,
    /// The creating task's file-system group; a set-gid directory gives its own instead.
    pub gid: u32,
    /// Device number, for device nodes.
    pub special: u64,
    /// Where it leads, for symbolic links.
    pub target: OsString,
}

/// What a rename does where the new name is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenameMode {
    /// Replaces it.
    Replace,
    /// Fails.
    NoReplace,
    /// Swaps the two.
    Exchange,
}

impl View {
    /// The node that `name` leads to in `parent`; `None`, with how long that holds, where it leads
    /// nowhere.
    pub fn lookup(&self, parent: NodeId, name: &OsStr) -> io::Result<Result<Entry, Lifetime>> {
        let mut core = self.core();
        match core.find(parent, name)? {
            Some(found) => {
                let mut entry = core.entry(found)?;
                match found.lower.map(|lower| lower.identity.kind) {
                    // It is asked for again when it is opened again.
                    Some(FileKind::Fifo) => core.met_fifo(),
                    Some(_) => entry.name_lifetime = core.name_lifetime(parent),
                    None => {}
                }
                Ok(Ok(entry))
            }
            None => Ok(Err(core.absence(parent, name))),
        }
    }

    /// The kernel gave back `count` references to a node.
    pub fn forget(&self, node: NodeId, count: u64) {
        let mut core = self.core();
        if core.known.forget(node, count) {
            core.files.pop(&node);
            core.lenders.pop(&node);
            core.listed.forget(node);
            core.watches.remove(node);
            core.drop_forgotten(node);
        }
    }

    /// Where a symbolic link leads.
    pub fn read_link(&self, node: NodeId) -> io::Result<OsString> {
        let mut core = self.core();
        self.note_link(&core, node);
        core.target(node)
    }

    /// Creates an inode under a name that is free.
    pub fn create(&self, parent: NodeId, name: &OsStr, new: NewNode) -> io::Result<Entry> {
        let mut core = self.core();
        if core.find(parent, name)?.is_some() {
            return fail(Errno::EXIST);
        }
        core.check_still_free(parent, name)?;
        let mut records = Vec::new();
        core.adopt(parent, &mut records)?;
        let node = core.new_node(parent, new, &mut records)?;
        records.push(Record::Bind {
            directory: parent,
            name: name.to_owned(),
            node,
            lower: None,
        });
        core.perform_created(node, records)
    }

    /// Creates a regular file without a name, for `O_TMPFILE`.
    pub fn create_nameless(&self, parent: NodeId, new: NewNode) -> io::Result<Entry> {
        let mut core = self.core();
        let mut records = Vec::new();
        let node = core.new_node(parent, new, &mut records)?;
        core.perform_created(node, records)
    }

    /// Gives a node one more name.
    pub fn link(&self, node: NodeId, parent: NodeId, name: &OsStr) -> io::Result<Entry> {
        let mut core = self.core();
        if core.find(parent, name)?.is_some() {
            return fail(Errno::EXIST);
        }
        if core.device_of(node)? != core.device_of(parent)? {
            return fail(Errno::XDEV);
        }
        core.check_still_free(parent, name)?;
        let mut records = Vec::new();
        core.adopt(node, &mut records)?;
        core.adopt(parent, &mut records)?;
        records.push(Record::Bind {
            directory: parent,
            name: name.to_owned(),
            node,
            lower: None,
        });
        core.perform(records, now())?;
        core.entry(Found { node, lower: None })
    }

    /// Takes away the name of anything but a directory.
    pub fn unlink(&self, parent: NodeId, name: &OsStr) -> io::Result<()> {
        let mut core = self.core();
        let found = core.find_existing(parent, name)?;
        if core.kind(found.node)? == FileKind::Directory {
            return fail(Errno::ISDIR);
        }
        core.check_no_mount_point(parent, found)?;
        core.remove(parent, name, found)
    }

    /// Removes an empty directory.
    pub fn remove_directory(&self, parent: NodeId, name: &OsStr) -> io::Result<()> {
        let mut core = self.core();
        let found = core.find_existing(parent, name)?;
        if core.kind(found.node)? != FileKind::Directory {
            return fail(Errno::NOTDIR);
        }
        core.check_no_mount_point(parent, found)?;
        core.check_empty(found.node)?;
        core.remove(parent, name, found)
    }

    /// Moves a name.
    pub fn rename(
        &self,
        from: (NodeId, &OsStr),
        to: (NodeId, &OsStr),
        mode: RenameMode,
    ) -> io::Result<()> {
        self.move_name(from, to, mode, None)
    }

    /// Moves a name, and creates `left` under the old one in the same step: `RENAME_WHITEOUT` of
    /// rename(2).
    pub fn rename_leaving(
        &self,
        from: (NodeId, &OsStr),
        to: (NodeId, &OsStr),
        mode: RenameMode,
        left: NewNode,
    ) -> io::Result<()> {
        if mode == RenameMode::Exchange {
            return fail(Errno::INVAL);
        }
        self.move_name(from, to, mode, Some(left))
    }

    fn move_name(
        &self,
        from: (NodeId, &OsStr),
        to: (NodeId, &OsStr),
        mode: RenameMode,
        left: Option<NewNode>,
    ) -> io::Result<()> {
        let mut core = self.core();
        let source = core.find_existing(from.0, from.1)?;
        let target = core.find(to.0, to.1)?;
        core.check_rename(from.0, source, to.0, target, mode)?;
        if target.is_some_and(|target| target.node == source.node) {
            // rename(2): two names of one inode stay as they are.
            return Ok(());
        }
        let (lower_from, lower_to) = (
            core.lower_identity(from.0, from.1)?,
            // What somebody outside made there since the look above is not what is replaced.
            core.lower_identity(to.0, to.1)?
                .filter(|_| target.is_some()),
        );
        let mut records = Vec::new();
        core.adopt(from.0, &mut records)?;
        core.adopt(to.0, &mut records)?;
        core.adopt(source.node, &mut records)?;
        if let Some(target) = target {
            core.adopt_if_shared(target, mode == RenameMode::Exchange, &mut records)?;
        }
        let at_the_old_name = match (mode, target, left) {
            (RenameMode::Exchange, Some(target), _) => Some(target.node),
            (_, _, Some(left)) => Some(core.new_node(from.0, left, &mut records)?),
            _ => None,
        };
        let (directory, name) = (from.0, from.1.to_owned());
        records.push(match at_the_old_name {
            Some(node) => Record::Bind {
                directory,
                name,
                node,
                lower: lower_from,
            },
            None => Record::Unbind {
                directory,
                name,
                lower: lower_from,
            },
        });
        records.push(Record::Bind {
            directory: to.0,
            name: to.1.to_owned(),
            node: source.node,
            lower: lower_to,
        });
        core.perform(records, now())?;
        if let (Some(target), true) = (target, mode != RenameMode::Exchange) {
            core.lost_name(target);
        }
        Ok(())
    }
}

impl Core {
    /// Where a symbolic link leads.
    pub(super) fn target(&mut self, id: NodeId) -> io::Result<OsString> {
        if let Some(created) = self.map.node(id).filter(|node| node.origin.is_none()) {
            return Ok((*created.target).to_owned());
        }
        let (directory, name) = self.lower_place(id)?;
        directory.read_link(&name)
    }

    /// How long a name leads nowhere. What is told for ever must be known when the domain was
    /// committed and goes on: names that were removed are in the map, and of those that never were in
    /// a directory of the domain's own, so many are remembered. Likewise those in a watched one, for
    /// when the watch fails.
    fn absence(&mut self, parent: NodeId, name: &OsStr) -> Lifetime {
        let lifetime = match self.map.node(parent) {
            Some(node) if node.entries.contains_key(name) => return Lifetime::Forever,
            Some(node) if node.origin.is_none() => Lifetime::Forever,
            _ => self.name_lifetime(parent),
        };
        if lifetime == Lifetime::Brief {
            return lifetime;
        }
        let name = (parent, name.to_owned());
        if self.absent.len() < ABSENT_MAX || self.absent.contains(&name) {
            self.absent.insert(name);
            return lifetime;
        }
        Lifetime::Brief
    }

    fn new_node(
        &mut self,
        parent: NodeId,
        new: NewNode,
        records: &mut Vec<Record>,
    ) -> io::Result<NodeId> {
        let directory = self
            .stored_attributes(Found {
                node: parent,
                lower: None,
            })?
            .0;
        let mut permissions = new.permissions;
        let mut gid = new.gid;
        if directory.permissions & SET_GID != 0 {
            gid = directory.gid;
            if new.kind == FileKind::Directory {
                permissions |= SET_GID;
            }
        }
        let node = self.next_node();
        let object = if new.kind == FileKind::Regular {
            let object = self.next_object();
            let created = self.store.create(object);
            let file = created.map_err(|error| self.without_space(error))?;
            self.files.put(node, Data::Object(file.into()));
            Some(object)
        } else {
            None
        };
        records.push(Record::Create {
            node,
            device: directory.identity.device,
            kind: new.kind,
            permissions,
            uid: new.uid,
            gid,
            special: new.special,
            object,
            target: new.target,
        });
        Ok(node)
    }

    fn perform_created(&mut self, node: NodeId, records: Vec<Record>) -> io::Result<Entry> {
        self.perform(records, now())?;
        self.entry(Found { node, lower: None })
    }

    fn remove(&mut self, parent: NodeId, name: &OsStr, found: Found) -> io::Result<()> {
        let lower = self.lower_identity(parent, name)?;
        let mut records = Vec::new();
        self.adopt(parent, &mut records)?;
        self.adopt_if_shared(found, false, &mut records)?;
        records.push(Record::Unbind {
            directory: parent,
            name: name.to_owned(),
            lower,
        });
        self.perform(records, now())?;
        self.lost_name(found);
        Ok(())
    }

    /// Between the look for a name and here somebody outside may have made it: it must not pass for
    /// what the domain decided to replace.
    fn check_still_free(&mut self, parent: NodeId, name: &OsStr) -> io::Result<()> {
        match self.lower_identity(parent, name)? {
            Some(_) => fail(Errno::EXIST),
            None => Ok(()),
        }
    }

    /// A node that loses its last name needs no place in the map, but one that has others does: its
    /// link count has to last. So do directories, whose entries may already be there.
    fn adopt_if_shared(
        &mut self,
        found: Found,
        keeps_name: bool,
        records: &mut Vec<Record>,
    ) -> io::Result<()> {
        let shared = found.lower.is_some_and(|lower| {
            keeps_name || lower.links > 1 || lower.identity.kind == FileKind::Directory
        });
        if shared {
            self.adopt(found.node, records)?;
        }
        Ok(())
    }

    /// For open files of nodes outside the map, whose link count then says 0.
    fn lost_name(&mut self, found: Found) {
        if self.map.node(found.node).is_none() {
            self.note_lost_name(found.node);
        }
    }

    fn check_rename(
        &mut self,
        from: NodeId,
        source: Found,
        to: NodeId,
        target: Option<Found>,
        mode: RenameMode,
    ) -> io::Result<()> {
        if self.device_of(from)? != self.device_of(to)? {
            return fail(Errno::XDEV);
        }
        self.check_no_mount_point(from, source)?;
        let Some(target) = target else {
            return match mode {
                RenameMode::Exchange => fail(Errno::NOENT),
                _ => Ok(()),
            };
        };
        self.check_no_mount_point(to, target)?;
        if mode == RenameMode::Exchange || target.node == source.node {
            return Ok(());
        }
        if mode == RenameMode::NoReplace {
            return fail(Errno::EXIST);
        }
        let directory = |kind| kind == FileKind::Directory;
        let replaced = directory(self.kind(target.node)?);
        match (directory(self.kind(source.node)?), replaced) {
            (true, false) => fail(Errno::NOTDIR),
            (false, true) => fail(Errno::ISDIR),
            (true, true) => self.check_empty(target.node),
            (false, false) => Ok(()),
        }
    }

    /// What something is mounted on outside can't be moved or removed.
    fn check_no_mount_point(&mut self, parent: NodeId, found: Found) -> io::Result<()> {
        let Some(lower) = found.lower else {
            return Ok(());
        };
        // Kernels before 5.8 tell only of other file systems.
        if lower.is_mount_point || lower.identity.device != self.device_of(parent)? {
            return fail(Errno::BUSY);
        }
        Ok(())
    }
}
