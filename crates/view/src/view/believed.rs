//! What the kernel believes, and has to be told should it change outside.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};

use crate::listed::Listed;
use crate::types::{Lifetime, NodeId};
use crate::watch::Watches;

/// How many absent names are told for longer than a moment, some 100 bytes each.
const ABSENT_MAX: usize = 1 << 14;

/// What the kernel was told and believes for a while.
#[derive(Debug, Default)]
pub(super) struct Believed {
    /// Of directories whose changes are heard of.
    pub(super) watches: Watches,
    /// Directories that it has listed.
    pub(super) listed: Listed,
    /// Names that lead nowhere and that the map lacks.
    absent: HashSet<(NodeId, OsString)>,
    /// Files that changed outside before the domain changed them, with the kernel not told yet.
    changed: Vec<NodeId>,
}

impl Believed {
    /// How long the kernel may believe that a name leads nowhere. What it believes for longer than a moment
    /// must be known when that ends, so so many are remembered.
    pub(super) fn absence(&mut self, parent: NodeId, name: &OsStr, lifetime: Lifetime) -> Lifetime {
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

    /// The names that it believes to lead nowhere, in one directory or in all.
    pub(super) fn absent_in(
        &self,
        directory: Option<NodeId>,
    ) -> impl Iterator<Item = (NodeId, &OsStr)> {
        let absent = self.absent.iter();
        let absent = absent.filter(move |(parent, _)| directory.is_none_or(|one| *parent == one));
        absent.map(|(parent, name)| (*parent, name.as_os_str()))
    }

    /// Takes all of these names: it is about to be told.
    pub(super) fn take_absent(&mut self) -> HashSet<(NodeId, OsString)> {
        std::mem::take(&mut self.absent)
    }

    /// What it has of an open file's data may be old.
    pub(super) fn note_changed(&mut self, id: NodeId) {
        if !self.changed.contains(&id) {
            self.changed.push(id);
        }
    }

    /// Takes the files whose data may be old: it is about to be told.
    pub(super) fn take_changed(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.changed)
    }

    /// It knows a node no more.
    pub(super) fn forget(&mut self, id: NodeId) {
        self.listed.forget(id);
        self.watches.remove(id);
    }
}
