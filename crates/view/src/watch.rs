//! Watches on the lower side's directories. The view hears of changes in them, so the kernel may
//! cache names and attributes for longer than a moment.
//!
//! *Changes that no watch tells of* show after at most [`Lifetime::Watched`](crate::Lifetime). A task that opens a
//! file always gets the file's state of that moment.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use surmise_lower::{Change, WatchId, Watcher};

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
    removals: u64,
    heard: u64,
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

    /// What is to watch the real directory of a node that is about to be read, unless it is watched or was
    /// found to be one that cannot be.
    pub(crate) fn wanted_for(&mut self, id: NodeId) -> Option<Arc<dyn Watcher>> {
        if self.watcher.is_none() {
            self.miss();
        }
        let watcher = self.watcher.as_ref()?;
        (!self.by_node.contains_key(&id)).then(|| Arc::clone(watcher))
    }

    /// Takes in whether a directory is watched. What is read of it afterwards is true until a change is
    /// heard of. `watch` is from after [`Watches::removals`] was what it is now.
    pub(crate) fn install(&mut self, id: NodeId, watch: Option<WatchId>) {
        let watch = watch.filter(|one| !self.by_watch.contains_key(one));
        if let Some(watch) = watch {
            self.by_watch.insert(watch, id);
        }
        self.by_node.insert(id, watch);
    }

    /// How many watches have ended. A watch that was made before the last of them may be the one.
    pub(crate) fn removals(&self) -> u64 {
        self.removals
    }

    /// How often changes were heard of.
    pub(crate) fn heard(&self) -> u64 {
        self.heard
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
            self.removals += 1;
            self.by_watch.remove(&watch);
            if let Some(watcher) = &self.watcher {
                watcher.remove(watch);
            }
        }
    }

    /// Nothing is heard of from now on.
    pub(crate) fn end(&mut self) {
        self.watcher = None;
        self.removals += 1;
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
        self.heard += u64::from(!changes.is_empty());
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
        let is_gone = matches!(change, Change::Gone(_));
        self.removals += u64::from(is_gone);
        let id = *self.by_watch.get(&watch)?;
        if is_gone {
            self.by_watch.remove(&watch);
            self.by_node.remove(&id);
        }
        Some(change.of(id))
    }
}
