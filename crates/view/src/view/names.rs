//! Names: looked up, given, moved and taken away.

use std::ffi::{OsStr, OsString};
use std::io;

use rustix::io::Errno;

use super::core::{Core, Found, now};
use super::facts::{Facts, Step};
use super::files::Data;
use super::{Entry, View, fail};
use crate::record::Record;
use crate::types::{FileKind, Lifetime, NodeId};

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
        self.decide(|core, facts| {
            let Some(found) = core.find(facts, parent, name)? else {
                return Ok(Err(core.absence(facts, parent, name)));
            };
            let mut entry = core.entry(facts, found)?;
            match found.lower.map(|lower| lower.identity.kind) {
                // It is asked for again when it is opened again.
                Some(FileKind::Fifo) => self.met_fifo(),
                Some(_) => entry.name_lifetime = core.name_lifetime(facts, parent),
                None => {}
            }
            Ok(Ok(entry))
        })
    }

    /// The kernel gave back `count` references to a node.
    pub fn forget(&self, node: NodeId, count: u64) {
        let mut core = self.core();
        if core.known.forget(node, count) {
            core.files.close_all(node);
            core.believed.forget(node);
            core.drop_forgotten(node);
            self.listers().forget(node);
        }
    }

    /// Where a symbolic link leads.
    pub fn read_link(&self, node: NodeId) -> io::Result<OsString> {
        self.decide(|core, facts| {
            let target = core.target(facts, node)?;
            self.note_link(core, node);
            Ok(target)
        })
    }

    /// Creates an inode under a name that is free.
    pub fn create(&self, parent: NodeId, name: &OsStr, new: NewNode) -> io::Result<Entry> {
        self.decide(|core, facts| {
            if core.find(facts, parent, name)?.is_some() {
                return fail(Errno::EXIST);
            }
            core.check_alive(parent)?;
            core.check_free(facts, parent, name)?;
            let mut records = Vec::new();
            core.adopt(facts, parent, &mut records)?;
            let node = core.new_node(facts, parent, &new, &mut records)?;
            records.push(Record::Bind {
                directory: parent,
                name: name.to_owned(),
                node,
                lower: None,
            });
            core.perform_created(facts, node, records)
        })
    }

    /// Creates a regular file without a name, for `O_TMPFILE`.
    pub fn create_nameless(&self, parent: NodeId, new: NewNode) -> io::Result<Entry> {
        self.decide(|core, facts| {
            let mut records = Vec::new();
            let node = core.new_node(facts, parent, &new, &mut records)?;
            core.perform_created(facts, node, records)
        })
    }

    /// Gives a node one more name.
    pub fn link(&self, node: NodeId, parent: NodeId, name: &OsStr) -> io::Result<Entry> {
        self.decide(|core, facts| {
            if core.find(facts, parent, name)?.is_some() {
                return fail(Errno::EXIST);
            }
            if core.device_of(facts, node)? != core.device_of(facts, parent)? {
                return fail(Errno::XDEV);
            }
            core.check_alive(parent)?;
            core.check_free(facts, parent, name)?;
            let mut records = Vec::new();
            core.adopt(facts, node, &mut records)?;
            core.adopt(facts, parent, &mut records)?;
            records.push(Record::Bind {
                directory: parent,
                name: name.to_owned(),
                node,
                lower: None,
            });
            Ok(core.perform(records, now())?)
        })?;
        // The kernel holds the node.
        self.decide(|core, facts| core.entry(facts, Found { node, lower: None }))
    }

    /// Takes away the name of anything but a directory.
    pub fn unlink(&self, parent: NodeId, name: &OsStr) -> io::Result<()> {
        self.decide(|core, facts| {
            let found = core.find_existing(facts, parent, name)?;
            if core.kind(found.node)? == FileKind::Directory {
                return fail(Errno::ISDIR);
            }
            core.check_no_mount_point(facts, parent, found)?;
            core.remove(facts, parent, name, found)
        })
    }

    /// Removes an empty directory.
    pub fn remove_directory(&self, parent: NodeId, name: &OsStr) -> io::Result<()> {
        self.decide(|core, facts| {
            let found = core.find_existing(facts, parent, name)?;
            if core.kind(found.node)? != FileKind::Directory {
                return fail(Errno::NOTDIR);
            }
            core.check_no_mount_point(facts, parent, found)?;
            core.check_empty(facts, found.node)?;
            core.remove(facts, parent, name, found)?;
            Ok(core.told_of_removal(parent, found.node)?)
        })
    }

    /// Moves a name.
    pub fn rename(
        &self,
        from: (NodeId, &OsStr),
        to: (NodeId, &OsStr),
        mode: RenameMode,
    ) -> io::Result<()> {
        self.decide(|core, facts| core.move_name(facts, from, to, mode, None))
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
        self.decide(|core, facts| core.move_name(facts, from, to, mode, Some(&left)))
    }
}

impl Core {
    /// Where a symbolic link leads.
    pub(super) fn target(&mut self, facts: &Facts, id: NodeId) -> Step<OsString> {
        if let Some(created) = self.map.node(id).filter(|node| node.origin.is_none()) {
            return Ok((*created.target).to_owned());
        }
        let (directory, name) = self.lower_place(facts, id)?;
        facts.link(id, &directory, &name)
    }

    /// How long a name leads nowhere. What is told for ever must be known when the domain was
    /// committed and goes on: names that were removed are in the map, and of those that never were in
    /// a directory of the domain's own, so many are remembered. Likewise those in a watched one, for
    /// when the watch fails.
    fn absence(&mut self, facts: &Facts, parent: NodeId, name: &OsStr) -> Lifetime {
        let lifetime = match self.map.node(parent) {
            Some(node) if node.entries.contains_key(name) => return Lifetime::Forever,
            Some(node) if node.origin.is_none() => Lifetime::Forever,
            _ => self.name_lifetime(facts, parent),
        };
        self.believed.absence(parent, name, lifetime)
    }

    fn move_name(
        &mut self,
        facts: &Facts,
        from: (NodeId, &OsStr),
        to: (NodeId, &OsStr),
        mode: RenameMode,
        left: Option<&NewNode>,
    ) -> Step<()> {
        let source = self.find_existing(facts, from.0, from.1)?;
        let target = self.find(facts, to.0, to.1)?;
        self.check_alive(to.0)?;
        self.check_rename(facts, from.0, source, to.0, target, mode)?;
        if target.is_some_and(|target| target.node == source.node) {
            // rename(2): two names of one inode stay as they are.
            return Ok(());
        }
        let (lower_from, lower_to) = (
            self.lower_identity(facts, from.0, from.1)?,
            // What somebody outside made there since the look above is not what is replaced.
            self.lower_identity(facts, to.0, to.1)?
                .filter(|_| target.is_some()),
        );
        let mut records = Vec::new();
        self.adopt(facts, from.0, &mut records)?;
        self.adopt(facts, to.0, &mut records)?;
        self.adopt(facts, source.node, &mut records)?;
        if let Some(target) = target {
            self.adopt_if_shared(facts, target, mode == RenameMode::Exchange, &mut records)?;
        }
        let at_the_old_name = match (mode, target, left) {
            (RenameMode::Exchange, Some(target), _) => Some(target.node),
            (_, _, Some(left)) => Some(self.new_node(facts, from.0, left, &mut records)?),
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
        self.perform(records, now())?;
        if let (Some(target), true) = (target, mode != RenameMode::Exchange) {
            self.lost_name(target);
        }
        Ok(())
    }

    fn new_node(
        &mut self,
        facts: &Facts,
        parent: NodeId,
        new: &NewNode,
        records: &mut Vec<Record>,
    ) -> Step<NodeId> {
        let directory = self
            .stored_attributes(
                facts,
                Found {
                    node: parent,
                    lower: None,
                },
            )?
            .0;
        let mut permissions = new.permissions;
        let mut gid = new.gid;
        if directory.permissions & SET_GID != 0 {
            gid = directory.gid;
            if new.kind == FileKind::Directory {
                permissions |= SET_GID;
            }
        }
        let node = self.known.next_node();
        let object = if new.kind == FileKind::Regular {
            let object = self.objects.next();
            let created = self.objects.create(object);
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
            target: new.target.clone(),
        });
        Ok(node)
    }

    fn perform_created(
        &mut self,
        facts: &Facts,
        node: NodeId,
        records: Vec<Record>,
    ) -> Step<Entry> {
        self.perform(records, now())?;
        self.entry(facts, Found { node, lower: None })
    }

    fn remove(&mut self, facts: &Facts, parent: NodeId, name: &OsStr, found: Found) -> Step<()> {
        let lower = self.lower_identity(facts, parent, name)?;
        let mut records = Vec::new();
        self.adopt(facts, parent, &mut records)?;
        self.adopt_if_shared(facts, found, false, &mut records)?;
        records.push(Record::Unbind {
            directory: parent,
            name: name.to_owned(),
            lower,
        });
        self.perform(records, now())?;
        self.lost_name(found);
        Ok(())
    }

    /// Also where nothing is shown nothing can be made if the real name is taken: by what is hidden.
    fn check_free(&mut self, facts: &Facts, parent: NodeId, name: &OsStr) -> Step<()> {
        match self.lower_identity(facts, parent, name)? {
            Some(_) => fail(Errno::EXIST),
            None => Ok(()),
        }
    }

    /// A node that loses its last name needs no place in the map, but one that has others does: its
    /// link count has to last. So do directories, whose entries may already be there.
    fn adopt_if_shared(
        &mut self,
        facts: &Facts,
        found: Found,
        keeps_name: bool,
        records: &mut Vec<Record>,
    ) -> Step<()> {
        let shared = found.lower.is_some_and(|lower| {
            keeps_name || lower.links > 1 || lower.identity.kind == FileKind::Directory
        });
        if shared {
            self.adopt(facts, found.node, records)?;
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
        facts: &Facts,
        from: NodeId,
        source: Found,
        to: NodeId,
        target: Option<Found>,
        mode: RenameMode,
    ) -> Step<()> {
        if self.device_of(facts, from)? != self.device_of(facts, to)? {
            return fail(Errno::XDEV);
        }
        self.check_no_mount_point(facts, from, source)?;
        let Some(target) = target else {
            return match mode {
                RenameMode::Exchange => fail(Errno::NOENT),
                _ => Ok(()),
            };
        };
        self.check_no_mount_point(facts, to, target)?;
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
            (true, true) => self.check_empty(facts, target.node),
            (false, false) => Ok(()),
        }
    }

    /// What something is mounted on outside can't be moved or removed.
    fn check_no_mount_point(&mut self, facts: &Facts, parent: NodeId, found: Found) -> Step<()> {
        let Some(lower) = found.lower else {
            return Ok(());
        };
        // Kernels before 5.8 tell only of other file systems.
        if lower.is_mount_point || lower.identity.device != self.device_of(facts, parent)? {
            return fail(Errno::BUSY);
        }
        Ok(())
    }
}
