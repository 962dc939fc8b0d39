//! Where nodes are when a commit has made the real tree what the view shows.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;

use super::core::Core;
use crate::known::Place;
use crate::lower;
use crate::map::{Map, Node};
use crate::types::{Attributes, FileKind, Identity, InodeKey, NodeId};

/// A node of the map, and where the commit has put it.
pub(super) struct Move {
    node: NodeId,
    /// Its names, of which those of an inode with several links may not be right.
    places: Vec<(NodeId, OsString)>,
    kind: FileKind,
    /// Which inode it is, for those that were real before.
    key: Option<InodeKey>,
}

/// The changed names that lead to each node.
pub(super) type Bound<'m> = HashMap<NodeId, Vec<(NodeId, &'m OsStr)>>;

impl Core {
    /// Where the commit has put the held nodes of the map, and the directories above them, top down.
    pub(super) fn moves(&self) -> Vec<Move> {
        let bound = bound(&self.map);
        let mut moves = Vec::new();
        let mut seen = HashSet::from([NodeId::ROOT]);
        for (held, known) in self.known.held() {
            let file = self
                .map
                .node(held)
                .filter(|node| node.kind != FileKind::Directory);
            let Some(node) = file else {
                for (parent, _) in self.known.aliases(held) {
                    self.move_directories(parent, &bound, &mut seen, &mut moves);
                }
                let place = known.place.as_ref();
                self.move_directories(
                    place.map_or(held, |place| place.parent),
                    &bound,
                    &mut seen,
                    &mut moves,
                );
                continue;
            };
            let mut places = self.names(held, node, &bound);
            places.extend(self.known.aliases(held));
            for (parent, _) in &places {
                self.move_directories(*parent, &bound, &mut seen, &mut moves);
            }
            moves.push(Move::of(held, node, &places));
        }
        moves
    }

    /// Adds a directory and those above it.
    fn move_directories(
        &self,
        directory: NodeId,
        bound: &Bound<'_>,
        seen: &mut HashSet<NodeId>,
        moves: &mut Vec<Move>,
    ) {
        let mut chain = Vec::new();
        let mut at = directory;
        while seen.insert(at) {
            if let Some(node) = self.map.node(at) {
                let places = self.names(at, node, bound);
                let Some(place) = places.last() else { break };
                chain.push(Move::of(at, node, &[*place]));
                at = place.0;
            } else {
                let place = self.known.node(at).and_then(|known| known.place.as_ref());
                let Some(place) = place else { break };
                at = place.parent;
            }
        }
        moves.extend(chain.into_iter().rev());
    }

    /// The names under which a node of the map is surely in the view.
    pub(super) fn names<'a>(
        &'a self,
        id: NodeId,
        node: &'a Node,
        bound: &Bound<'a>,
    ) -> Vec<(NodeId, &'a OsStr)> {
        let mut names = bound.get(&id).cloned().unwrap_or_default();
        let origin = node.origin.as_ref();
        let origin = origin.map(|origin| (origin.parent, &*origin.name));
        names.extend(origin.filter(|(parent, name)| !self.is_rebound(*parent, name)));
        names
    }

    fn is_rebound(&self, parent: NodeId, name: &OsStr) -> bool {
        let parent = self.map.node(parent);
        parent.is_some_and(|parent| parent.entries.contains_key(name))
    }

    /// Whether a name that the domain has seen and not changed leads to a node's real inode.
    pub(super) fn has_alias(&mut self, id: NodeId) -> bool {
        let Ok(Place { key, .. }) = self.place(id) else {
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
        let directory = self.directory(parent).ok()?;
        lower::stat(directory.as_fd(), name).ok()?
    }

    /// Finds moved nodes at their real places, and tells which inode numbers have changed.
    pub(super) fn relocate(&mut self, moves: Vec<Move>) -> HashMap<u64, u64> {
        let mut numbers = HashMap::new();
        for moved in moves {
            self.known.forget_aliases(moved.node);
            let Some((index, identity)) = self.find_moved(&moved) else {
                continue;
            };
            if moved.key.is_none() {
                let number = self.shown_inode(identity.key());
                numbers.insert(self.created_inode(moved.node), number);
            }
            for (at, (parent, name)) in moved.places.into_iter().enumerate() {
                if at != index {
                    self.known.add_alias(moved.node, parent, &name);
                    continue;
                }
                let place = Place {
                    parent,
                    name: name.into(),
                    key: identity.key(),
                    kind: identity.kind,
                };
                self.known.place(moved.node, place);
            }
            if identity.kind == FileKind::Regular {
                // It may be open and mapped.
                self.known.note_writer(moved.node);
                self.known.note_use(moved.node, &identity);
            }
        }
        numbers
    }

    fn find_moved(&mut self, moved: &Move) -> Option<(usize, Identity)> {
        let mut places = moved.places.iter().enumerate();
        places.find_map(|(index, (parent, name))| {
            let found = self.look(*parent, name)?.identity;
            let key = found.key();
            let is_same = found.kind == moved.kind && moved.key.is_none_or(|own| own == key);
            (is_same && !self.config.hidden.contains(&key)).then_some((index, found))
        })
    }
}

impl Move {
    fn of(id: NodeId, node: &Node, places: &[(NodeId, &OsStr)]) -> Self {
        let places = places.iter();
        let origin = node.origin.as_ref();
        Self {
            node: id,
            places: places
                .map(|(parent, name)| (*parent, (*name).to_owned()))
                .collect(),
            kind: node.kind,
            key: origin.map(|origin| origin.identity.key()),
        }
    }
}

pub(super) fn bound(map: &Map) -> Bound<'_> {
    let mut bound = Bound::new();
    for (directory, node) in map.nodes() {
        for (name, binding) in node.entries.iter() {
            if let Some(target) = binding.target {
                let names: &mut Vec<_> = bound.entry(target).or_default();
                names.push((directory, name));
            }
        }
    }
    bound
}
