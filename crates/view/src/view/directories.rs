//! Real directories, open.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use surmise_lower::{Directory, Lower};

use crate::types::NodeId;

/// The real directories that were used last, and the root.
#[derive(Debug)]
pub(super) struct Directories {
    open: LruCache<NodeId, Arc<dyn Directory>>,
    root: Arc<dyn Directory>,
    root_device: u64,
}

impl Directories {
    /// Those of a lower side, so many at once.
    ///
    /// # Errors
    /// As [`Lower::root`].
    pub(super) fn of(lower: &dyn Lower, slots: NonZeroUsize) -> io::Result<Self> {
        let root = lower.root()?;
        let root_device = root.attributes()?.identity.device;
        Ok(Self {
            open: LruCache::new(slots),
            root,
            root_device,
        })
    }

    pub(super) fn root(&self) -> &Arc<dyn Directory> {
        &self.root
    }

    /// The file system that the root is on.
    pub(super) fn root_device(&self) -> u64 {
        self.root_device
    }

    /// The directory of a node, where it is open.
    pub(super) fn get(&mut self, id: NodeId) -> Option<&Arc<dyn Directory>> {
        match id {
            NodeId::ROOT => Some(&self.root),
            id => self.open.get(&id),
        }
    }

    /// Likewise of one that is not used by that.
    pub(super) fn peek(&self, id: NodeId) -> Option<&Arc<dyn Directory>> {
        self.open.peek(&id)
    }

    pub(super) fn put(&mut self, id: NodeId, directory: Arc<dyn Directory>) {
        self.open.put(id, directory);
    }

    /// They may be elsewhere by now.
    pub(super) fn close_all(&mut self) {
        self.open.clear();
    }
}
