//! What somebody outside changes in what the kernel believes for a while.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use surmise_lower::{Change, Watcher};

use super::View;
use super::core::Core;
use super::facts::{Facts, Step, outcome};
use super::running::{Stale, StaleEntry};
use crate::types::{Attributes, FileKind, Lifetime, NodeId};

/// What the kernel has to be told.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    pub(crate) stale: Stale,
    /// Files that are open, and whose data are others now.
    pub(crate) data: Vec<NodeId>,
}

impl View {
    /// Has an eventfd written to when it is time to begin watching.
    pub(crate) fn announce_watching(&self, wanted: Arc<OwnedFd>) {
        self.locked().believed.watches.announce(wanted);
    }

    /// From now on the kernel may believe for a while what somebody outside may change: the caller tells
    /// it of what changes there.
    pub(crate) fn begin_watching(&self, watcher: Arc<dyn Watcher>) {
        self.locked().believed.watches.begin(watcher);
    }

    /// A queue of changes for [`View::begin_watching`]; a view without one is slower.
    pub(crate) fn watcher(&self) -> Option<Arc<dyn Watcher>> {
        self.lower.watcher()
    }

    /// What was changed since the last call.
    ///
    /// # Errors
    /// When that cannot be known; then nothing is believed for longer than a moment from now on.
    pub(crate) fn take_changes(&self) -> io::Result<Outside> {
        let changes = {
            let mut core = self.locked();
            let changes = core.believed.watches.changes();
            if changes.is_err() {
                core.believed.watches.end();
            }
            changes?
        };
        let mut outside = Outside::default();
        // Many of them are of one file.
        let changes: HashSet<Change<NodeId>> = changes.into_iter().collect();
        for change in changes {
            self.decide_under(
                || Ok(self.locked()),
                |core, facts| core.pass_on(facts, &change, &mut outside),
            )?;
        }
        Ok(outside)
    }

    /// Tells the listener, if there is one, that a name leads to a FIFO of the real file system.
    pub(super) fn met_fifo(&self) {
        if let Some(fifos) = &self.fifos {
            // It does not block; if it is full, it has been told often enough.
            let _ = rustix::io::write(fifos, &1_u64.to_ne_bytes());
        }
    }

    /// Nothing is believed for longer than a moment from now on: the kernel cannot be told.
    pub(crate) fn stop_watching(&self) {
        self.locked().believed.watches.end();
    }
}

impl Core {
    /// How long what a real directory says of a name holds.
    pub(super) fn name_lifetime(&self, facts: &Facts, parent: NodeId) -> Lifetime {
        match self.believed.watches.has(parent) && facts.are_of_now(self) {
            true => Lifetime::Watched,
            false => Lifetime::Brief,
        }
    }

    /// How long attributes that were read from a real inode hold. A directory's own watch tells of
    /// it; of a file with further names, its directory's may not.
    pub(super) fn lower_lifetime(
        &self,
        facts: &Facts,
        id: NodeId,
        attributes: &Attributes,
    ) -> Lifetime {
        let is_heard_of = match attributes.identity.kind {
            FileKind::Directory => self.believed.watches.has(id),
            _ if attributes.links > 1 => false,
            _ => self
                .place(id)
                .is_ok_and(|place| self.believed.watches.has(place.parent)),
        };
        match is_heard_of && facts.are_of_now(self) {
            true => Lifetime::Watched,
            false => Lifetime::Brief,
        }
    }

    fn pass_on(
        &mut self,
        facts: &Facts,
        change: &Change<NodeId>,
        outside: &mut Outside,
    ) -> Step<()> {
        match change {
            Change::Name(parent, name) => {
                outside.stale.nodes.push(*parent);
                outside
                    .stale
                    .entries
                    .push(stale_entry(*parent, name.clone()));
            }
            Change::Attributes(parent, name) => {
                self.pass_on_inode(facts, *parent, name, false, outside)?;
            }
            Change::Data(parent, name) => {
                self.pass_on_inode(facts, *parent, name, true, outside)?;
            }
            Change::Itself(id) => outside.stale.nodes.push(*id),
            Change::Gone(id) => self.pass_on_all(Some(*id), outside),
            Change::Everything => self.pass_on_all(None, outside),
        }
        Ok(())
    }

    fn pass_on_inode(
        &mut self,
        facts: &Facts,
        parent: NodeId,
        name: &OsStr,
        has_new_data: bool,
        outside: &mut Outside,
    ) -> Step<()> {
        let directory = self.directory(facts, parent);
        let found = directory.and_then(|directory| facts.name(parent, &directory, name));
        let node = match outcome(found)? {
            Ok(Some(attributes)) => {
                let key = attributes.identity.key();
                self.map.adopted(key).or_else(|| self.known.by_key(key))
            }
            _ => None,
        };
        // One that is not known is not believed.
        let Some(node) = node else {
            outside
                .stale
                .entries
                .push(stale_entry(parent, name.to_owned()));
            return Ok(());
        };
        outside.stale.nodes.push(node);
        if has_new_data && self.known.is_open(node) && !self.has_object(node) {
            outside.data.push(node);
        }
        Ok(())
    }

    /// Everything that is believed of one directory, or of all.
    fn pass_on_all(&mut self, directory: Option<NodeId>, outside: &mut Outside) {
        let held = self.known.held().filter_map(|(id, known)| {
            let place = known.place.as_deref()?;
            let concerned = directory.is_none_or(|directory| place.parent == directory);
            concerned.then(|| (id, place.clone()))
        });
        let held: Vec<_> = held.collect();
        for (id, place) in held {
            outside.stale.nodes.push(id);
            let name = place.name.into_os_string();
            outside.stale.entries.push(stale_entry(place.parent, name));
            if directory.is_none() && self.known.is_open(id) {
                outside.data.push(id);
            }
        }
        outside.stale.nodes.extend(directory);
        let absent = self.believed.absent_in(directory);
        let entries = absent.map(|(parent, name)| stale_entry(parent, name.to_owned()));
        outside.stale.entries.extend(entries);
    }
}

/// Where there are watches, a name can expire and stay, whatever it leads to.
fn stale_entry(parent: NodeId, name: OsString) -> StaleEntry {
    StaleEntry {
        parent,
        name,
        is_directory: false,
    }
}
