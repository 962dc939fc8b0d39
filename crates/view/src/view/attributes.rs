//! What stat(2) shows, and what chmod(2), chown(2), truncate(2) and utimensat(2) change.

use std::io;

use rustix::fs::Timespec;
use rustix::io::Errno;

use super::core::{Core, Found, now};
use super::facts::{Facts, Step, outcome};
use super::{Entry, View};
use crate::map::Node;
use crate::record::Record;
use crate::types::{Attributes, FileKind, Identity, Lifetime, NodeId, Timestamp};

const SET_UID: u16 = 0o4000;
const SET_GID: u16 = 0o2000;
const GROUP_EXECUTE: u16 = 0o010;

/// Changes to make; `None` leaves a thing alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct SetAttributes {
    /// Size of a regular file, in bytes.
    pub size: Option<u64>,
    /// All of `07777`.
    pub permissions: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Last access.
    pub accessed: Option<Timestamp>,
    /// Last modification.
    pub modified: Option<Timestamp>,
    /// Take away set-id bits and file capabilities, as a change of data or owner does.
    pub drop_privileges: bool,
}

impl View {
    /// What is known of a node.
    pub fn attributes(&self, node: NodeId) -> io::Result<Entry> {
        self.decide(|core, facts| core.shown(facts, node))
    }

    /// What is known of a node, with its time of birth. [`View::attributes`] lacks that of files whose
    /// data the view owns.
    pub fn attributes_and_birth(&self, node: NodeId) -> io::Result<Entry> {
        self.decide(|core, facts| {
            let mut entry = core.shown(facts, node)?;
            if core.has_object(node) && entry.attributes.created.is_none() {
                // What was there before has its birth from there, if it still is there.
                let lower = outcome(core.lower_attributes(facts, node))?;
                entry.attributes.created = lower.ok().and_then(|lower| lower.created);
            }
            Ok(entry)
        })
    }

    /// Changes a node, and says what it has become.
    pub fn set_attributes(&self, node: NodeId, set: SetAttributes) -> io::Result<Entry> {
        if set.size.is_some() {
            drop(self.free_of_readers(node)?);
        }
        let sets_times = set.accessed.is_some() || set.modified.is_some();
        // Before the lock.
        let change = (set.size.is_some() || sets_times).then(|| self.change(node));
        if let Some(change) = &change {
            match set.size {
                Some(size) => change.resize(size)?,
                None => change.renew()?,
            }
        }
        self.decide(|core, facts| core.set(facts, node, set))?;
        self.attributes(node)
    }

    /// The current time, as inodes are stamped with it.
    pub fn now(&self) -> Timestamp {
        now()
    }
}

impl Core {
    fn shown(&mut self, facts: &Facts, node: NodeId) -> Step<Entry> {
        let (attributes, attributes_lifetime) =
            self.attributes_of(facts, Found { node, lower: None })?;
        Ok(Entry {
            node,
            attributes,
            inode: self.inode_number(node, &attributes.identity),
            attributes_lifetime,
            name_lifetime: Lifetime::Brief,
        })
    }

    /// Attributes to show and how long they hold.
    pub(super) fn attributes_of(
        &mut self,
        facts: &Facts,
        found: Found,
    ) -> Step<(Attributes, Lifetime)> {
        let (mut attributes, lifetime) = self.stored_attributes(facts, found)?;
        self.showing.present_group(&mut attributes);
        Ok((attributes, lifetime))
    }

    /// Attributes as a commit would leave them, and how long they hold.
    pub(super) fn stored_attributes(
        &mut self,
        facts: &Facts,
        found: Found,
    ) -> Step<(Attributes, Lifetime)> {
        let id = found.node;
        // The kernel asks each time while it may be mapped.
        self.let_go(id);
        let Some(node) = self.map.node(id) else {
            let mut attributes = match found.lower {
                Some(lower) => lower,
                None => self.lower_attributes(facts, id)?,
            };
            let lost = self.known.node(id).map_or(0, |known| known.lost_names);
            attributes.links = attributes.links.saturating_sub(lost);
            let lifetime = self.lower_lifetime(facts, id, &attributes);
            return Ok((attributes, lifetime));
        };
        Ok(match (node.object, &node.origin) {
            (Some(object), origin) => {
                let mut object = self.objects.attributes(object)?;
                let borrowed = node.borrowed.as_ref();
                object.blocks +=
                    borrowed.map_or(0, |borrowed| borrowed.allocated(object.identity.size));
                let lower = origin.as_ref().map(|origin| origin.links);
                let lifetime = match self.passed.is_mapped(id) {
                    true => Lifetime::Never,
                    false => Lifetime::Forever,
                };
                (own_data(id, node, object, lower), lifetime)
            }
            (None, None) => (created(id, node), Lifetime::Forever),
            (None, Some(_)) => {
                let lower = match found.lower {
                    Some(lower) => lower,
                    None => self.lower_attributes(facts, id)?,
                };
                let lifetime = self.lower_lifetime(facts, id, &lower);
                let node = self.map.node(id).ok_or(Errno::STALE)?;
                (overlaid(node, lower), lifetime)
            }
        })
    }

    pub(super) fn set(&mut self, facts: &Facts, id: NodeId, set: SetAttributes) -> Step<()> {
        let before = self
            .stored_attributes(
                facts,
                Found {
                    node: id,
                    lower: None,
                },
            )?
            .0;
        let mut records = Vec::new();
        let permissions = set.permissions.unwrap_or(before.permissions);
        let permissions = if set.drop_privileges {
            without_privileges(permissions)
        } else {
            permissions
        };
        if set.permissions.is_some() || permissions != before.permissions {
            records.push(Record::Permissions {
                node: id,
                permissions,
            });
        }
        if set.uid.is_some() || set.gid.is_some() {
            records.push(Record::Owner {
                node: id,
                uid: set.uid.unwrap_or(before.uid),
                gid: set.gid.unwrap_or(before.gid),
            });
        }
        if set.drop_privileges {
            self.drop_capability(facts, id, &mut records)?;
        }
        if set.accessed.is_some() || set.modified.is_some() {
            self.set_times(id, set, &mut records)?;
        }
        if records.is_empty() {
            return Ok(());
        }
        let mut all = Vec::new();
        self.adopt(facts, id, &mut all)?;
        all.append(&mut records);
        Ok(self.perform(all, now())?)
    }

    /// Takes away set-id bits and file capabilities before data change.
    pub(super) fn drop_privileges(&mut self, facts: &Facts, id: NodeId) -> Step<()> {
        let object = self.map.node(id).filter(|node| node.object.is_some());
        // Asked for at each write. What the real file had was taken away with the first.
        if object.is_some_and(|node| without_privileges(node.permissions) == node.permissions) {
            return self.drop_set_capability(facts, id);
        }
        let set = SetAttributes {
            drop_privileges: true,
            ..SetAttributes::default()
        };
        self.set(facts, id, set)
    }

    /// For the holder of the node's [`super::change::Change`], who has renewed it.
    fn set_times(
        &mut self,
        id: NodeId,
        set: SetAttributes,
        records: &mut Vec<Record>,
    ) -> io::Result<()> {
        if self.has_object(id) {
            // The object's own times are the file's.
            let times = rustix::fs::Timestamps {
                last_access: timespec(set.accessed),
                last_modification: timespec(set.modified),
            };
            return Ok(rustix::fs::futimens(self.object(id)?, &times)?);
        }
        records.push(Record::Times {
            node: id,
            accessed: set.accessed,
            modified: set.modified,
        });
        Ok(())
    }
}

pub(super) fn timespec(time: Option<Timestamp>) -> Timespec {
    match time {
        None => Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT,
        },
        Some(time) => Timespec {
            tv_sec: time.seconds,
            tv_nsec: time.nanoseconds.into(),
        },
    }
}

fn without_privileges(permissions: u16) -> u16 {
    let group = if permissions & GROUP_EXECUTE != 0 {
        SET_GID
    } else {
        // Without group execute, S_ISGID once meant mandatory locking; the kernel leaves it.
        0
    };
    permissions & !(SET_UID | group)
}

/// A node whose data the view owns: data from the object, the rest from the map.
fn own_data(id: NodeId, node: &Node, object: Attributes, lower: Option<u32>) -> Attributes {
    let identity = Identity {
        kind: node.kind,
        changed: node.changed.map_or(object.identity.changed, |changed| {
            changed.max(object.identity.changed)
        }),
        ..shown(id, node, object.identity)
    };
    Attributes {
        identity,
        permissions: node.permissions,
        links: node.links(lower),
        uid: node.uid,
        gid: node.gid,
        special: node.special,
        created: node.born,
        ..object
    }
}

/// A directory, link or device node that exists only in the view.
fn created(id: NodeId, node: &Node) -> Attributes {
    let changed = node.changed.unwrap_or_default();
    let size = match node.kind {
        FileKind::Directory => 4096,
        _ => node.target.len() as u64,
    };
    let identity = Identity {
        device: node.device,
        inode: id.0,
        kind: node.kind,
        size,
        modified: node.modified.unwrap_or(changed),
        changed,
    };
    Attributes {
        identity,
        permissions: node.permissions,
        links: node.links(None),
        uid: node.uid,
        gid: node.gid,
        special: node.special,
        blocks: u64::from(node.kind == FileKind::Directory) * 8,
        block_size: 4096,
        accessed: node.accessed.unwrap_or(changed),
        created: node.born,
        is_mount_point: false,
    }
}

/// A real inode with what the domain changed of it laid over.
fn overlaid(node: &Node, lower: Attributes) -> Attributes {
    let mut attributes = lower;
    attributes.links = node.links(Some(lower.links));
    if node.owns_permissions {
        attributes.permissions = node.permissions;
    }
    if node.owns_owner {
        (attributes.uid, attributes.gid) = (node.uid, node.gid);
    }
    attributes.accessed = node.accessed.unwrap_or(lower.accessed);
    attributes.identity.modified = node.modified.unwrap_or(lower.identity.modified);
    attributes.identity.changed = node.changed.unwrap_or(lower.identity.changed);
    attributes
}

/// The identity of the real inode, where there is one, with the object's size and times.
fn shown(id: NodeId, node: &Node, object: Identity) -> Identity {
    let key = node.origin.as_ref().map(|origin| origin.identity.key());
    Identity {
        device: node.device,
        inode: key.map_or(id.0, |key| key.inode),
        ..object
    }
}
