//! From a map to a plan.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use surmise_changes::{Entry, Name, Names, Settled, depth};
use surmise_view::{FileKind, Identity, InodeKey, Map, Node, NodeId, Timestamp};

use super::{Directory, Edit, Finish, Indices, Metadata, Place, Plan, ROOT, Removal};
use crate::journal::Undone;

/// What the real tree must be for a plan to fit it.
#[derive(Debug, Default)]
pub(crate) struct Checks<'m> {
    pub(crate) names: Vec<Expectation>,
    pub(crate) emptied: Vec<Emptied<'m>>,
    /// The modification times that directories had when the domain first used them.
    pub(crate) times: HashMap<usize, Timestamp>,
    /// The node behind each of the plan's directories.
    pub(crate) nodes: Vec<NodeId>,
    /// The change times that an undo of an earlier commit left, or the removal of a flag.
    pub(crate) undone: Undone,
}

/// What a real name must lead to.
#[derive(Debug)]
pub(crate) struct Expectation {
    pub(crate) place: Place,
    /// `None`: nothing.
    pub(crate) state: Option<Identity>,
    /// The node that is changed through its inode, for an expectation of that inode's state.
    pub(crate) edited: Option<NodeId>,
}

/// A directory that goes: it may hold nothing but what the domain removed or moved away.
#[derive(Debug)]
pub(crate) struct Emptied<'m> {
    pub(crate) place: Place,
    /// Its node, when the domain changed names in it.
    pub(crate) node: Option<&'m Node>,
}

impl Emptied<'_> {
    /// Whether a name in it is there no more once the domain's changes are made.
    pub(crate) fn accounts_for(&self, name: &OsStr) -> bool {
        let removed = self.node.and_then(|node| node.entries.get(name));
        removed.is_some_and(|binding| binding.lower().is_some())
    }
}

/// The changes would move or replace a directory that holds Surmise's own state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) PathBuf);

pub(super) struct Builder<'m> {
    pub(super) names: Names<'m>,
    pub(super) map: &'m Map,
    settled: Option<&'m Settled>,
    pub(super) keep: &'m HashSet<InodeKey>,
    pub(super) plan: Plan,
    pub(super) checks: Checks<'m>,
    pub(super) indices: Indices,
    /// The temporary name of each name set aside.
    pub(super) set_aside: HashMap<Name<'m>, OsString>,
    /// The first staging of each created node.
    pub(super) staged: HashMap<NodeId, usize>,
    /// Temporary places that lead to a real inode by then.
    pub(super) elsewhere: HashMap<NodeId, Vec<Place>>,
    /// Created directories that are complete only when something was moved into them.
    pub(super) unfinished: HashSet<NodeId>,
    /// What is exchanged for a staged or moved inode, and so waits where that was.
    pub(super) displaced: Vec<Removal>,
    /// The node behind each index.
    nodes: Vec<NodeId>,
    prefix: &'m str,
    temporaries: u64,
}

impl Plan {
    /// The plan that makes the real tree what the map says. Temporary names are `prefix` and a
    /// number; the directories in `keep` stay where they are.
    pub(crate) fn of<'m>(
        map: &'m Map,
        prefix: &'m str,
        keep: &'m HashSet<InodeKey>,
        settled: Option<&'m Settled>,
    ) -> Result<(Self, Checks<'m>), Refused> {
        let mut builder = Builder {
            names: Names::settled(map, settled),
            map,
            settled,
            keep,
            plan: Self::default(),
            checks: Checks::default(),
            indices: HashMap::new(),
            set_aside: HashMap::new(),
            staged: HashMap::new(),
            elsewhere: HashMap::new(),
            unfinished: HashSet::new(),
            displaced: Vec::new(),
            nodes: Vec::new(),
            prefix,
            temporaries: 0,
        };
        builder.index(NodeId::ROOT);
        let changed = builder.names.changed();
        builder.expectations(&changed);
        builder.losses(&changed)?;
        builder.gains(&changed);
        builder
            .plan
            .removals
            .splice(0..0, builder.displaced.drain(..));
        builder.links();
        builder.edits();
        builder.finishes();
        builder.directories();
        builder.checks.nodes = builder.nodes;
        Ok((builder.plan, builder.checks))
    }
}

impl<'m> Builder<'m> {
    /// The index of a directory, which is given one if it has none yet.
    pub(super) fn index(&mut self, node: NodeId) -> usize {
        let next = self.plan.directories.len();
        let index = *self.indices.entry(node).or_insert(next);
        if index == next {
            let origin = self.map.node(node).and_then(|node| node.origin.as_ref());
            self.nodes.push(node);
            self.plan.directories.push(Directory {
                key: origin.map(|origin| origin.identity.key()),
                staging: None,
                places: Vec::new(),
                modified: None,
            });
        }
        index
    }

    pub(super) fn place(&mut self, (directory, name): Name<'_>) -> Place {
        Place {
            directory: self.index(directory),
            name: name.to_owned(),
        }
    }

    pub(super) fn temporary(&mut self) -> OsString {
        self.temporaries += 1;
        format!("{}{}", self.prefix, self.temporaries).into()
    }

    pub(super) fn is_adopted(&self, node: NodeId) -> bool {
        node == NodeId::ROOT || self.origin_key(node).is_some()
    }

    pub(super) fn origin_key(&self, node: NodeId) -> Option<InodeKey> {
        let origin = self.map.node(node)?.origin.as_ref()?;
        Some(origin.identity.key())
    }

    /// How deep a directory will be.
    pub(super) fn depth(&self, directory: NodeId) -> usize {
        self.names.path(directory).map_or(0, |path| depth(&path))
    }

    fn expectations(&mut self, changed: &[Entry<'m>]) {
        for entry in changed {
            if self.is_adopted(entry.directory) {
                let place = self.place((entry.directory, entry.name));
                self.checks.names.push(Expectation {
                    place,
                    state: entry.lower,
                    edited: None,
                });
            }
        }
    }

    fn leaves_unedited(&self, node: NodeId) -> bool {
        let settled = self.settled;
        settled.is_some_and(|settled| settled.leaves_unedited(node))
    }

    /// Where the inodes of links may be by then.
    fn links(&mut self) {
        for index in 0..self.plan.links.len() {
            let key = self.plan.links[index].key;
            if let Some(id) = self.map.adopted(key) {
                self.plan.links[index].sources = self.whereabouts(id, key);
            }
        }
    }

    /// Inodes that keep their identity and change.
    fn edits(&mut self) {
        let mut edited: Vec<_> = self
            .map
            .nodes()
            .filter(|(id, node)| {
                node.kind != FileKind::Directory
                    && node.is_modified()
                    && self.names.is_reachable(*id, node)
                    && !self.leaves_unedited(*id)
            })
            .collect();
        edited.sort_by_key(|(id, _)| *id);
        for (id, node) in edited {
            let Some(origin) = &node.origin else { continue };
            let found = self.place((origin.parent, &origin.name));
            let identity = self.settled.map_or(origin.identity, |settled| {
                settled.edited(id, origin.identity)
            });
            self.checks.names.push(Expectation {
                place: found,
                state: Some(identity),
                edited: Some(id),
            });
            let edit = Edit {
                key: origin.identity.key(),
                places: self.whereabouts(id, origin.identity.key()),
                object: node.object,
                metadata: own_metadata(node),
            };
            self.plan.edits.push(edit);
        }
    }

    /// Every place where a real inode may be once names have changed. A directory that moved outside and
    /// was left to whoever moved it is no such place: the plan does without it.
    fn whereabouts(&mut self, id: NodeId, key: InodeKey) -> Vec<Place> {
        let has = |name: &Name<'m>| !self.leaves_unedited(name.0);
        let names = |entries: &[Entry<'m>]| -> Vec<Name<'m>> {
            entries.iter().map(name_of).filter(has).collect()
        };
        let mut found = names(self.names.bound(id));
        found.extend(self.names.origin(id).filter(has));
        let lost = names(self.names.lost(key));
        let mut places: Vec<Place> = found.into_iter().map(|name| self.place(name)).collect();
        for name in lost {
            if let Some(temporary) = self.set_aside.get(&name).cloned() {
                places.push(Place {
                    directory: self.index(name.0),
                    name: temporary,
                });
            }
            places.push(self.place(name));
        }
        places.extend(self.elsewhere.get(&id).into_iter().flatten().cloned());
        places.dedup();
        places
    }

    /// Modes, owners and times of directories, deepest first.
    fn finishes(&mut self) {
        let mut finished: Vec<(usize, NodeId, Finish)> = Vec::new();
        let directories = self.map.nodes();
        let directories = directories.filter(|(_, node)| node.kind == FileKind::Directory);
        for (id, node) in directories {
            if !self.names.is_live(id) || self.leaves_unedited(id) {
                continue;
            }
            let metadata = match &node.origin {
                Some(_) => own_metadata(node),
                None if self.unfinished.contains(&id) => full_metadata(node),
                None => continue,
            };
            if metadata.is_empty() {
                continue;
            }
            let finish = Finish {
                directory: self.index(id),
                metadata,
            };
            if let Some(origin) = &node.origin {
                let modified = origin.identity.modified;
                self.checks.times.insert(finish.directory, modified);
            }
            finished.push((self.depth(id), id, finish));
        }
        finished.sort_by_key(|(depth, id, _)| (std::cmp::Reverse(*depth), *id));
        self.plan.finishes = finished.into_iter().map(|(_, _, finish)| finish).collect();
    }

    /// Where each directory may be. Their parents join the list as it is walked.
    fn directories(&mut self) {
        let mut at = ROOT;
        while let Some(node) = self.nodes.get(at).copied() {
            self.plan.directories[at].places = self.candidates(node);
            at += 1;
        }
    }

    fn candidates(&mut self, node: NodeId) -> Vec<Place> {
        if node == NodeId::ROOT {
            return Vec::new();
        }
        let mut places: Vec<Place> = Vec::new();
        if let Some(name) = self.names.place(node) {
            places.push(self.place(name));
        }
        if let Some(staging) = self.staged.get(&node).copied() {
            let index = self.index(node);
            self.plan.directories[index].staging = Some(staging);
            places.push(self.plan.stagings[staging].place.clone());
        }
        if let Some(origin) = self.names.origin(node) {
            if let Some(temporary) = self.set_aside.get(&origin).cloned() {
                places.push(Place {
                    directory: self.index(origin.0),
                    name: temporary,
                });
            }
            places.push(self.place(origin));
        }
        places.dedup();
        places
    }
}

fn name_of<'m>(entry: &Entry<'m>) -> Name<'m> {
    (entry.directory, entry.name)
}

/// The extended attributes that a domain set or, without a value, removed.
fn xattrs(node: &Node) -> impl Iterator<Item = (OsString, Option<Vec<u8>>)> {
    node.xattrs.iter().map(|(name, value)| {
        let value = value.as_ref().map(|value| value.to_vec());
        (name.to_owned(), value)
    })
}

/// What a domain changed of a real inode.
fn own_metadata(node: &Node) -> Metadata {
    let is_directory = node.kind == FileKind::Directory;
    // The times of an object are its file's; those of a directory follow its names, too.
    let with_times = node.object.is_none() && (node.owns_times || is_directory);
    // Writing may clear set-id bits that the file is to keep.
    let with_permissions = node.owns_permissions || node.object.is_some();
    Metadata {
        permissions: with_permissions.then_some(node.permissions),
        uid: node.owns_owner.then_some(node.uid),
        gid: node.owns_owner.then_some(node.gid),
        xattrs: xattrs(node).collect(),
        accessed: node.accessed.filter(|_| with_times),
        modified: node.modified.filter(|_| with_times),
    }
}

/// Everything of an inode that the domain made.
pub(super) fn full_metadata(node: &Node) -> Metadata {
    Metadata {
        permissions: Some(node.permissions),
        uid: Some(node.uid),
        gid: Some(node.gid),
        xattrs: xattrs(node).filter(|(_, value)| value.is_some()).collect(),
        accessed: node.accessed.filter(|_| node.object.is_none()),
        modified: node.modified.filter(|_| node.object.is_none()),
    }
}
