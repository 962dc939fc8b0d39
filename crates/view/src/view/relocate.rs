//! Where nodes are when a commit has made the real tree what the view shows.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};

use super::core::Core;
use crate::known::Place;
use crate::map::Node;
use crate::types::{Attributes, FileKind, InodeKey, NodeId};

/// A directory of the map, and where the commit has put it.
pub(super) struct Moved {
    node: NodeId,
    parent: NodeId,
    name: OsString,
    /// Which inode it is, if it was real before.
    key: Option<InodeKey>,
}

impl Core {
    /// The nodes that the kernel knows and that no name is sure to lead to after the commit.
    pub(super) fn lost(&mut self) -> Vec<NodeId> {
        let mut lost = Vec::new();
        // Real files whose first name leads elsewhere.
        let mut unsure = HashSet::new();
        for (id, known) in self.known.held() {
            let Some(node) = self.map.node(id) else {
                if known.lost_names > 0 {
                    lost.push(id);
                }
                continue;
            };
            match &node.origin {
                None if node.names <= 0 => lost.push(id),
                Some(origin) if self.is_rebound(origin.parent, &origin.name) => {
                    unsure.insert(id);
                }
                _ => {}
            }
        }
        for (_, directory) in self.map.nodes() {
            for (_, binding) in directory.entries.iter() {
                let _ = binding.target.map(|target| unsure.remove(&target));
            }
        }
        lost.extend(unsure.into_iter().filter(|id| !self.has_alias(*id)));
        lost
    }

    /// Where the commit has put the directories of the map, top down.
    pub(super) fn moved_directories(&self) -> Vec<Moved> {
        let mut bound = HashMap::new();
        for (parent, node) in self.map.nodes() {
            for (name, binding) in node.entries.iter() {
                let target = binding.target.and_then(|id| Some((id, self.map.node(id)?)));
                if let Some((
                    id,
                    Node {
                        kind: FileKind::Directory,
                        ..
                    },
                )) = target
                {
                    bound.insert(id, (parent, name));
                }
            }
        }
        let mut moved = Vec::new();
        let mut seen = HashSet::from([NodeId::ROOT]);
        let directories = self.map.nodes();
        for (id, _) in directories.filter(|(_, node)| node.kind == FileKind::Directory) {
            let mut chain = Vec::new();
            let mut at = id;
            while seen.insert(at) {
                // What the map lacks has not moved, and what is above it is no directory of the map.
                let Some(node) = self.map.node(at) else { break };
                let origin = node.origin.as_ref();
                let first = origin.map(|origin| (origin.parent, &*origin.name));
                let first = first.filter(|(parent, name)| !self.is_rebound(*parent, name));
                let Some((parent, name)) = bound.get(&at).copied().or(first) else {
                    break;
                };
                chain.push(Moved {
                    node: at,
                    parent,
                    name: name.to_owned(),
                    key: origin.map(|origin| origin.identity.key()),
                });
                at = parent;
            }
            moved.extend(chain.into_iter().rev());
        }
        moved
    }

    /// Finds what was in the map at its real place.
    pub(super) fn relocate(
        &mut self,
        directories: Vec<Moved>,
        before: &HashMap<NodeId, Box<Node>>,
    ) {
        for Moved {
            node,
            parent,
            name,
            key,
        } in directories
        {
            self.put(node, FileKind::Directory, key, parent, &name);
        }
        let files: Vec<NodeId> = before
            .iter()
            .filter(|(id, node)| node.kind != FileKind::Directory && self.known.is_held(**id))
            .map(|(id, _)| *id)
            .collect();
        let aliases: Vec<_> = files
            .iter()
            .filter_map(|id| self.known.take_aliases(*id))
            .collect();
        let put = |core: &mut Self, id, parent, name: &OsStr| {
            let node: &Node = &before[&id];
            let key = node.origin.as_ref().map(|origin| origin.identity.key());
            core.put(id, node.kind, key, parent, name);
        };
        for (directory, node) in before {
            for (name, binding) in node.entries.iter() {
                let target = binding
                    .target
                    .filter(|id| before[id].kind != FileKind::Directory && self.known.is_held(*id));
                if let Some(id) = target {
                    put(self, id, *directory, name);
                }
            }
        }
        for id in files {
            let Some(origin) = &before[&id].origin else {
                continue;
            };
            let parent = before.get(&origin.parent);
            if parent.is_none_or(|parent| !parent.entries.contains_key(&origin.name)) {
                put(self, id, origin.parent, &origin.name);
            }
        }
        for (id, aliases) in aliases {
            for (parent, name) in aliases {
                put(self, id, parent, &name);
            }
        }
    }

    /// Notes that a node is at a real place, if that holds what it is; or that it may be there, too.
    fn put(
        &mut self,
        id: NodeId,
        kind: FileKind,
        key: Option<InodeKey>,
        parent: NodeId,
        name: &OsStr,
    ) {
        if self
            .known
            .node(id)
            .is_some_and(|known| known.place.is_some())
        {
            self.known.add_alias(id, parent, name);
            return;
        }
        let Some(Attributes { identity, .. }) = self.look(parent, name) else {
            return;
        };
        let found = identity.key();
        let is_same = identity.kind == kind && key.is_none_or(|key| key == found);
        if !is_same || self.showing.is_hidden(found) {
            return;
        }
        let place = Place {
            parent,
            name: name.into(),
            key: found,
            kind,
        };
        self.known.place(id, place);
        if self.known.is_open(id) {
            self.known.note_use(id, &identity);
        }
    }

    fn is_rebound(&self, parent: NodeId, name: &OsStr) -> bool {
        let parent = self.map.node(parent);
        parent.is_some_and(|parent| parent.entries.contains_key(name))
    }

    /// Whether a name that the domain has seen and not changed leads to a node's real inode.
    fn has_alias(&mut self, id: NodeId) -> bool {
        let Ok(key) = self.place(id).map(|place| place.key) else {
            return false;
        };
        let aliases = self.known.aliases(id);
        let aliases: Vec<(NodeId, OsString)> = aliases
            .map(|(parent, name)| (parent, name.to_owned()))
            .collect();
        aliases.into_iter().any(|(parent, name)| {
            !self.is_rebound(parent, &name)
                && self
                    .look(parent, &name)
                    .is_some_and(|found| found.identity.key() == key)
        })
    }

    /// What a real name leads to.
    fn look(&mut self, parent: NodeId, name: &OsStr) -> Option<Attributes> {
        let found = self.decide_at_once(|core, facts| {
            let directory = core.directory(facts, parent)?;
            facts.name(parent, &directory, name)
        });
        found.ok()?
    }
}
