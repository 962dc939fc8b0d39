//! The state under the view's lock, and what every call needs of it: finding a node by name, reaching
//! its real directory, and writing an operation.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;

use rustix::io::Errno;
use surmise_journal::Journal;
use surmise_lower::Directory;

use super::believed::Believed;
use super::concealing::Concealing;
use super::directories::Directories;
use super::facts::{Facts, Step, outcome};
use super::files::Files;
use super::listings::Listings;
use super::log::Log;
use super::objects::Objects;
use super::openers::Openers;
use super::passthrough::Passed;
use super::running::CommitUnderWay;
use super::showing::{Showing, created_inode};
use super::undo::Undecided;
use super::uses::UsedNames;
use super::{Entry, ViewConfig, fail};
use crate::known::{Known, Place, PlaceRef};
use crate::map::{Map, Resolution};
use crate::record::{Operation, Record};
use crate::store::ObjectStore;
use crate::types::{Attributes, FileKind, Identity, Lifetime, NodeId, Timestamp};

/// The most directories on the way to a file. Deeper there is only a ring of places that are outdated, as
/// of two directories of which each was moved into the other.
pub(super) const DEPTH_MAX: usize = 1 << 17;

/// The state of a view. Each part owns what it is about; what a call does with several of them is in the
/// call's file.
#[derive(Debug)]
pub(super) struct Core {
    /// What every changed name and inode has become, and the log that it is the fold of.
    pub(super) map: Map,
    log: Log,
    pub(super) objects: Objects,
    /// What the kernel may name in its next request.
    pub(super) known: Known,
    pub(super) used_names: UsedNames,
    pub(super) showing: Arc<Showing>,
    pub(super) directories: Directories,
    pub(super) files: Files,
    /// Files that the kernel reads and writes by itself.
    pub(super) passed: Passed,
    pub(super) listings: Listings,
    pub(super) believed: Believed,
    /// Of whom each open file is, where somebody speculates.
    pub(super) openers: Openers,
    pub(super) undecided: Undecided,
    pub(super) concealing: Concealing,
    /// What is under way between a commit's preparation and the moment when the domain goes on.
    pub(super) commit: Option<CommitUnderWay>,
    /// How many commits were taken in.
    pub(super) rebases: u64,
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
        config: &ViewConfig,
        store: ObjectStore,
        journal: Option<Journal<File>>,
        map: Map,
    ) -> io::Result<Self> {
        let slots = NonZeroUsize::new(config.descriptors.max(16)).expect("at least 16");
        let directories = Directories::of(&*config.lower, slots)?;
        let (last_node, last_object) = map.last_ids();
        Ok(Self {
            map,
            log: Log::of(&config.directory, journal),
            objects: Objects::of(store, last_object),
            known: Known::from(last_node),
            used_names: UsedNames::default(),
            showing: Arc::new(Showing::of(config, directories.root_device())),
            directories,
            files: Files::new(slots),
            passed: Passed::default(),
            listings: Listings::default(),
            believed: Believed::default(),
            openers: Openers::of(config.speculates),
            undecided: Undecided::default(),
            concealing: Concealing::default(),
            commit: None,
            rebases: 0,
        })
    }

    /// The node that `name` leads to, `None` where it leads nowhere.
    pub(super) fn find(
        &mut self,
        facts: &Facts,
        parent: NodeId,
        name: &OsStr,
    ) -> Step<Option<Found>> {
        match self.map.resolve(parent, name) {
            Resolution::Bound(node) => return Ok(Some(Found { node, lower: None })),
            Resolution::Unbound => {
                self.check_length(facts, parent, name)?;
                return Ok(None);
            }
            Resolution::Unchanged => {}
        }
        let found = match facts.known_name(parent, name) {
            Some(known) => known?,
            None => {
                let directory = self.directory(facts, parent)?;
                // Before anything is read of it.
                self.watch(facts, parent, &directory)?;
                facts.name(parent, &directory, name)?
            }
        };
        let Some(attributes) = found else {
            return Ok(None);
        };
        if self.showing.is_hidden(attributes.identity.key()) {
            return Ok(None);
        }
        let node = self.node_of(parent, name, &attributes);
        Ok(Some(Found {
            node,
            lower: Some(attributes),
        }))
    }

    /// [`Core::find`] for names that must lead somewhere.
    pub(super) fn find_existing(
        &mut self,
        facts: &Facts,
        parent: NodeId,
        name: &OsStr,
    ) -> Step<Found> {
        self.find(facts, parent, name)?
            .ok_or_else(|| Errno::NOENT.into())
    }

    /// Has a directory be watched that is not yet, if that can be.
    fn watch(&mut self, facts: &Facts, id: NodeId, directory: &Arc<dyn Directory>) -> Step<()> {
        let Some(watcher) = self.believed.watches.wanted_for(id) else {
            return Ok(());
        };
        let removals = self.believed.watches.removals();
        let watch = facts.watch(id, directory, &watcher, removals)?;
        self.believed.watches.install(id, watch);
        Ok(())
    }

    /// What the kernel is told of a node, which it counts as one more reference.
    pub(super) fn entry(&mut self, facts: &Facts, found: Found) -> Step<Entry> {
        let (attributes, attributes_lifetime) = self.attributes_of(facts, found)?;
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
    pub(super) fn directory(&mut self, facts: &Facts, id: NodeId) -> Step<Arc<dyn Directory>> {
        let mut missing = Vec::new();
        let mut at = id;
        let mut directory = loop {
            if let Some(directory) = self.directories.get(at) {
                break Arc::clone(directory);
            }
            let place = self.place(at)?;
            let parent = place.parent;
            missing.push((at, place.name.to_owned(), place.key));
            check_depth(missing.len())?;
            at = parent;
        };
        for (node, name, key) in missing.into_iter().rev() {
            directory = facts.directory(node, &directory, &name, key)?;
            self.directories.put(node, Arc::clone(&directory));
        }
        Ok(directory)
    }

    /// Where the real inode of a node is: its directory and its name there.
    pub(super) fn place(&self, id: NodeId) -> io::Result<PlaceRef<'_>> {
        if let Some(origin) = self.map.node(id).and_then(|node| node.origin.as_deref()) {
            return Ok(origin.into());
        }
        let known = self.known.node(id);
        let place = known.and_then(|known| known.place.as_deref());
        place.map(PlaceRef::from).ok_or_else(|| Errno::STALE.into())
    }

    /// The real attributes of a node that has a real inode, which must still be the same one.
    pub(super) fn lower_attributes(&mut self, facts: &Facts, id: NodeId) -> Step<Attributes> {
        if id == NodeId::ROOT {
            return facts.directory_itself(id, self.directories.root());
        }
        let parent = self.place(id)?.parent;
        let directory = outcome(self.directory(facts, parent))?;
        let place = self.place(id)?;
        let there = match directory {
            Ok(directory) => outcome(facts.name(parent, &directory, place.name))?,
            Err(error) => Err(error),
        };
        match there {
            Ok(Some(attributes)) if attributes.identity.key() == place.key => Ok(attributes),
            // Moved or removed outside, or the directory was.
            _ => {
                let key = place.key;
                self.held_attributes(facts, id, key)
            }
        }
    }

    /// The directory and name through which the real inode of a node is reached.
    pub(super) fn lower_place(
        &mut self,
        facts: &Facts,
        id: NodeId,
    ) -> Step<(Arc<dyn Directory>, OsString)> {
        if id == NodeId::ROOT {
            return Ok((Arc::clone(self.directories.root()), OsString::new()));
        }
        let place = self.place(id)?;
        let (parent, name) = (place.parent, place.name.to_owned());
        Ok((self.directory(facts, parent)?, name))
    }

    /// What the real directory holds under a name, for a record that changes it first; the map keeps
    /// what an earlier record said.
    pub(super) fn lower_identity(
        &mut self,
        facts: &Facts,
        parent: NodeId,
        name: &OsStr,
    ) -> Step<Option<Identity>> {
        if self.map.resolve(parent, name) != Resolution::Unchanged {
            return Ok(None);
        }
        let directory = self.directory(facts, parent)?;
        let Some(found) = facts.name(parent, &directory, name)? else {
            return Ok(None);
        };
        let found = found.identity;
        if self.showing.is_hidden(found.key()) {
            return fail(Errno::PERM);
        }
        // What the domain read before is what it decided on, so a later change outside is a conflict.
        Ok(Some(self.first_use(parent, name, found)))
    }

    /// Notes that a real file is opened.
    pub(super) fn note_use(&mut self, id: NodeId, identity: Identity) -> io::Result<()> {
        let place = self.place(id)?;
        let (parent, name) = (place.parent, place.name.to_owned());
        self.note_last_look(id, &identity);
        self.used_names.note(parent, &name, identity);
        self.known.note_use(id, &identity);
        Ok(())
    }

    /// The state in which the domain first used what a name now leads to. Where that was another
    /// inode, it is that one's state with the new one's number, which no real file is in.
    fn first_use(&self, parent: NodeId, name: &OsStr, found: Identity) -> Identity {
        if let Some(used) = self.used_names.first(parent, name) {
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

    /// Adds the records that bring a node, and the directories above it, into the map.
    pub(super) fn adopt(
        &mut self,
        facts: &Facts,
        id: NodeId,
        records: &mut Vec<Record>,
    ) -> Step<()> {
        let mut missing = Vec::new();
        let mut at = id;
        while self.map.node(at).is_none() && !brings(records, at) {
            let (parent, name) = if at == NodeId::ROOT {
                (at, OsString::new())
            } else {
                let place = self.place(at)?;
                (place.parent, place.name.to_owned())
            };
            missing.push((at, parent, name));
            check_depth(missing.len())?;
            if at == NodeId::ROOT {
                break;
            }
            at = parent;
        }
        for (node, parent, name) in missing.into_iter().rev() {
            let attributes = self.lower_attributes(facts, node)?;
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

    /// Writes one operation to the log and takes it into the map, as it is.
    pub(super) fn record(&mut self, records: Vec<Record>, time: Timestamp) -> io::Result<()> {
        let operation = Operation { time, records };
        self.write(&operation)?;
        self.take_in(&operation);
        Ok(())
    }

    /// Writes one operation to the log.
    pub(super) fn write(&mut self, operation: &Operation) -> io::Result<()> {
        self.log.append(operation)
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
        self.log.sync()
    }

    /// Whether a node's data are an object's.
    pub(super) fn has_object(&self, id: NodeId) -> bool {
        self.map.node(id).is_some_and(|node| node.object.is_some())
    }

    /// The inode number to show.
    pub(super) fn inode_number(&self, id: NodeId, identity: &Identity) -> u64 {
        match self.map.node(id) {
            Some(node) if node.origin.is_none() => self.created_inode(id),
            _ => self.showing.inode(identity.key()),
        }
    }

    /// The inode number of a node that only the view has.
    pub(super) fn created_inode(&self, id: NodeId) -> u64 {
        self.known.number(id).unwrap_or_else(|| created_inode(id))
    }

    /// `st_dev` of the file system that a node is on.
    pub(super) fn device_of(&mut self, facts: &Facts, id: NodeId) -> Step<u64> {
        match (self.map.node(id), self.known.node(id)) {
            (Some(node), _) => Ok(node.device),
            (None, Some(known)) if known.place.is_some() => Ok(self.place(id)?.key.device),
            _ => Ok(self.lower_attributes(facts, id)?.identity.device),
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
        let id = known.unwrap_or_else(|| self.known.next_node());
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

/// Now, by the clock that the kernel stamps inodes with, so that times of objects and times in the
/// map compare.
pub(super) fn now() -> Timestamp {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    Timestamp {
        seconds: now.tv_sec,
        nanoseconds: u32::try_from(now.tv_nsec).expect("less than a second"),
    }
}
