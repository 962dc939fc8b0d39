//! The state under the view's lock, and what every call needs of it: finding a node by name, reaching
//! its real directory, and writing an operation.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use rustix::io::Errno;
use surmise_journal::Journal;
use surmise_lower::{Directory, OpenFile};

use super::files::Data;
use super::passthrough::Passed;
use super::running::CommitUnderWay;
use super::undo::{Openers, Undecided};
use super::{Entry, LOG_FORMAT, ViewConfig, fail};
use crate::known::{Known, Place};
use crate::listed::Listed;
use crate::map::{Map, Resolution};
use crate::record::{Operation, Record};
use crate::store::ObjectStore;
use crate::types::{Attributes, FileKind, Identity, Lifetime, NodeId, ObjectId, Timestamp};
use crate::watch::Watches;

/// How many opened names are remembered with the state of their first use, some 120 bytes each.
const USED_NAMES: NonZeroUsize = NonZeroUsize::new(1 << 16).expect("a positive constant");

/// The most directories on the way to a file. Deeper there is only a ring of places that are outdated, as
/// of two directories of which each was moved into the other.
pub(super) const DEPTH_MAX: usize = 1 << 17;

#[derive(Debug)]
pub(super) struct Core {
    pub(super) config: ViewConfig,
    pub(super) store: ObjectStore,
    pub(super) map: Map,
    pub(super) known: Known,
    /// Open files by node: the object where there is one, else the real file.
    pub(super) files: LruCache<NodeId, Data>,
    /// Real files from which objects borrow. An open one outlives its name.
    pub(super) lenders: LruCache<NodeId, Arc<dyn OpenFile>>,
    /// Files whose data the kernel is being given.
    pub(super) given: HashSet<NodeId>,
    /// Files that the kernel reads and writes by itself.
    pub(super) passed: Passed,
    /// Snapshots of open directories.
    pub(super) listings: HashMap<u64, super::directory::Listing>,
    pub(super) last_listing: u64,
    /// What the kernel remembers of directories.
    pub(super) listed: Listed,
    pub(super) watches: Watches,
    /// What is under way between a commit's preparation and the moment when the domain goes on.
    pub(super) commit: Option<CommitUnderWay>,
    /// Names that lead nowhere, of which the kernel was told so for ever, and that the map lacks.
    pub(super) absent: HashSet<(NodeId, OsString)>,
    /// Files that changed outside before the domain changed them, with the kernel not told yet.
    pub(super) changed_outside: Vec<NodeId>,
    /// Of whom each open file is, where somebody speculates.
    pub(super) openers: Openers,
    pub(super) undecided: Undecided,
    /// Objects that nothing needs any more.
    pub(super) garbage: Vec<ObjectId>,
    /// Names of real files that were opened, and what they led to at first. An editor outside
    /// replaces a file by another inode, so the inode alone does not tell of a conflict. By a hash:
    /// two names of one hash, which nobody will meet, would make a conflict where there is none.
    pub(super) used_names: LruCache<u64, Identity>,
    hashing: RandomState,
    pub(super) directories: LruCache<NodeId, Arc<dyn Directory>>,
    root: Arc<dyn Directory>,
    pub(super) root_device: u64,
    journal: Option<Journal<File>>,
    last_node: u64,
    last_object: u64,
}

/// A node as a name led to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) node: NodeId,
    /// What was read on the way, for names that the domain did not change.
    pub(super) lower: Option<Attributes>,
}

impl Core {
    pub(super) fn new(
        config: ViewConfig,
        store: ObjectStore,
        journal: Option<Journal<File>>,
        map: Map,
    ) -> io::Result<Self> {
        let root = config.lower.root()?;
        let root_device = root.attributes()?.identity.device;
        let slots = NonZeroUsize::new(config.descriptors.max(16)).expect("at least 16");
        let (last_node, last_object) = map.last_ids();
        Ok(Self {
            config,
            store,
            map,
            known: Known::default(),
            files: LruCache::new(slots),
            lenders: LruCache::new(slots),
            given: HashSet::new(),
            passed: Passed::default(),
            listings: HashMap::new(),
            last_listing: 0,
            listed: Listed::default(),
            watches: Watches::default(),
            commit: None,
            absent: HashSet::new(),
            changed_outside: Vec::new(),
            openers: Openers::default(),
            undecided: Undecided::default(),
            garbage: Vec::new(),
            used_names: LruCache::new(USED_NAMES),
            hashing: RandomState::new(),
            directories: LruCache::new(slots),
            root,
            root_device,
            journal,
            last_node: last_node.0,
            last_object: last_object.0,
        })
    }

    /// The node that `name` leads to, `None` where it leads nowhere.
    pub(super) fn find(&mut self, parent: NodeId, name: &OsStr) -> io::Result<Option<Found>> {
        match self.map.resolve(parent, name) {
            Resolution::Bound(node) => return Ok(Some(Found { node, lower: None })),
            Resolution::Unbound => {
                self.check_length(parent, name)?;
                return Ok(None);
            }
            Resolution::Unchanged => {}
        }
        let directory = self.directory(parent)?;
        // Before anything is read of it.
        self.watches.add(parent, &*directory);
        let Some(attributes) = directory.lookup(name)? else {
            return Ok(None);
        };
        if self.config.hidden.contains(&attributes.identity.key()) {
            return Ok(None);
        }
        let node = self.node_of(parent, name, &attributes);
        Ok(Some(Found {
            node,
            lower: Some(attributes),
        }))
    }

    /// [`Core::find`] for names that must lead somewhere.
    pub(super) fn find_existing(&mut self, parent: NodeId, name: &OsStr) -> io::Result<Found> {
        self.find(parent, name)?.ok_or_else(|| Errno::NOENT.into())
    }

    /// What the kernel is told of a node, which it counts as one more reference.
    pub(super) fn entry(&mut self, found: Found) -> io::Result<Entry> {
        let (attributes, attributes_lifetime) = self.attributes_of(found)?;
        self.known.remember(found.node);
        Ok(Entry {
            node: found.node,
            attributes,
            inode: self.inode_number(found.node, &attributes.identity),
            attributes_lifetime,
            name_lifetime: match found.lower {
                Some(lower) if lower.identity.kind == FileKind::Fifo => Lifetime::Never,
                Some(_) => Lifetime::Brief,
                None => Lifetime::Forever,
            },
        })
    }

    /// A descriptor of the real directory behind a node that has one.
    pub(super) fn directory(&mut self, id: NodeId) -> io::Result<Arc<dyn Directory>> {
        let mut missing = Vec::new();
        let mut at = id;
        let mut directory = loop {
            if at == NodeId::ROOT {
                break Arc::clone(&self.root);
            }
            if let Some(directory) = self.directories.get(&at) {
                break Arc::clone(directory);
            }
            let place = self.place(at)?;
            missing.push((at, place.name, place.key));
            check_depth(missing.len())?;
            at = place.parent;
        };
        for (node, name, key) in missing.into_iter().rev() {
            let opened = directory.directory(&name)?;
            if opened.attributes()?.identity.key() != key {
                return fail(Errno::STALE);
            }
            directory = opened;
            self.directories.put(node, Arc::clone(&directory));
        }
        Ok(directory)
    }

    /// Where the real inode of a node is: its directory and its name there.
    pub(super) fn place(&self, id: NodeId) -> io::Result<Place> {
        if let Some(origin) = self.map.node(id).and_then(|node| node.origin.as_deref()) {
            return Ok(origin.into());
        }
        let known = self.known.node(id).and_then(|known| known.place.clone());
        known.map(|place| *place).ok_or_else(|| Errno::STALE.into())
    }

    /// The real attributes of a node that has a real inode, which must still be the same one.
    pub(super) fn lower_attributes(&mut self, id: NodeId) -> io::Result<Attributes> {
        if id == NodeId::ROOT {
            return self.root.attributes();
        }
        let place = self.place(id)?;
        let there = self
            .directory(place.parent)
            .and_then(|directory| directory.lookup(&place.name));
        match there {
            Ok(Some(attributes)) if attributes.identity.key() == place.key => Ok(attributes),
            // Moved or removed outside, or the directory was.
            _ => self.held_attributes(id, place.key),
        }
    }

    /// The directory and name through which the real inode of a node is reached.
    pub(super) fn lower_place(&mut self, id: NodeId) -> io::Result<(Arc<dyn Directory>, OsString)> {
        if id == NodeId::ROOT {
            return Ok((Arc::clone(&self.root), OsString::new()));
        }
        let place = self.place(id)?;
        Ok((self.directory(place.parent)?, place.name.into_os_string()))
    }

    /// What the real directory holds under a name, for a record that changes it first; the map keeps
    /// what an earlier record said.
    pub(super) fn lower_identity(
        &mut self,
        parent: NodeId,
        name: &OsStr,
    ) -> io::Result<Option<Identity>> {
        if self.map.resolve(parent, name) != Resolution::Unchanged {
            return Ok(None);
        }
        let directory = self.directory(parent)?;
        let Some(found) = directory.lookup(name)? else {
            return Ok(None);
        };
        let found = found.identity;
        if self.config.hidden.contains(&found.key()) {
            return fail(Errno::PERM);
        }
        // What the domain read before is what it decided on, so a later change outside is a conflict.
        Ok(Some(self.first_use(parent, name, found)))
    }

    /// Notes that a real file is opened.
    pub(super) fn note_use(&mut self, id: NodeId, identity: Identity) -> io::Result<()> {
        let place = self.place(id)?;
        self.note_last_look(id, &identity);
        let name = self.used_name(place.parent, &place.name);
        self.used_names.get_or_insert(name, || identity);
        self.known.note_use(id, &identity);
        Ok(())
    }

    /// The state in which the domain first used what a name now leads to. Where that was another
    /// inode, it is that one's state with the new one's number, which no real file is in.
    fn first_use(&self, parent: NodeId, name: &OsStr, found: Identity) -> Identity {
        if let Some(used) = self.used_names.peek(&self.used_name(parent, name)) {
            let (device, inode, kind) = (found.device, found.inode, found.kind);
            return Identity {
                device,
                inode,
                kind,
                ..*used
            };
        }
        let adopted = self.map.adopted(found.key());
        let first_use = match adopted.and_then(|id| self.map.node(id)) {
            Some(node) => node.origin.as_ref().map(|origin| origin.identity),
            None => {
                let known = self.known.by_key(found.key());
                known.and_then(|id| self.known.first_use(id))
            }
        };
        let first_use = first_use.filter(|first| first.same_inode(&found));
        first_use.unwrap_or(found)
    }

    fn used_name(&self, parent: NodeId, name: &OsStr) -> u64 {
        self.hashing.hash_one((parent, name))
    }

    /// Adds the records that bring a node, and the directories above it, into the map.
    pub(super) fn adopt(&mut self, id: NodeId, records: &mut Vec<Record>) -> io::Result<()> {
        let mut missing = Vec::new();
        let mut at = id;
        while self.map.node(at).is_none() && !brings(records, at) {
            let (parent, name) = if at == NodeId::ROOT {
                (at, OsString::new())
            } else {
                let place = self.place(at)?;
                (place.parent, place.name.into_os_string())
            };
            missing.push((at, parent, name));
            check_depth(missing.len())?;
            if at == NodeId::ROOT {
                break;
            }
            at = parent;
        }
        for (node, parent, name) in missing.into_iter().rev() {
            let attributes = self.lower_attributes(node)?;
            let identity = self.first_use(parent, &name, attributes.identity);
            records.push(Record::Adopt {
                node,
                parent,
                name,
                identity,
                links: attributes.links,
                permissions: attributes.permissions,
                uid: attributes.uid,
                gid: attributes.gid,
                special: attributes.special,
            });
        }
        Ok(())
    }

    /// Writes one operation to the log and takes it into the map.
    pub(super) fn perform(&mut self, records: Vec<Record>, time: Timestamp) -> io::Result<()> {
        let operation = Operation { time, records };
        self.write(&operation)?;
        self.take_in(&operation);
        Ok(())
    }

    /// Writes one operation to the log.
    pub(super) fn write(&mut self, operation: &Operation) -> io::Result<()> {
        let journal = match &mut self.journal {
            Some(journal) => journal,
            None => {
                let path = self.config.directory.join("log");
                let created = Journal::create_at(&path, LOG_FORMAT);
                self.journal.insert(created.map_err(io_error)?)
            }
        };
        journal.append(&operation.encode()).map(drop)
    }

    /// Takes an operation that is in the log into the map.
    pub(super) fn take_in(&mut self, operation: &Operation) {
        let applied = self.map.apply(operation);
        applied.expect("a view writes only records that fit its map");
        for record in &operation.records {
            if let Record::Adopt { node, .. } = record {
                self.known.adopted(*node);
            }
        }
    }

    /// Makes the log durable.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        match &mut self.journal {
            Some(journal) => journal.sync(),
            None => Ok(()),
        }
    }

    pub(super) fn next_node(&mut self) -> NodeId {
        self.last_node += 1;
        NodeId(self.last_node)
    }

    pub(super) fn next_object(&mut self) -> ObjectId {
        self.last_object += 1;
        ObjectId(self.last_object)
    }

    /// Whether a node's data are an object's.
    pub(super) fn has_object(&self, id: NodeId) -> bool {
        self.map.node(id).is_some_and(|node| node.object.is_some())
    }

    /// `st_dev` of the file system that a node is on.
    pub(super) fn device_of(&mut self, id: NodeId) -> io::Result<u64> {
        match (self.map.node(id), self.known.node(id)) {
            (Some(node), _) => Ok(node.device),
            (None, Some(known)) if known.place.is_some() => Ok(self.place(id)?.key.device),
            _ => Ok(self.lower_attributes(id)?.identity.device),
        }
    }

    /// The kind of a node.
    pub(super) fn kind(&mut self, id: NodeId) -> io::Result<FileKind> {
        match self.map.node(id) {
            Some(node) => Ok(node.kind),
            None if id == NodeId::ROOT => Ok(FileKind::Directory),
            None => Ok(self.place(id)?.kind),
        }
    }

    /// The node of a real inode that was just seen under a name.
    fn node_of(&mut self, parent: NodeId, name: &OsStr, attributes: &Attributes) -> NodeId {
        let place = Place {
            parent,
            name: name.into(),
            key: attributes.identity.key(),
            kind: attributes.identity.kind,
        };
        if let Some(id) = self.map.adopted(place.key) {
            let origin = self.map.node(id).and_then(|node| node.origin.as_ref());
            // An inode with one name that turns up under another was renamed outside, or its number
            // was used again: a new file to this domain. Commit tells of the conflict.
            let same = origin.is_some_and(|origin| {
                let here = origin.parent == parent && *origin.name == *name;
                (here || attributes.links > 1) && origin.identity.kind == place.kind
            });
            if same {
                if attributes.links > 1 {
                    self.known.add_alias(id, parent, name);
                }
                return id;
            }
        }
        let known = self.known.by_key(place.key);
        let known = known.filter(|id| self.kind(*id).is_ok_and(|kind| kind == place.kind));
        // The kernel keeps where a link leads for as long as it knows the node, and the number of a
        // link that was removed goes to the next one.
        let is_link = place.kind == FileKind::Symlink;
        let known = known.filter(|id| !is_link || !self.known.is_not_as_at_first(*id, attributes));
        let id = known.unwrap_or_else(|| self.next_node());
        let seen = self.known.node(id).and_then(|known| known.place.as_deref());
        if seen == Some(&place) {
            return id;
        }
        if let Some(before) = seen.filter(|before| before.key == place.key && attributes.links > 1)
        {
            let (parent, name) = (before.parent, before.name.clone());
            self.known.add_alias(id, parent, &name);
        }
        self.known.place(id, place);
        if is_link {
            self.known.note_use(id, &attributes.identity);
        }
        id
    }
}

/// Whether so many places can be on the way to a file.
///
/// # Errors
/// `ESTALE`: some of them are outdated, and they make a ring.
fn check_depth(places: usize) -> io::Result<()> {
    match places {
        ..DEPTH_MAX => Ok(()),
        _ => fail(Errno::STALE),
    }
}

/// Whether one of the records adopts a node.
fn brings(records: &[Record], id: NodeId) -> bool {
    let mut records = records.iter();
    records.any(|record| matches!(record, Record::Adopt { node, .. } if *node == id))
}

/// The errno, where there is one: a full disk is to be told as such.
fn io_error(error: surmise_journal::OpenError) -> io::Error {
    match error {
        surmise_journal::OpenError::Io(error) => error,
        other => io::Error::other(other),
    }
}

/// Now, by the clock that the kernel stamps inodes with, so that times of objects and times in the
/// map compare.
pub(super) fn now() -> Timestamp {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    Timestamp {
        seconds: now.tv_sec,
        nanoseconds: u32::try_from(now.tv_nsec).expect("less than a second"),
    }
}
