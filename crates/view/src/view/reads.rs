//! Which real files a domain reads: see [`crate::reads`].
//!
//! That is every one that it opens, for whatever, and every symbolic link that it reads. Names that it
//! only looked at, directories that it listed and attributes are not: nearly every program asks for
//! thousands of them and depends on few.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::sync::MutexGuard;

use super::core::{Core, DEPTH_MAX};
use super::{View, WHOLE};
use crate::reads::Reads;
use crate::types::{FileKind, Identity, NodeId};

impl View {
    /// Makes the record of what was read whole: [`crate::load_reads`] needs that. Nobody may read
    /// afterwards, unless a commit that was prepared goes on.
    pub fn end_reads(&self) {
        self.reads().end();
    }

    /// Notes that a real file is opened in this state.
    pub(super) fn note_read(&self, core: &Core, id: NodeId, identity: &Identity) {
        if let Some(place) = core.real_name(id) {
            let path = || core.real_path(id);
            self.reads().note(place, identity, path);
        }
    }

    /// Notes that a symbolic link is read, which is in the state in which it was found.
    pub(super) fn note_link(&self, core: &Core, id: NodeId) {
        let found = core.map.node(id).and_then(|node| node.origin.as_ref());
        let found = found.map(|origin| origin.identity);
        if let Some(identity) = found.or_else(|| core.known.first_use(id)) {
            self.note_read(core, id, &identity);
        }
    }

    /// Begins a new record under a new consent: with what is open, and with the links that were read,
    /// of which the kernel may keep where they lead.
    pub(super) fn renew_reads(&self, core: &mut Core, links: &HashSet<NodeId>) {
        self.reads().renew();
        for id in core.known.open_nodes().collect::<Vec<_>>() {
            if !core.has_object(id)
                && let Ok(attributes) =
                    core.decide_at_once(|core, facts| core.lower_attributes(facts, id))
                && attributes.identity.kind == FileKind::Regular
            {
                self.note_read(core, id, &attributes.identity);
            }
        }
        for id in links {
            self.note_link(core, *id);
        }
    }

    /// The links that the kernel knows and that were read.
    pub(super) fn links_read(&self, core: &Core) -> HashSet<NodeId> {
        let reads = self.reads();
        let mut links = core.known.held_links();
        links.retain(|id| {
            let name = core.real_name(*id);
            name.is_some_and(|(directory, name)| reads.has(directory, name))
        });
        links.into_iter().collect()
    }

    pub(super) fn reads(&self) -> MutexGuard<'_, Reads> {
        self.reads.lock().expect(WHOLE)
    }
}

impl Core {
    /// Where the real inode of a node is; `None` for the root and for what has none.
    fn real_name(&self, id: NodeId) -> Option<(NodeId, &OsStr)> {
        if let Some(origin) = self.map.node(id).and_then(|node| node.origin.as_ref()) {
            return Some((origin.parent, &*origin.name));
        }
        let place = self.known.node(id)?.place.as_deref()?;
        Some((place.parent, &*place.name))
    }

    /// The real path of a node, from the view's root.
    fn real_path(&self, id: NodeId) -> Option<OsString> {
        let mut names = Vec::new();
        let mut at = id;
        while at != NodeId::ROOT {
            let (parent, name) = self.real_name(at)?;
            names.push(name);
            at = parent;
            if names.len() > DEPTH_MAX {
                return None;
            }
        }
        names.reverse();
        Some(names.join(OsStr::new("/")))
    }
}
