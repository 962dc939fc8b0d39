//! Watches on the lower side's directories: what somebody changes in them is heard of, so the kernel may
//! believe what it was told about them for longer than a moment.
//!
//! *What is not heard of* is believed for at most [`Lifetime::Watched`](crate::Lifetime). Whoever opens a
//! file is always told its state of that moment.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use surmise_lower::{Change, Directory, WatchId, Watcher};

use crate::types::NodeId;

/// After so many looks at real directories, watching them is worth what it costs to end it.
const WORTH_FROM: u32 = 300;

/// The watched directories of a view; none until [`Watches::begin`].
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// `None` where nothing is watched.
    watcher: Option<Arc<dyn Watcher>>,
    /// What is written to when watches would be worth it.
    wanted: Option<Arc<OwnedFd>>,
    /// How often something would have been watched.
    missed: u32,
    /// Also those that can't be watched.
    by_node: HashMap<NodeId, Option<WatchId>>,
    by_watch: HashMap<WatchId, NodeId>,
}

impl Watches {
    /// Has an eventfd written to when much is looked at while nothing is watched.
    pub(crate) fn announce(&mut self, wanted: Arc<OwnedFd>) {
        self.wanted = Some(wanted);
    }

    /// Watches from now on what it is told to: somebody waits for changes there, and tells the kernel.
    pub(crate) fn begin(&mut self, watcher: Arc<dyn Watcher>) {
        self.watcher = Some(watcher);
    }

    /// Whether every change of the directory's names is heard of, and of what they lead to.
    pub(crate) fn has(&self, id: NodeId) -> bool {
        matches!(self.by_node.get(&id), Some(Some(_)))
    }

    /// Watches the real directory of a node, if that can be. What is read of it afterwards is true
    /// until a change is heard of.
    pub(crate) fn add(&mut self, id: NodeId, directory: &dyn Directory) {
        let Some(watcher) = &self.watcher else {
            return self.miss();
        };
        if !self.by_node.contains_key(&id) {
            let watch = watcher.add(directory);
            let watch = watch.filter(|one| !self.by_watch.contains_key(one));
            if let Some(watch) = watch {
                self.by_watch.insert(watch, id);
            }
            self.by_node.insert(id, watch);
        }
    }

    fn miss(&mut self) {
        self.missed = self.missed.saturating_add(1);
        if let (WORTH_FROM, Some(wanted)) = (self.missed, &self.wanted) {
            // Cannot fail: it is the first.
            let _ = rustix::io::write(wanted, &1_u64.to_ne_bytes());
        }
    }

    /// The kernel does not know the node any more.
    pub(crate) fn remove(&mut self, id: NodeId) {
        if let Some(Some(watch)) = self.by_node.remove(&id) {
            self.by_watch.remove(&watch);
            if let Some(watcher) = &self.watcher {
                watcher.remove(watch);
            }
        }
    }

    /// Nothing is heard of from now on.
    pub(crate) fn end(&mut self) {
        self.watcher = None;
        self.by_node.clear();
        self.by_watch.clear();
    }

    /// What has changed since the last call.
    ///
    /// # Errors
    /// As [`Watcher::changes`].
    pub(crate) fn changes(&mut self) -> io::Result<Vec<Change<NodeId>>> {
        let Some(watcher) = &self.watcher else {
            return Ok(Vec::new());
        };
        let changes = watcher.changes()?;
        Ok(changes
            .into_iter()
            .filter_map(|change| self.take(change))
            .collect())
    }

    /// What a change is of; `None` where nobody believes anything of the directory any more.
    fn take(&mut self, change: Change) -> Option<Change<NodeId>> {
        let Some(watch) = change.watch() else {
            return Some(Change::Everything);
        };
        let id = *self.by_watch.get(&watch)?;
        if matches!(change, Change::Gone(_)) {
            self.by_watch.remove(&watch);
            self.by_node.remove(&id);
        }
        Some(change.of(id))
    }
}
